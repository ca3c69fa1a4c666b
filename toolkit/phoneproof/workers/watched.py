"""A child process in a group of its own, watched for time and memory, its output in a log file."""

import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import psutil

from phoneproof.workers.out_of_memory import OomKills

_TREE_EVERY_S: Final = 1.0
_TREE_SHARE: Final = 0.005
"""Most of one core's time that may go into looking for children: it takes 15 us for each process there is,
and a benchmark may be running on the core beside."""
_GRACE_S: Final = 0.5
_DEATH_S: Final = 1.0
_LOG_BYTES: Final = 32 * 2**20
_MARK: Final = "PHONEPROOF_PROCESS"
"""Environment variable that names a child: what it started inherits it, wherever it moved to."""

Cause = Literal["exited", "signal", "timed_out", "low_memory", "interrupted"]
Confidence = Literal["high", "medium", "low"]


@dataclass(frozen=True)
class Ending:
    """How a process ended. code: exit code, or the signal's number for causes but `exited`."""

    cause: Cause
    code: int | None
    confidence: Confidence
    peak_bytes: int


class WatchedProcess:
    """A running child. Memory is resident memory of the whole tree: limits on address space break
    TensorFlow and torch, which reserve far more than they use.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], log: Path, folder: Path
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        self._mark = uuid.uuid4().hex
        self._oom_kills = OomKills()
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**environment, _MARK: self._mark},
                cwd=folder,
                start_new_session=True,
            )
        self._tree: list[psutil.Process] = []
        self._tree_read = 0.0
        self._tree_every_s = _TREE_EVERY_S
        self._killed_for: Cause | None = None
        self.peak_bytes = 0

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def memory_bytes(self) -> int:
        """Resident memory of the process and its children now, in bytes."""
        now = time.monotonic()
        if not self._tree or now - self._tree_read > self._tree_every_s:
            self._tree = _tree_of(self._process.pid)
            self._tree_read = now
            self._tree_every_s = max(_TREE_EVERY_S, (time.monotonic() - now) / _TREE_SHARE)
        total = 0
        for process in self._tree:
            try:
                total += process.memory_info().rss
            except psutil.Error:
                continue
        self.peak_bytes = max(self.peak_bytes, total)
        return total

    def trim_log(self) -> None:
        """Empty a log that grew beyond 32 MiB: a process that prints without end must not fill the disk.

        The child appends, so it goes on at the new end.
        """
        with contextlib.suppress(OSError):
            if self._log.stat().st_size > _LOG_BYTES:
                os.truncate(self._log, 0)

    def kill(self, cause: Cause) -> None:
        """End the process and its children. With timed_out it may first write its stacks to the log."""
        if not self.running:
            return
        self._killed_for = cause
        if cause == "timed_out":
            self._signal_group(signal.SIGABRT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_S)
        self._signal_group(signal.SIGKILL)
        self._process.wait()

    def ending(self) -> Ending:
        """Wait for the end, end what the process left running, and say what the end was."""
        code = self._process.wait()
        self._signal_group(signal.SIGKILL)
        _kill_marked(self._mark)
        if self._killed_for is not None:
            return Ending(self._killed_for, -code if code < 0 else code, "high", self.peak_bytes)
        if code >= 0:
            return Ending("exited", code, "high", self.peak_bytes)
        if -code == signal.SIGKILL:
            confidence = self._oom_kills.confidence()
            if confidence is not None:
                return Ending("low_memory", -code, confidence, self.peak_bytes)
            return Ending("signal", -code, "low", self.peak_bytes)
        return Ending("signal", -code, "high", self.peak_bytes)

    def _signal_group(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            return


def log_tail(log: Path, lines: int = 40, limit_bytes: int = 16_384) -> tuple[str, ...]:
    """The last lines of a log, whatever bytes are in it."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - limit_bytes))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return ()
    return tuple(text.splitlines()[-lines:])


def _tree_of(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.Error:
        return []


def _kill_marked(mark: str) -> None:
    """End every process with this mark: a daemon leaves the group of whoever started it, not the mark."""
    killed: list[psutil.Process] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(_MARK) == mark:
                process.kill()
                killed.append(process)
    psutil.wait_procs(killed, timeout=_DEATH_S)
