"""A run's folder: what was asked, what is done, and the lock that keeps a second process out.

run.json        the effective plan and where it came from, written once
journal.jsonl   append-only; begins with what was planned
work/           one folder per worker step: request, result, log
builds/  jobs/  report/
"""

import json
import os
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

LOCK_FILE: Final = ".lock"
OUTCOME_FILE: Final = "outcome.json"


class RunFolder:
    """An open run. Its journal is written by one process at a time, from any of its threads."""

    def __init__(self, path: Path, record: RunRecord) -> None:
        self.path = path
        self.record = record
        self._lock = threading.Lock()
        cut_torn_line(path / JOURNAL_FILE)
        lines = self._read_journal()
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
            with storage_errors(self.path), (self.path / JOURNAL_FILE).open("ab") as file:
                file.write(journal_text(line).encode())
                file.flush()
                os.fsync(file.fileno())
            self._next_seq += 1
            if entry == "step_finished":
                self._finished[step] = facts

    def outcome_of(self, step: str, key: str) -> dict[str, Any] | None:
        """The outcome of a step that this run has finished with the same key, else None."""
        facts = self._finished.get(step)
        if facts is None or facts.get("key") != key:
            return None
        try:
            outcome = json.loads((self.work(step) / OUTCOME_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return outcome if isinstance(outcome, dict) else None

    def finish(self, step: str, key: str, outcome: Mapping[str, Any]) -> None:
        """Write a step's outcome and say in the journal that it is finished."""
        folder = self.work(step)
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / OUTCOME_FILE, json.dumps(outcome, allow_nan=False))
        self.say("step_finished", step, key=key)

    def work(self, step: str) -> Path:
        """Work folder of a step. Steps are plain ids with slashes, so they are inner paths."""
        return self.path / "work" / step

    def _read_journal(self) -> tuple[JournalLine, ...]:
        path = self.path / JOURNAL_FILE
        return parse_journal(path.read_bytes(), str(path)) if path.exists() else ()


def create_run(path: Path, plan: Plan, command: tuple[str, ...]) -> None:
    """Make a run's folder with its run.json. RunFolderError if something else is there."""
    if path.exists() and (not path.is_dir() or any(p.name != LOCK_FILE for p in path.iterdir())):
        raise RunFolderError(
            "This is not empty, and it is no run.",
            where=str(path),
            next_step="Choose another folder with --out.",
        )
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
        path.mkdir(parents=True, exist_ok=True)
        write_atomically(path / RUN_FILE, run_text(record))


def read_record(path: Path) -> RunRecord:
    """run.json of a run. RunFolderError where there is none or it cannot be read."""
    try:
        return read_run((path / RUN_FILE).read_bytes())
    except FileNotFoundError:
        raise RunFolderError(
            "There is no run here.",
            where=str(path),
            next_step="Give the folder of a run (it has a run.json).",
        ) from None
    except ProtocolError as error:
        raise RunFolderError(error.what, where=str(path / RUN_FILE), next_step=error.next_step) from error


@contextmanager
def opened(path: Path) -> Iterator[RunFolder]:
    """The run, locked for this process. BusyError if another process works on it."""
    record = read_record(path)
    lock = FileLock(path / LOCK_FILE, timeout=0)
    try:
        with storage_errors(path):
            lock.acquire()
    except Timeout:
        raise BusyError(
            "Another phoneproof works on this run.", where=str(path), next_step="Wait for it, or end it."
        ) from None
    try:
        yield RunFolder(path, record)
    finally:
        lock.release()
