"""Reading the events of an attempt as its runner writes them, held against the job."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from phoneproof.errors import ProtocolError
from phoneproof.protocol.event_checks import check_fits
from phoneproof.protocol.events import (
    EVENTS_FOLDER,
    AttemptEnded,
    CaseFinished,
    CaseStarted,
    Event,
    Heartbeat,
    JobFinished,
    JobStarted,
    SampleStarted,
    parse_events,
)
from phoneproof.protocol.job import BenchmarkCase, Case, InferCase, Job

_START_MS: Final = 60_000
"""Least time for a runner to start: importing its own modules takes seconds on a busy machine."""
_LEAVE_MS: Final = 10_000
"""Most time that a runner has to leave once it wrote job_finished."""
_STALL_S: Final = 5.0
"""A supervisor that did not look for so long was itself stopped."""


def events_file(folder: Path, attempt: int) -> Path:
    """The file that the runner of an attempt writes its events to."""
    return folder / EVENTS_FOLDER / f"{attempt:04d}.jsonl"


class EventFollower:
    """The events of one attempt so far. Memory does not grow with them.

    garbage: what was wrong with the first line that is no event of this attempt at this job; from there on
    nothing is read.
    """

    def __init__(self, folder: Path, attempt: int, job: Job) -> None:
        self._path = events_file(folder, attempt)
        self._attempt = attempt
        self._job = job
        self._cases = {case.case_id: case for case in job.cases}
        self._count = 0
        self._bytes = 0
        self.garbage: str | None = None

    def read(self) -> list[Event]:
        """Events of new whole lines, up to one that is garbage."""
        if self.garbage is not None:
            return []
        try:
            with self._path.open("rb") as file:
                file.seek(self._bytes)
                data = file.read()
        except FileNotFoundError:
            return []
        new: list[Event] = []
        *whole, _ = data.split(b"\n")
        try:
            for line in whole:
                event = self._event(line)
                new.append(event)
                self._count += 1
                self._bytes += len(line) + 1
        except ProtocolError as error:
            self.garbage = str(error)[:400]
        return new

    def cut(self) -> None:
        """Cut what stands in the file after the events taken in, a torn line or garbage, and sync the rest.

        The supervisor's word blames the last place in this file: a power cut must not move that place.
        """
        if not self._path.exists():
            return
        with self._path.open("r+b") as file:
            if os.fstat(file.fileno()).st_size > self._bytes:
                file.truncate(self._bytes)
            os.fsync(file.fileno())

    def _event(self, line: bytes) -> Event:
        place = f"{self._path.name}:{self._count + 1}"
        (event,) = parse_events(line + b"\n", place)
        if event.stamp.attempt != self._attempt or event.stamp.seq != self._count:
            raise ProtocolError("The event is not the next one of this attempt.", where=place)
        if isinstance(event, AttemptEnded) or isinstance(event, JobStarted) != (self._count == 0):
            raise ProtocolError(f"{event.event} does not belong here.", where=place)
        check_fits(self._job, self._cases, event)
        return event


class Patience:
    """How long the runner may take for the step under way (PROTOCOL.md, section 9).

    clock: monotonic, in seconds.
    """

    def __init__(self, job: Job, clock: Callable[[], float] = time.monotonic) -> None:
        self._job = job
        self._cases = {case.case_id: case for case in job.cases}
        self._clock = clock
        self._since = self._looked = clock()
        self._limit_ms = max(_START_MS, job.limits.load_timeout_ms)

    def take(self, event: Event) -> None:
        """A step came to its end, and another begins."""
        if isinstance(event, Heartbeat):
            return
        self._since = self._clock()
        limits = self._job.limits
        if isinstance(event, SampleStarted):
            self._limit_ms = limits.sample_timeout_ms
        elif isinstance(event, (JobStarted, CaseFinished)):
            self._limit_ms = limits.load_timeout_ms
        elif isinstance(event, JobFinished):
            self._limit_ms = _LEAVE_MS
        elif not isinstance(event, AttemptEnded):
            case = self._cases[event.case_id]
            self._limit_ms = _case_ms(case, self._job, isinstance(event, CaseStarted))

    def is_over(self) -> bool:
        """Whether the step under way has used up its time.

        Time in which nobody asked (this process or the whole machine was stopped) does not count.
        """
        now = self._clock()
        gap = now - self._looked
        if gap > _STALL_S:
            self._since += gap
        self._looked = now
        return (now - self._since) * 1_000 > self._limit_ms


def _case_ms(case: Case, job: Job, begins: bool) -> int:
    """Time for a case's first step, or, while it runs, for its next one."""
    limits = job.limits
    if isinstance(case, InferCase):
        return limits.sample_timeout_ms + (limits.load_timeout_ms if begins else 0)
    if not isinstance(case, BenchmarkCase):
        return limits.load_timeout_ms
    set_up_ms = limits.load_timeout_ms + case.warmup_ms
    sides = 1 if case.baseline is None else 2
    if case.interleaving == "by_process":
        return limits.round_timeout_ms + 2 * sides * set_up_ms + case.pause_ms
    return limits.round_timeout_ms + case.pause_ms + (sides * set_up_ms if begins else 0)
