"""An interval against a limit."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phoneproof.verify.intervals import Interval, judge_interval

ENDS = st.floats(allow_nan=False)


@pytest.mark.parametrize(
    ("lo", "hi", "direction", "verdict"),
    [
        (-0.01, 0.005, "at_most", "pass"),
        (-0.01, 0.010, "at_most", "pass"),
        (0.010, 0.020, "at_most", "inconclusive"),
        (0.011, 0.020, "at_most", "fail"),
        (0.010, 0.020, "at_least", "pass"),
        (0.000, 0.020, "at_least", "inconclusive"),
        (0.000, 0.009, "at_least", "fail"),
        (0.000, math.inf, "at_least", "inconclusive"),
    ],
)
def test_verdict_on_an_interval_with_the_limit_one_percent(
    lo: float, hi: float, direction: str, verdict: str
) -> None:
    assert judge_interval(lo, hi, 0.01, direction).verdict == verdict  # type: ignore[arg-type]


@pytest.mark.parametrize("ends", [(None, None), (None, 0.0), (0.0, None), (math.nan, 0.0), (0.0, math.nan)])
def test_what_is_unknown_never_passes(ends: tuple[float | None, float | None]) -> None:
    judgement = judge_interval(*ends, limit=1.0, direction="at_most")
    assert (judgement.verdict, judgement.reason) == ("inconclusive", "no_interval")


@given(ENDS, ENDS, ENDS)
def test_the_two_directions_mirror_each_other(one: float, other: float, limit: float) -> None:
    lo, hi = sorted((one, other))
    assert judge_interval(lo, hi, limit, "at_most") == judge_interval(-hi, -lo, -limit, "at_least")


def test_impossible_intervals_and_limits_are_refused() -> None:
    with pytest.raises(ValueError, match="from 2 to 1"):
        judge_interval(2, 1, 0, "at_most")
    with pytest.raises(ValueError, match="NaN"):
        judge_interval(0, 1, math.nan, "at_most")
    with pytest.raises(ValueError, match="from nan"):
        Interval(math.nan, 1.0)
