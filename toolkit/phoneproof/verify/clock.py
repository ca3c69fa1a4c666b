"""What the clock of this process can tell apart, and how many inferences it takes to time one."""

import math
import time
from collections.abc import Callable
from typing import Final

CLOCK_SHARE: Final = 0.01
"""Resolution and call overhead of the clock may be 1 % of a timed batch."""


def clock_resolution_ns(clock: Callable[[], int] = time.perf_counter_ns, steps: int = 1000) -> int:
    """Smallest positive difference between successive readings of the clock.

    The greater of its resolution and the time that a reading takes, so batches sized by it are also long
    against the overhead of the call. ValueError when the clock does not advance within a million readings.
    """
    smallest = 0
    found = readings = 0
    before = clock()
    while found < steps:
        now = clock()
        readings += 1
        if now > before:
            smallest = min(smallest, now - before) if found else now - before
            found += 1
        elif readings >= 1_000_000 and not found:
            raise ValueError("the clock does not advance")
        before = now
    return smallest


def batch_size_for(single_ns: float, clock_ns: int, share: float = CLOCK_SHARE) -> int:
    """Inferences in a timed batch, so that the clock is at most `share` of it. At least 1.

    single_ns: time of one inference. ValueError for a time, clock or share that is not positive: an inference
    that seems to take no time must first be timed in a longer loop.
    """
    if not single_ns > 0 or clock_ns <= 0 or not 0 < share < 1:
        raise ValueError(f"a time of {single_ns} ns, a clock of {clock_ns} ns and a share of {share}")
    return max(1, math.ceil(clock_ns / (share * single_ns)))
