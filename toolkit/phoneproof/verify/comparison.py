"""Speed of a candidate against its baseline, from interleaved ABBA rounds.

A round visits baseline, candidate, candidate, baseline. Its log-ratio is the mean of the candidate's two
visits minus the mean of the baseline's, each visit by the median of its log times. A trend that is linear in
log time shifts both means alike and cancels; the median keeps one interrupted run out. What changes slowly
against a round (heat, clock frequency) cancels too, so log-ratios of rounds are nearly independent even where
single runs are not. The interval is Student's t over rounds.

What correlation is left between rounds is corrected one way only: the lag-1 autocorrelation, freed of its
small-sample bias (Kendall, Biometrika 41, 1954: E[r] = rho - (1 + 3 rho) / n), makes the interval wider by
the first-order factor (1 + rho) / (1 - rho) on the variance, and takes degrees of freedom in the same
measure. The estimate itself errs by about 0.2 with 20 rounds, so CORRELATION_ALLOWANCE is added to it; a
negative result is ignored. Simulated coverage of the 95 % interval: 97 % for independent rounds, and where
the log-ratios of 20 rounds follow AR(1), 94.9 % at phi 0.2, 94.6 % at 0.4 and 94.0 % at 0.6 (92 to 93 %
without the allowance, which widens the interval of independent rounds by an eighth).

A processor that others use does not cancel: a long inference is interrupted almost every time, a short one
seldom, so its median keeps clear of it. The interval knows only these times, and may lie far from the ratio
of a quiet machine. So where the timed threads waited too much, on either side, there is no verdict.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from phoneproof.verify.intervals import CONFIDENCE, Interval
from phoneproof.verify.waiting import LARGEST_WAITING_SHARE

Speed = Literal["faster", "slower", "no_difference", "too_noisy"]
NoiseReason = Literal["too_few_rounds", "no_variation", "machine_busy", "wide_interval"]

LEAST_ROUNDS: Final = 10
MARGIN: Final = 0.03
"""Speeds within 3 % count as the same."""
HIGHEST_CORRELATION: Final = 0.9
CORRELATION_ALLOWANCE: Final = 0.1
ROUNDING: Final = 1e-12
"""Log-ratios that differ by less differ by the rounding of logarithms: one ns in 1,000 s is 1e-12."""


@dataclass(frozen=True)
class AbbaRound:
    """One round: times of one inference in ns, in the order they ran, by visit.

    ValueError for an empty visit or a time that is not positive and finite.
    """

    baseline_first: tuple[float, ...]
    candidate_first: tuple[float, ...]
    candidate_second: tuple[float, ...]
    baseline_second: tuple[float, ...]

    def __post_init__(self) -> None:
        for visit in self._visits():
            if not visit:
                raise ValueError("a visit without a run")
            if not all(0 < time < math.inf for time in visit):
                raise ValueError("a run time that is not positive and finite")

    def _visits(self) -> tuple[tuple[float, ...], ...]:
        return self.baseline_first, self.candidate_first, self.candidate_second, self.baseline_second

    @classmethod
    def of_batches(
        cls, visits_ns: Sequence[Sequence[int]], baseline_batch: int, candidate_batch: int
    ) -> "AbbaRound":
        """Of timed batches as a harness reports them: four visits in the order A, B, B, A.

        *_batch: inferences in one timed batch. ValueError for another number of visits or a batch below 1.
        """
        if len(visits_ns) != 4 or min(baseline_batch, candidate_batch) < 1:
            raise ValueError("an ABBA round has four visits, and a batch one inference or more")
        batches = (baseline_batch, candidate_batch, candidate_batch, baseline_batch)
        return cls(*(tuple(t / b for t in visit) for visit, b in zip(visits_ns, batches, strict=True)))

    @property
    def log_ratio(self) -> float:
        """Log of candidate time over baseline time."""
        a1, b1, b2, a2 = (float(np.median(np.log(visit))) for visit in self._visits())
        return (b1 + b2 - a1 - a2) / 2


@dataclass(frozen=True)
class Comparison:
    """Speed against the baseline.

    ratio: baseline time over candidate time, so above 1 the candidate is faster; None without a round.
    interval: 95 % interval of the ratio, None when it cannot be told.
    effective_rounds: independent rounds that say as much as these. reason: why too_noisy, else None.
    waiting_share: the greater of the two sides' (verify/waiting.py); None where the device does not tell.

    The four verdicts divide all cases. With the equivalent zone 1 / (1 + margin) to 1 + margin:
    no_difference - the interval lies wholly in the zone, whether or not it holds 1: any difference is too
        small to matter, and so is the bias that drift may leave;
    faster, slower - else, the interval lies wholly above, below 1;
    too_noisy - else: the interval holds 1 and leaves the zone (wide_interval), or there is none; and
        wherever it lies, when more than LARGEST_WAITING_SHARE was waiting (machine_busy).
    """

    ratio: float | None
    interval: Interval | None
    verdict: Speed
    rounds: int
    effective_rounds: float
    margin: float
    reason: NoiseReason | None = None
    waiting_share: float | None = None


def compare(
    rounds: Sequence[AbbaRound],
    margin: float = MARGIN,
    least_rounds: int = LEAST_ROUNDS,
    waiting_share: float | None = None,
) -> Comparison:
    """Comparison out of the rounds in the order they ran.

    margin: relative difference that does not matter, 0 <= margin < 1. ValueError for another margin, or
    least_rounds below 4, with which correlation cannot be estimated. waiting_share: as in the result.
    """
    found = compare_log_ratios(np.array([r.log_ratio for r in rounds]), margin, least_rounds)
    found = replace(found, waiting_share=waiting_share)
    # Without an interval there is a plainer reason already.
    if waiting_share is None or waiting_share <= LARGEST_WAITING_SHARE or found.interval is None:
        return found
    return replace(found, verdict="too_noisy", reason="machine_busy")


def compare_log_ratios(
    log_ratios: NDArray[np.float64], margin: float = MARGIN, least_rounds: int = LEAST_ROUNDS
) -> Comparison:
    """As `compare`, from each round's log of candidate time over baseline time, shape (rounds,)."""
    if not 0 <= margin < 1 or least_rounds < 4:
        raise ValueError("margin must be in [0, 1) and least_rounds at least 4")
    n = len(log_ratios)
    ratio = math.exp(-float(log_ratios.mean())) if n else None

    def unknown(reason: NoiseReason) -> Comparison:
        return Comparison(ratio, None, "too_noisy", n, float(n), margin, reason)

    if n < least_rounds:
        return unknown("too_few_rounds")
    if np.ptp(log_ratios) <= ROUNDING:
        # Real times vary. These were made up, or the clock is too coarse to see it.
        return unknown("no_variation")
    lo, hi, effective = _mean_interval(log_ratios)
    interval = Interval(math.exp(-hi), math.exp(-lo))
    verdict = _verdict(-hi, -lo, math.log1p(margin))
    return Comparison(
        ratio=ratio,
        interval=interval,
        verdict=verdict,
        rounds=n,
        effective_rounds=effective,
        margin=margin,
        reason="wide_interval" if verdict == "too_noisy" else None,
    )


def _verdict(lo: float, hi: float, zone: float) -> Speed:
    """lo, hi: interval of the log of the speed-up."""
    if -zone <= lo and hi <= zone:
        return "no_difference"
    if lo > 0:
        return "faster"
    if hi < 0:
        return "slower"
    return "too_noisy"


def _mean_interval(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Ends of the interval of the mean, and the number of independent values that say as much."""
    from scipy.stats import t

    n = len(values)
    deviation = values - values.mean()
    lag1 = float(deviation[1:] @ deviation[:-1]) / float(deviation @ deviation)
    unbiased = (lag1 * n + 1) / (n - 3)
    correlation = min(max(unbiased + CORRELATION_ALLOWANCE, 0.0), HIGHEST_CORRELATION)
    effective = max(n * (1 - correlation) / (1 + correlation), 2.0)
    error = float(values.std(ddof=1)) / math.sqrt(effective)
    lo, hi = t.interval(CONFIDENCE, df=effective - 1, loc=float(values.mean()), scale=error)
    return float(lo), float(hi), effective
