"""Launches the host harness until a job is at its end, and says how each launch ended.

The runner is a process that may crash, hang or eat memory; this side only watches its files and its memory.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event as ThreadEvent
from typing import Final

from phoneproof.devices.attempt_words import recover, write_word
from phoneproof.devices.event_follower import EventFollower, Patience
from phoneproof.errors import DeviceError, StorageError
from phoneproof.protocol.attempts import next_attempt
from phoneproof.protocol.event_files import read_events
from phoneproof.protocol.events import (
    EndCause,
    Event,
    FactValue,
    Heartbeat,
)
from phoneproof.protocol.exit_codes import EXIT_STORAGE
from phoneproof.protocol.job import Job
from phoneproof.workers.watched import Ending, WatchedProcess, log_tail
from phoneproof.workers.worker import worker_environment

_POLL_S: Final = 0.05
_LEAST_FREE_BYTES: Final = 2**20
"""Below this no runner is launched: it would fail on its first events and outputs."""

Sink = Callable[[Sequence[Event]], None]


@dataclass(frozen=True)
class HarnessCommand:
    """How the harness is started. runtimes: further ones, `module:function` by name.

    needed: names of the runtimes that a description looks for; None for all.
    """

    interpreter: Path = Path(sys.executable)
    python_path: tuple[Path, ...] = ()
    runtimes: Mapping[str, str] | None = None
    needed: tuple[str, ...] | None = None

    def arguments(self, *arguments: str) -> list[str]:
        """The command line that starts it."""
        extra = [f"--runtime={name}={target}" for name, target in (self.runtimes or {}).items()]
        extra += [f"--needed={name}" for name in self.needed or ()]
        parent = f"--parent={os.getpid()}"
        return [str(self.interpreter), "-m", "phoneproof.harness", parent, *extra, *arguments]


class Supervisor:
    """One job in its folder. sink: given all events of the job once each, in their order, as they come."""

    def __init__(self, folder: Path, job: Job, command: HarnessCommand, sink: Sink) -> None:
        self._folder = folder
        self._job = job
        self._command = command
        self._sink = sink

    def run(self, stop: ThreadEvent) -> None:
        """Launch the runner as often as the rule for attempts asks, until the job ends or `stop` is set.

        StorageError when the disk refuses the files of either side: that says nothing about the case under
        way, and launching again would only fail again. The same call goes on once there is room.
        """
        try:
            recover(self._folder, self._job)
            self._sink(read_events(self._folder))
            while not stop.is_set():
                attempt = next_attempt(self._job, read_events(self._folder))
                if attempt is None:
                    return
                _require_space(self._folder)
                self._attempt(attempt.number, stop)
        except OSError as error:
            if error.filename == str(self._command.interpreter):
                raise _no_interpreter(error) from error
            raise _disk_refused(self._folder, error.strerror or str(error)) from error

    def _attempt(self, number: int, stop: ThreadEvent) -> None:
        log = self._folder / "logs" / f"{number:04d}.txt"
        follower = EventFollower(self._folder, number, self._job)
        arguments = self._command.arguments(str(self._folder.resolve()))
        environment = worker_environment(self._command.python_path)
        process = WatchedProcess(arguments, environment, log, self._folder)
        try:
            self._watch(process, follower, stop)
        finally:
            process.kill("interrupted")
            ending = process.ending()
        was_killed_for_garbage = follower.garbage is not None
        last = follower.read()
        self._sink(last)
        follower.cut()
        cause: EndCause = ending.cause
        if cause == "timed_out" and not all(isinstance(event, Heartbeat) for event in last):
            # The late step came to its end while it was being ended: the one that follows it is not to blame.
            cause = "interrupted"
        if was_killed_for_garbage or (follower.garbage is not None and ending.cause == "exited"):
            # How a process that wrote nonsense ended after that depends on how fast it was noticed.
            cause, ending = "protocol", replace(ending, code=None)
        self._end(number, cause, ending, follower.garbage, log)

    def _watch(self, process: WatchedProcess, follower: EventFollower, stop: ThreadEvent) -> None:
        patience = Patience(self._job)
        limit = self._job.limits.memory_bytes
        while process.running:
            time.sleep(_POLL_S)
            new = follower.read()
            self._sink(new)
            for event in new:
                patience.take(event)
            memory = process.memory_bytes()
            if stop.is_set() or follower.garbage is not None:
                process.kill("interrupted")
            elif limit is not None and memory > limit:
                process.kill("low_memory")
            elif patience.is_over():
                process.kill("timed_out")
            process.trim_log()

    def _end(self, number: int, cause: EndCause, ending: Ending, garbage: str | None, log: Path) -> None:
        facts: dict[str, FactValue] = {"peak_bytes": ending.peak_bytes}
        if garbage is not None:
            facts["garbage"] = garbage
        tail = log_tail(log) if cause != "interrupted" and ending.code != 0 else ()
        if ending.cause == "exited" and ending.code == EXIT_STORAGE:
            facts["storage"] = tail[-1] if tail else None
            self._sink([write_word(self._folder, number, "interrupted", ending, facts, tail)])
            raise _disk_refused(self._folder, tail[-1] if tail else "the harness could not write its files")
        self._sink([write_word(self._folder, number, cause, ending, facts, tail)])


def _require_space(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < _LEAST_FREE_BYTES:
        raise _disk_refused(folder, f"{free} bytes are free")


def _no_interpreter(error: OSError) -> DeviceError:
    return DeviceError(
        f"The interpreter of the host harness cannot be started: {error.strerror}.",
        where=str(error.filename),
        next_step="Run `phoneproof doctor --deep`.",
    )


def _disk_refused(folder: Path, reason: str) -> StorageError:
    return StorageError(
        f"The disk refused the files of a job: {reason.rstrip('.')}.",
        where=str(folder),
        next_step="Make room, or give the folder back its permissions, and run the same command again.",
    )
