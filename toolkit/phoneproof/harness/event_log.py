"""The runner's event file: appended by one process, each line whole, flushed and mostly synced."""

import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from phoneproof.protocol.events import EVENTS_FOLDER, RunnerEvent, Stamp, event_line

UNSTAMPED: Final = Stamp(attempt=0, seq=0, monotonic_ns=0, wall_ms=0)
"""Stands in an event until it is written: order and clocks are settled at that moment."""


class EventLog:
    """Events of one attempt. Safe for the heartbeat's thread beside the runner's."""

    def __init__(self, folder: Path, attempt: int) -> None:
        events = folder / EVENTS_FOLDER
        events.mkdir(exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._descriptor = os.open(events / f"{attempt:04d}.jsonl", flags, 0o644)
        self._attempt = attempt
        self._seq = 0
        self._lock = threading.Lock()

    def write(self, event: RunnerEvent, sync: bool = True) -> None:
        """Stamp and append one event. Unsynced lines outlive the process, not the machine."""
        with self._lock:
            stamp = Stamp(self._attempt, self._seq, time.monotonic_ns(), time.time_ns() // 1_000_000)
            self._seq += 1
            _write_all(self._descriptor, event_line(replace(event, stamp=stamp)).encode())
            if sync:
                os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
