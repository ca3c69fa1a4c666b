"""Timing of a candidate, alone or in ABBA rounds with its baseline."""

import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from phoneproof.harness.waiting import thread_waits, waited_ns
from phoneproof.protocol.job import BenchmarkCase
from phoneproof.protocol.pace import Pace, pace_for
from phoneproof.runtimes.runtime import Invocation

_IDLE_WINDOW_S: Final = 0.004
_IDLE_SHARE: Final = 0.1
_LONGEST_REST_S: Final = 0.2


@dataclass(frozen=True)
class VisitTimes:
    """One visit: each timed batch in ns, and what the threads of its process waited for a processor in ns."""

    times_ns: tuple[int, ...]
    waited_ns: int | None


Visit = Callable[[], VisitTimes]


def first_ms(invoke: Invocation) -> float:
    """Time of the first inference in ms."""
    begin = time.perf_counter_ns()
    invoke()
    return (time.perf_counter_ns() - begin) / 1e6


def warm_up(invoke: Invocation, case: BenchmarkCase) -> Pace:
    """Run for about warmup_ms, at least three times, and settle the pace from the fastest run seen."""
    fastest = math.inf
    runs = 0
    end = time.perf_counter_ns() + case.warmup_ms * 1_000_000
    while runs < 3 or time.perf_counter_ns() < end:
        begin = time.perf_counter_ns()
        invoke()
        fastest = min(fastest, time.perf_counter_ns() - begin)
        runs += 1
    return pace_for(fastest, case)


def time_visit(invoke: Invocation, pace: Pace) -> VisitTimes:
    """One visit of this process."""
    before = thread_waits()
    times = _batches_ns(invoke, pace)
    return VisitTimes(times, waited_ns(before, thread_waits()))


def _batches_ns(invoke: Invocation, pace: Pace) -> tuple[int, ...]:
    clock = time.perf_counter_ns
    times: list[int] = []
    if pace.batch == 1:
        for _ in range(pace.runs):
            begin = clock()
            invoke()
            times.append(clock() - begin)
        return tuple(times)
    for _ in range(pace.runs):
        batch = range(pace.batch)
        begin = clock()
        for _ in batch:
            invoke()
        times.append(clock() - begin)
    return tuple(times)


def rest_until_idle(
    longest_s: float = _LONGEST_REST_S, cpu_s: Callable[[], float] = time.process_time
) -> None:
    """Wait until the threads of this process compute nothing, or for longest_s. cpu_s: what they computed.

    The pool of a runtime spins on after its last inference, and would take processors from the other side's
    visit: a thread of ONNX Runtime 1.32 does for 30 to 34 ms (two x86-64 processors, two threads).
    """
    end = time.perf_counter() + longest_s
    while time.perf_counter() < end:
        before = cpu_s()
        time.sleep(_IDLE_WINDOW_S)
        if cpu_s() - before < _IDLE_SHARE * _IDLE_WINDOW_S:
            return


def rounds_of(
    case: BenchmarkCase, candidate: Visit, baseline: Visit | None
) -> Iterator[tuple[int, tuple[VisitTimes, ...]]]:
    """Number and visits of each round: candidate alone, or baseline, candidate, candidate, baseline.

    ABBA lets a linear drift of the machine fall out of the ratio.
    """
    order: Sequence[Visit] = [candidate] if baseline is None else [baseline, candidate, candidate, baseline]
    for number in range(case.rounds):
        with no_garbage_collection():
            visits = tuple(visit() for visit in order)
        yield number, visits
        if case.pause_ms:
            time.sleep(case.pause_ms / 1_000)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Collect before, not during."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
