"""Launches the host harness until a job is at its end, and says how each launch ended.

The runner is a process that may crash, hang or eat memory; this side only watches its files and its memory.
"""

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event as ThreadEvent
from typing import Final

from phoneproof.errors import ProtocolError
from phoneproof.protocol.attempts import next_attempt
from phoneproof.protocol.event_files import cut_torn_line, read_events
from phoneproof.protocol.events import (
    ATTEMPTS_FILE,
    EVENTS_FOLDER,
    AttemptEnded,
    CaseFinished,
    CaseStarted,
    EndCause,
    Event,
    Heartbeat,
    SampleStarted,
    Stamp,
    event_line,
    parse_events,
)
from phoneproof.protocol.job import BenchmarkCase, InferCase, Job
from phoneproof.workers.watched import Ending, WatchedProcess, log_tail
from phoneproof.workers.worker import worker_environment

_POLL_S: Final = 0.05


@dataclass(frozen=True)
class HarnessCommand:
    """How the harness is started. runtimes: further ones, `module:function` by name."""

    interpreter: Path = Path(sys.executable)
    python_path: tuple[Path, ...] = ()
    runtimes: Mapping[str, str] | None = None

    def arguments(self, *arguments: str) -> list[str]:
        """The command line that starts it."""
        extra = [f"--runtime={name}={target}" for name, target in (self.runtimes or {}).items()]
        parent = f"--parent={os.getpid()}"
        return [str(self.interpreter), "-m", "phoneproof.harness", parent, *extra, *arguments]


def supervise(folder: Path, job: Job, command: HarnessCommand, stop: ThreadEvent) -> None:
    """Launch the runner as often as the rule for attempts asks, until the job ends or `stop` is set."""
    cut_torn_line(folder / ATTEMPTS_FILE)
    while not stop.is_set():
        attempt = next_attempt(job, read_events(folder))
        if attempt is None:
            return
        _attempt(folder, job, command, attempt.number, stop)


def _attempt(folder: Path, job: Job, command: HarnessCommand, number: int, stop: ThreadEvent) -> None:
    log = folder / "logs" / f"{number:04d}.txt"
    events = _Follower(folder / EVENTS_FOLDER / f"{number:04d}.jsonl", job)
    environment = worker_environment(command.python_path)
    process = WatchedProcess(command.arguments(str(folder.resolve())), environment, log, folder)
    garbage: str | None = None
    try:
        garbage = _watch(process, events, job, stop)
    finally:
        process.kill("interrupted")
    ending = process.ending()
    cut = events.cut_garbage()
    cause: EndCause = "protocol" if garbage or (cut and ending.cause == "exited") else ending.cause
    garbage = garbage or cut
    _write_end(folder, number, cause, ending, garbage, log)


def _watch(process: WatchedProcess, events: "_Follower", job: Job, stop: ThreadEvent) -> str | None:
    """Until the process ends; what was wrong with its events, if it was that."""
    while process.running:
        time.sleep(_POLL_S)
        if stop.is_set():
            process.kill("interrupted")
        try:
            events.read()
        except ProtocolError as error:
            process.kill("interrupted")
            return str(error)
        memory = process.memory_bytes()
        if job.limits.memory_bytes is not None and memory > job.limits.memory_bytes:
            process.kill("low_memory")
        if events.is_late():
            process.kill("timed_out")
    return None


class _Follower:
    """Reads an attempt's events as they come and knows how long the next may take."""

    def __init__(self, path: Path, job: Job) -> None:
        self._path = path
        self._job = job
        self._read = 0
        self._progress = time.monotonic()
        self._limit_ms = job.limits.load_timeout_ms

    def read(self) -> None:
        """Take in new whole lines. ProtocolError for one that is no event."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except FileNotFoundError:
            return
        whole = data.rfind(b"\n") + 1
        for event in parse_events(data[:whole], self._path.name):
            self._take(event)
        self._read += whole

    def is_late(self) -> bool:
        """Whether the step under way has used up its time."""
        return (time.monotonic() - self._progress) * 1_000 > self._limit_ms

    def cut_garbage(self) -> str | None:
        """Cut the file before its first line that is no event, or its torn last one; what was cut."""
        cut_torn_line(self._path)
        if not self._path.exists():
            return None
        data = self._path.read_bytes()
        kept = 0
        for line in data.splitlines(keepends=True):
            try:
                parse_events(line, self._path.name)
            except ProtocolError as error:
                with self._path.open("r+b") as file:
                    file.truncate(kept)
                return str(error)
            kept += len(line)
        return None

    def _take(self, event: Event) -> None:
        if isinstance(event, Heartbeat):
            return
        limits = self._job.limits
        self._progress = time.monotonic()
        if isinstance(event, CaseStarted):
            case = self._job.case(event.case_id)
            self._limit_ms = limits.load_timeout_ms
            if isinstance(case, BenchmarkCase):
                self._limit_ms = 2 * limits.load_timeout_ms + limits.round_timeout_ms + case.warmup_ms
            elif isinstance(case, InferCase):
                self._limit_ms = limits.load_timeout_ms + limits.sample_timeout_ms
        elif isinstance(event, SampleStarted):
            self._limit_ms = limits.sample_timeout_ms
        elif isinstance(event, CaseFinished):
            self._limit_ms = limits.load_timeout_ms
        else:
            self._limit_ms = max(limits.round_timeout_ms, limits.sample_timeout_ms)


def _write_end(
    folder: Path, number: int, cause: EndCause, ending: Ending, garbage: str | None, log: Path
) -> None:
    stamp = Stamp(number, 0, time.monotonic_ns(), time.time_ns() // 1_000_000)
    facts: dict[str, str | int | float | bool | None] = {"peak_bytes": ending.peak_bytes}
    if garbage:
        facts["garbage"] = garbage[:400]
    tail = log_tail(log) if cause != "interrupted" and ending.code != 0 else ()
    end = AttemptEnded("attempt_ended", stamp, cause, ending.code, ending.confidence, facts, tail)
    with (folder / ATTEMPTS_FILE).open("ab") as file:
        file.write(event_line(end).encode())
        file.flush()
        os.fsync(file.fileno())
