"""Tokens of memory and processors: how many workers run side by side."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Event
from typing import Final

import psutil

from phoneproof.errors import Interrupted

_SHARE: Final = 0.7
"""Of the memory that is free when a run begins; the rest is for the system and for what needs more."""
_POLL_S: Final = 0.2


class WorkerTokens:
    """Lets as many workers run as there are processors and memory for; one always may.

    bytes_in_all: None for _SHARE of what is free now. slots: None for the number of processors.
    """

    def __init__(self, bytes_in_all: int | None = None, slots: int | None = None) -> None:
        self._bytes = bytes_in_all or int(psutil.virtual_memory().available * _SHARE)
        self._slots = slots or psutil.cpu_count() or 1
        self._condition = Condition()
        self._taken: list[int] = []

    @contextmanager
    def take(self, need_bytes: int, stop: Event) -> Iterator[None]:
        """Wait until a worker that needs so much memory may run. Interrupted once `stop` is set."""
        with self._condition:
            while not self._fits(need_bytes):
                self._condition.wait(_POLL_S)
                if stop.is_set():
                    raise Interrupted("The run was stopped.")
            self._taken.append(need_bytes)
        try:
            yield
        finally:
            with self._condition:
                self._taken.remove(need_bytes)
                self._condition.notify_all()

    def _fits(self, need_bytes: int) -> bool:
        if not self._taken:
            return True
        return len(self._taken) < self._slots and sum(self._taken) + need_bytes <= self._bytes
