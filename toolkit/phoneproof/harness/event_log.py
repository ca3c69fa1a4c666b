"""The runner's event file: appended by one process, each line whole, flushed and mostly synced."""

import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from phoneproof.errors import ProtocolError
from phoneproof.harness.own_files import leave_for_storage
from phoneproof.protocol.events import EVENTS_FOLDER, RunnerEvent, Stamp, event_line
from phoneproof.protocol.exit_codes import EXIT_FORKED

UNSTAMPED: Final = Stamp(attempt=0, seq=0, monotonic_ns=0, wall_ms=0)
"""Stands in an event until it is written: order and clocks are settled at that moment."""


class EventLog:
    """Events of one attempt. Safe for the heartbeat's thread beside the runner's.

    A write that the disk refuses ends the process (see own_files.py).
    """

    def __init__(self, folder: Path, attempt: int) -> None:
        events = folder / EVENTS_FOLDER
        path = events / f"{attempt:04d}.jsonl"
        try:
            events.mkdir(exist_ok=True)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            # A launch that was killed before its first whole line leaves an empty or torn file.
            if b"\n" in path.read_bytes():
                raise ProtocolError("The attempt has events already.", where=path.name)
            os.ftruncate(self._descriptor, 0)
        except OSError as error:
            leave_for_storage(error)
        self._attempt = attempt
        self._owner = os.getpid()
        self._seq = 0
        self._lock = threading.Lock()

    def write(self, event: RunnerEvent, sync: bool = True) -> None:
        """Stamp and append one event. Unsynced lines outlive the process, not the machine."""
        self.leave_if_forked()
        with self._lock:
            stamp = Stamp(self._attempt, self._seq, time.monotonic_ns(), time.time_ns() // 1_000_000)
            line = event_line(replace(event, stamp=stamp)).encode()
            try:
                _write_all(self._descriptor, line)
                if sync:
                    os.fsync(self._descriptor)
            except OSError as error:
                leave_for_storage(error)
            self._seq += 1

    def leave_if_forked(self) -> None:
        """End this process if it is a copy that a runtime forked: the files have one writer."""
        if os.getpid() != self._owner:
            os._exit(EXIT_FORKED)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
