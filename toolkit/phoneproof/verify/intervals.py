"""Intervals, and how one is judged against a limit."""

import math
from dataclasses import dataclass
from typing import Final, Literal

CONFIDENCE: Final = 0.95

Direction = Literal["at_most", "at_least"]
IntervalVerdict = Literal["pass", "fail", "inconclusive"]
IntervalReason = Literal["inside_limit", "beyond_limit", "spans_limit", "no_interval"]


@dataclass(frozen=True)
class Interval:
    """A closed interval with the share of repetitions in which its method covers the truth."""

    lo: float
    hi: float
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        if not self.lo <= self.hi:  # also true of NaN
            raise ValueError(f"an interval from {self.lo} to {self.hi}")

    def __contains__(self, value: float) -> bool:
        return self.lo <= value <= self.hi


@dataclass(frozen=True)
class Judgement:
    """The verdict on an interval and the id of its reason."""

    verdict: IntervalVerdict
    reason: IntervalReason


def judge_interval(lo: float | None, hi: float | None, limit: float, direction: Direction) -> Judgement:
    """pass when wholly inside the limit (the limit itself included), fail when wholly beyond it.

    direction: at_most where small values are good (a drop in accuracy), at_least where large ones are
    (an SQNR). An end that is None or NaN is unknown, and unknown never passes: inconclusive, no_interval.
    ValueError when lo > hi or the limit is NaN.
    """
    if math.isnan(limit):
        raise ValueError("the limit is NaN")
    if lo is None or hi is None or math.isnan(lo) or math.isnan(hi):
        return Judgement("inconclusive", "no_interval")
    if lo > hi:
        raise ValueError(f"an interval from {lo} to {hi}")
    inside, beyond = (hi <= limit, lo > limit) if direction == "at_most" else (lo >= limit, hi < limit)
    if inside:
        return Judgement("pass", "inside_limit")
    if beyond:
        return Judgement("fail", "beyond_limit")
    return Judgement("inconclusive", "spans_limit")
