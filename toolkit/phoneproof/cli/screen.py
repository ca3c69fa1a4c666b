"""What a person sees while a run goes: stages, steps, elapsed time, and time left where it is countable."""

import threading
from types import TracebackType
from typing import Self

from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import TimeRemainingColumn as TimeLeft

from phoneproof.cli.errors_text import printable, told_briefly
from phoneproof.cli.wide_console import wide_console
from phoneproof.errors import PhoneproofError
from phoneproof.findings import Finding
from phoneproof.report.sentences import finding_sentence

_HOW = {"made": "made", "hit": "HIT: out of the store", "kept": "kept: done before"}


class Screen:
    """An Observer on standard error. Without a terminal it says nothing but findings and failures."""

    def __init__(self, verbose: bool, quiet: bool) -> None:
        self._console = wide_console(stderr=True)
        self._live = self._console.is_terminal and not quiet
        self._verbose = verbose
        self._quiet = quiet
        self._lock = threading.Lock()
        self._tasks: dict[str, TaskID] = {}
        self._stage = ""
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[what]}"),
            TimeElapsedColumn(),
            TimeLeft(),
            console=self._console,
            transient=True,
            disable=not self._live,
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def stage(self, name: str) -> None:
        """See Observer."""
        self._stage = name
        if self._live or self._verbose:
            self._console.print(f"[bold]{name}[/bold]")

    def started(self, step: str) -> None:
        """See Observer."""
        with self._lock:
            self._tasks[step] = self._progress.add_task(escape(step), total=None, what="")

    def progress(self, step: str, what: str, done: int | None, total: int | None) -> None:
        """See Observer."""
        with self._lock:
            if step in self._tasks:
                text = escape(printable(what))
                self._progress.update(self._tasks[step], what=text, completed=done or 0, total=total)

    def finished(self, step: str, how: str) -> None:
        """See Observer."""
        seconds = self._end(step)
        if self._live or self._verbose:
            took = f"  {seconds:.1f} s" if seconds is not None and how == "made" else ""
            self._console.print(f"  {escape(step)}  [dim]{_HOW.get(how, how)}{took}[/dim]")

    def failed(self, step: str, error: PhoneproofError) -> None:
        """See Observer."""
        self._end(step)
        if not self._quiet:
            self._console.print(
                f"  {escape(step)}  [bold red]failed[/bold red]: {escape(printable(told_briefly(error)))}"
            )

    def found(self, finding: Finding) -> None:
        """See Observer."""
        if self._quiet:
            return
        waived = " (waived)" if finding.waived else ""
        sentence = escape(printable(finding_sentence(finding)))
        self._console.print(f"  {finding.severity.value} {finding.id}{waived}, {finding.subject}: {sentence}")

    def _end(self, step: str) -> float | None:
        with self._lock:
            task_id = self._tasks.pop(step, None)
            if task_id is None:
                return None
            task = next((t for t in self._progress.tasks if t.id == task_id), None)
            seconds = task.elapsed if task is not None else None
            self._progress.remove_task(task_id)
            return seconds
