"""Timing: pace, batches and the order of visits, on an invocation that waits a known time."""

import itertools
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phoneproof.harness.benchmark import Visit, VisitTimes, rest_until_idle, rounds_of, time_visit, warm_up
from phoneproof.protocol.job import BenchmarkCase
from phoneproof.protocol.pace import Pace, pace_for

CASE = BenchmarkCase(
    "benchmark", "b", "c", None, "s", None, rounds=2, interleaving="none", warmup_ms=0, visit_ms=20,
    max_runs_per_visit=10, batch_below_ns=0, pause_ms=0,
)  # fmt: skip


class Counted:
    """Counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> list[object]:
        self.calls += 1
        return []


@given(
    single_ns=st.floats(0, 1e10),
    batch_below_ns=st.integers(0, 10**9),
    visit_ms=st.integers(1, 10_000),
    most=st.integers(1, 1_000),
)
def test_the_pace_fills_the_visit_and_batches_reach_their_length(
    single_ns: float, batch_below_ns: int, visit_ms: int, most: int
) -> None:
    case = replace(CASE, batch_below_ns=batch_below_ns, visit_ms=visit_ms, max_runs_per_visit=most)
    pace = pace_for(single_ns, case)
    single_ns = max(1.0, single_ns)
    assert 1 <= pace.runs <= most
    assert pace.batch >= 1
    assert pace.batch * single_ns >= batch_below_ns * (1 - 1e-9)
    if pace.batch > 1:
        assert (pace.batch - 1) * single_ns < batch_below_ns
    if 1 < pace.runs < most:
        assert abs(pace.runs * pace.batch * single_ns - visit_ms * 1e6) <= 0.51 * pace.batch * single_ns


@pytest.mark.parametrize("pace", [Pace(1, 7), Pace(5, 3)])
def test_a_visit_times_every_batch(pace: Pace) -> None:
    invoke = Counted()
    times = time_visit(invoke, pace).times_ns  # type: ignore[arg-type]
    assert len(times) == pace.runs
    assert invoke.calls == pace.runs * pace.batch


def test_a_time_is_that_of_the_whole_batch() -> None:
    def wait() -> list[object]:
        time.sleep(0.002)
        return []

    (single,) = time_visit(wait, Pace(1, 1)).times_ns  # type: ignore[arg-type]
    (batch,) = time_visit(wait, Pace(4, 1)).times_ns  # type: ignore[arg-type]
    assert single >= 2_000_000
    assert batch >= 8_000_000


def test_warming_up_takes_at_least_three_runs() -> None:
    invoke = Counted()
    warm_up(invoke, replace(CASE, warmup_ms=0))  # type: ignore[arg-type]
    assert invoke.calls == 3


def test_rounds_with_a_baseline_are_abba() -> None:
    order: list[str] = []

    def visit(name: str) -> VisitTimes:
        order.append(name)
        return VisitTimes((len(order),), 0)

    def times(baseline: Visit | None) -> list[tuple[int, list[tuple[int, ...]]]]:
        rounds = rounds_of(CASE, lambda: visit("B"), baseline)
        return [(number, [one.times_ns for one in visits]) for number, visits in rounds]

    rounds = times(lambda: visit("A"))
    assert "".join(order) == "ABBAABBA"
    assert rounds == [(0, [(1,), (2,), (3,), (4,)]), (1, [(5,), (6,), (7,), (8,)])]
    order.clear()
    assert times(None) == [(0, [(1,)]), (1, [(2,)])]


def test_a_rest_lasts_until_no_thread_computes_but_not_for_ever() -> None:
    readings = [0.0, 0.004, 0.004, 0.008, 0.008, 0.008, 0.008, 0.012]
    rest_until_idle(60.0, lambda: readings.pop(0))
    assert readings == [0.008, 0.012]
    spinning = itertools.count()
    rest_until_idle(0.02, lambda: float(next(spinning)))
    assert next(spinning) >= 2
