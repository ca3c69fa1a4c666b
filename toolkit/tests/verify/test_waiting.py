"""A busy machine gives no verdict on a speed, whatever its interval says."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phoneproof.verify.comparison import AbbaRound, compare
from phoneproof.verify.gates import latency_gate, speed_gate
from phoneproof.verify.intervals import Interval
from phoneproof.verify.latency import ValidityRules, summarise_latency
from phoneproof.verify.waiting import LARGEST_WAITING_SHARE, waiting_share

BUSY = math.nextafter(LARGEST_WAITING_SHARE, 1)
VISITS = st.lists(st.lists(st.integers(1, 10**9), min_size=1, max_size=5), min_size=1, max_size=8)


def rounds(count: int = 20, times_as_fast: float = 2.0) -> list[AbbaRound]:
    random = np.random.default_rng(1)
    visits = 1e6 * np.exp(0.02 * random.standard_normal((count, 4, 5)))
    visits[:, 1:3] /= times_as_fast
    return [AbbaRound(*(tuple(visit) for visit in one.tolist())) for one in visits]


@given(VISITS, st.floats(0, 3))
def test_the_share_is_that_of_the_time_of_one_thread(visits: list[list[int]], share: float) -> None:
    waited = [share * sum(visit) for visit in visits]
    assert waiting_share(visits, waited) == pytest.approx(share)  # type: ignore[arg-type]


@given(VISITS, st.data())
def test_a_visit_that_does_not_tell_leaves_the_share_unknown(
    visits: list[list[int]], data: st.DataObject
) -> None:
    waited: list[int | None] = [0] * len(visits)
    waited[data.draw(st.integers(0, len(visits) - 1))] = None
    assert waiting_share(visits, waited) is None


def test_no_timed_work_has_no_share() -> None:
    assert waiting_share([], []) is None
    assert waiting_share([[0]], [5]) is None


@pytest.mark.parametrize(
    ("share", "reasons"),
    [(None, ()), (0.0, ()), (LARGEST_WAITING_SHARE, ()), (BUSY, ("machine_busy",)), (1.9, ("machine_busy",))],
)
def test_a_latency_of_a_busy_machine_is_not_valid(share: float | None, reasons: tuple[str, ...]) -> None:
    found = summarise_latency([20_000_000 + i for i in range(100)], 1, 50, share)
    assert (found.reasons, found.valid, found.waiting_share) == (reasons, not reasons, share)
    lenient = ValidityRules(largest_waiting_share=2.0)
    assert summarise_latency([20_000_000 + i for i in range(100)], 1, 50, share, lenient).valid


@pytest.mark.parametrize("times_as_fast", [3.0, 1.0, 0.4])
def test_a_busy_machine_has_no_verdict_but_shows_what_it_measured(times_as_fast: float) -> None:
    quiet = compare(rounds(times_as_fast=times_as_fast), waiting_share=LARGEST_WAITING_SHARE)
    assert (quiet.verdict == "too_noisy", quiet.reason) == (False, None)
    assert compare(rounds(times_as_fast=times_as_fast)).verdict == quiet.verdict
    busy = compare(rounds(times_as_fast=times_as_fast), waiting_share=BUSY)
    assert (busy.verdict, busy.reason, busy.waiting_share) == ("too_noisy", "machine_busy", BUSY)
    assert (busy.ratio, busy.interval, busy.rounds) == (quiet.ratio, quiet.interval, quiet.rounds)


def test_where_there_is_no_interval_that_is_the_reason() -> None:
    assert compare(rounds(9), waiting_share=BUSY).reason == "too_few_rounds"


@pytest.mark.parametrize("times_as_fast", [3.0, 0.4])
def test_the_speed_gate_neither_passes_nor_fails_on_a_busy_machine(times_as_fast: float) -> None:
    found = speed_gate(compare(rounds(20, times_as_fast), waiting_share=0.31), 1.5, True, None)
    assert found is not None
    assert (found.verdict, found.reason.id) == ("inconclusive", "speed_disturbed")
    assert found.reason.facts["share"] == 0.31
    assert found.reason.facts["ratio"] == pytest.approx(times_as_fast, rel=0.05)


@pytest.mark.parametrize(
    ("median_ms", "share", "verdict", "reason"),
    [
        (11.0, None, "fail", "latency_above"),
        (11.0, LARGEST_WAITING_SHARE, "fail", "latency_above"),
        (11.0, BUSY, "inconclusive", "latency_disturbed"),
        (9.0, BUSY, "pass", "gate_passed"),
        (10.0, BUSY, "inconclusive", "latency_undecided"),
    ],
)
def test_waiting_only_lengthens_so_a_latency_may_pass_but_not_fail(
    median_ms: float, share: float | None, verdict: str, reason: str
) -> None:
    found = latency_gate(median_ms, Interval(median_ms - 0.5, median_ms + 0.5), 10.0, share)
    assert found is not None
    assert (found.verdict, found.reason.id) == (verdict, reason)
