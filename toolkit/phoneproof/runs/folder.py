"""A run's folder: what was asked, what is done, and the lock that keeps a second process out.

run.json        the effective plan and where it came from, written once
journal.jsonl   append-only; begins with what was planned
work/           one folder per worker step: request, result, log
builds/  jobs/  report/
"""

import errno
import json
import os
import shutil
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout

import phoneproof
from phoneproof.builds.store import storage_errors
from phoneproof.errors import BusyError, ProtocolError, RunFolderError
from phoneproof.plan.model import Plan, from_effective
from phoneproof.protocol.event_files import cut_torn_line
from phoneproof.protocol.journal import (
    JOURNAL_FILE,
    RUN_FILE,
    RUN_VERSION,
    EntryKind,
    JournalFact,
    JournalLine,
    RunRecord,
    journal_text,
    parse_journal,
    read_run,
    run_text,
)
from phoneproof.protocol.work import write_atomically
from phoneproof.runs.near_paths import did_you_mean

LOCK_FILE: Final = ".lock"
OUTCOME_FILE: Final = "outcome.json"


class RunFolder:
    """An open run. Its journal is written by one process at a time, from any of its threads."""

    def __init__(self, path: Path, record: RunRecord) -> None:
        self.path = path
        self.record = record
        self._lock = threading.Lock()
        cut_torn_line(path / JOURNAL_FILE)
        lines = read_journal(path)
        self._next_seq = len(lines)
        self._finished = {line.step: line.facts for line in lines if line.entry == "step_finished"}
        self.was_begun = bool(lines)
        self.is_finished = any(line.entry == "run_finished" for line in lines)

    @property
    def plan(self) -> Plan:
        """The plan that the run was begun with."""
        return from_effective(dict(self.record.plan), Path(self.record.plan_folder or "."))

    def say(self, entry: EntryKind, step: str | None = None, **facts: JournalFact) -> None:
        """Append a line to the journal, synced before anything that follows from it."""
        with self._lock:
            line = JournalLine(self._next_seq, time.time_ns() // 1_000_000, entry, step, facts)
            with storage_errors(self.path):
                _append(self.path / JOURNAL_FILE, journal_text(line).encode())
            self._next_seq += 1
            if entry == "step_finished":
                self._finished[step] = facts

    def outcome_of(self, step: str, key: str) -> dict[str, Any] | None:
        """The outcome of a step that this run has finished with the same key, else None."""
        facts = self._finished.get(step)
        if facts is None or facts.get("key") != key:
            return None
        try:
            written = json.loads((self.work(step) / OUTCOME_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if not isinstance(written, dict) or written.get("key") != key:
            return None
        outcome = written.get("outcome")
        return outcome if isinstance(outcome, dict) else None

    def finish(self, step: str, key: str, outcome: Mapping[str, Any]) -> None:
        """Write a step's outcome and say in the journal that it is finished."""
        folder = self.work(step)
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            # With the key: a process killed before its line in the journal leaves a newer outcome than that.
            content = {"key": key, "outcome": outcome}
            write_atomically(folder / OUTCOME_FILE, json.dumps(content, allow_nan=False))
        self.say("step_finished", step, key=key)

    def work(self, step: str) -> Path:
        """Work folder of a step. Steps are plain ids with slashes, so they are inner paths."""
        return self.path / "work" / step


def read_journal(path: Path) -> tuple[JournalLine, ...]:
    """The journal of a run, which another process may be writing; nothing is changed. () if there is none."""
    journal = path / JOURNAL_FILE
    return parse_journal(journal.read_bytes(), str(journal)) if journal.exists() else ()


def check_place(path: Path, plan: Plan) -> None:
    """RunFolderError unless the folder is a run of this plan, is empty, or is not there yet."""
    if (path / RUN_FILE).exists():
        if read_record(path).plan_sha256 != plan.digest:
            raise RunFolderError(
                "This run was begun with another plan.",
                where=str(path),
                next_step="Choose another folder with --out, or take the plan back to what it was.",
            )
    elif path.exists() and (not path.is_dir() or any(not _is_own(entry) for entry in path.iterdir())):
        raise RunFolderError(
            "This is not empty, and it is no run.",
            where=str(path),
            next_step="Choose another folder with --out.",
        )


def _is_own(entry: Path) -> bool:
    """Whether a file can stand in a run's folder before its run.json does."""
    return entry.name == LOCK_FILE or entry.match(f".{RUN_FILE}.*.tmp")


def _create(path: Path, plan: Plan, command: tuple[str, ...]) -> None:
    record = RunRecord(
        version=RUN_VERSION,
        run_id=uuid.uuid4().hex[:12],
        created_ms=time.time_ns() // 1_000_000,
        phoneproof_version=phoneproof.__version__,
        plan_sha256=plan.digest,
        plan=plan.effective(),
        plan_folder=str(plan.folder),
        command=command,
    )
    with storage_errors(path):
        write_atomically(path / RUN_FILE, run_text(record))


def read_record(path: Path) -> RunRecord:
    """run.json of a run. RunFolderError where there is none or it cannot be read."""
    try:
        return read_run((path / RUN_FILE).read_bytes())
    except FileNotFoundError:
        raise RunFolderError("There is no run here.", where=str(path), next_step=_nearest_run(path)) from None
    except OSError as error:
        raise RunFolderError(
            f"The run cannot be read: {error.strerror}.",
            where=str(path),
            next_step="Name the folder of a run.",
        ) from None
    except ProtocolError as error:
        raise RunFolderError(error.what, where=str(path / RUN_FILE), next_step=error.next_step) from error


def report_file(path: Path) -> Path:
    """report.json of a run. RunFolderError where there is no run, or none that has come to its report."""
    read_record(path)
    file = path / "report" / "report.json"
    if not file.exists():
        raise RunFolderError(
            "This run has no report yet.",
            where=str(path),
            next_step=f"Finish it: `phoneproof run --out {path}`.",
        )
    return file


def _nearest_run(path: Path) -> str:
    near = did_you_mean(path, lambda entry: (entry / RUN_FILE).exists())
    return f"{near}Give the folder of a run (it has a run.json)."


@contextmanager
def opened(path: Path, plan: Plan, command: tuple[str, ...]) -> Iterator[RunFolder]:
    """The run in this folder, begun now if there is none, and locked for this process.

    RunFolderError as `check_place`; BusyError if another process works on it.
    """
    check_place(path, plan)
    with held(path):
        if not (path / RUN_FILE).exists():
            _create(path, plan, command)
        check_place(path, plan)  # again, now that nobody else can begin one here
        _remove_leftovers(path)
        yield RunFolder(path, read_record(path))


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep other processes out of a run's folder, made if there is none. BusyError while one is in it."""
    lock = FileLock(path / LOCK_FILE, timeout=0)
    try:
        with storage_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            lock.acquire()
    except Timeout:
        raise BusyError(
            "Another phoneproof works on this run.", where=str(path), next_step="Wait for it, or end it."
        ) from None
    try:
        yield
    finally:
        lock.release()


def _remove_leftovers(path: Path) -> None:
    """Remove what a killed process was about to rename: files and folders are written as `.NAME.tmp`."""
    with storage_errors(path):
        for leftover in list(path.rglob(".*.tmp")):
            if leftover.is_dir() and not leftover.is_symlink():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)


def _append(path: Path, line: bytes) -> None:
    """Append a whole line or nothing: after half a line, on a full disk, the next one would be spoiled."""
    with path.open("ab", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            if file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            os.fsync(file.fileno())
        except OSError:
            file.truncate(size)
            raise
