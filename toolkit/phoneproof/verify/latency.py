"""Statistics of the timed runs of one configuration, and whether they count."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from phoneproof.verify.intervals import CONFIDENCE, Interval
from phoneproof.verify.waiting import LARGEST_WAITING_SHARE

ValidityReason = Literal[
    "too_few_runs", "too_short", "clock_unknown", "clock_too_coarse", "drifting", "machine_busy"
]
Floats = NDArray[np.float64]

QUANTILE_CONFIDENCE: Final = 0.95
DRIFT_P_VALUE: Final = 0.01


@dataclass(frozen=True)
class ValidityRules:
    """What runs must satisfy to count.

    The pattern is the single-stream scenario of MLPerf Inference's loadgen: one query after the other, a
    least number and a least duration, INVALID when either is missed. Its mlperf.conf asks for 1,024 queries
    and 60 s, right for one submission and too long for many builds on one phone.

    least_runs: 64, the fewest from which loadgen's early stopping gives a 90th percentile.
    least_duration_s: of timed work, so that the governor has settled on a frequency and a burst does not
        pass for a speed. It says nothing of a phone that is hot after a minute.
    largest_clock_share: share of a timed batch that the clock's resolution may have.
    largest_drift: change of the median from the first to the last quarter of the runs, relative to the
        median, that is accepted even when it is more than chance.
    largest_waiting_share: share of the timed work that may have been waiting for a processor.
    """

    least_runs: int = 64
    least_duration_s: float = 1.0
    largest_clock_share: float = 0.01
    largest_drift: float = 0.1
    largest_waiting_share: float = LARGEST_WAITING_SHARE


@dataclass(frozen=True)
class LatencySummary:
    """Times of one inference in ns, out of `runs` timed batches of `batch` inferences each.

    Quantiles are those of Hyndman and Fan's type 8 (The American Statistician 50, 1996), approximately
    median-unbiased for any distribution. One is None below `least_runs_for` it. cv: standard deviation over
    mean, None for one run. median_interval: from order statistics, of no distribution but for independent
    runs; None below 6 runs. With batches, quantiles are of batch means, which hide single slow inferences.
    waiting_share: see verify/waiting.py; None where the device does not tell, which makes nothing invalid.
    valid: no reason in `reasons`.
    """

    runs: int
    batch: int
    min_ns: float
    mean_ns: float
    median_ns: float
    p50_ns: float | None
    p90_ns: float | None
    p95_ns: float | None
    p99_ns: float | None
    p999_ns: float | None
    cv: float | None
    median_interval: Interval | None
    duration_s: float
    drift: float
    clock_resolution_ns: int | None
    waiting_share: float | None
    reasons: tuple[ValidityReason, ...]

    @property
    def valid(self) -> bool:
        """VALID in MLPerf's words."""
        return not self.reasons


def least_runs_for(quantile: float) -> int:
    """The fewest runs whose largest lies above the quantile with 95 % confidence (Wilks 1941).

    The least n with quantile**n <= 0.05: 5 for the median, 29 for p90, 59 for p95, 299 for p99 and 2,995 for
    p99.9. Below it the estimate only repeats the largest run.
    """
    return math.ceil(math.log(1 - QUANTILE_CONFIDENCE) / math.log(quantile))


def summarise_latency(
    batches_ns: Sequence[int],
    batch: int = 1,
    clock_resolution_ns: int | None = None,
    waiting_share: float | None = None,
    rules: ValidityRules | None = None,
) -> LatencySummary:
    """Summary of timed batches in the order they ran, warm-up and first inference left out by the caller.

    batches_ns: time of each batch in ns. batch: inferences in each. clock_resolution_ns: as measured where
    the runs were; None is unknown, and then the runs are not valid. waiting_share: of these batches.
    ValueError for no batch, a time that is negative, or a batch size below 1.
    """
    if not len(batches_ns) or min(batches_ns) < 0 or batch < 1:
        raise ValueError("no runs, a negative time, or a batch below 1")
    rules = rules or ValidityRules()
    times = np.asarray(batches_ns, dtype=np.float64)
    single = times / batch
    drift, drift_is_real = _drift(single)
    median = float(np.median(single))
    reasons: list[ValidityReason] = []
    if len(times) < rules.least_runs:
        reasons.append("too_few_runs")
    if float(times.sum()) < rules.least_duration_s * 1e9:
        reasons.append("too_short")
    if clock_resolution_ns is None:
        reasons.append("clock_unknown")
    elif clock_resolution_ns > rules.largest_clock_share * median * batch:
        reasons.append("clock_too_coarse")
    if drift_is_real and abs(drift) > rules.largest_drift:
        reasons.append("drifting")
    if waiting_share is not None and waiting_share > rules.largest_waiting_share:
        reasons.append("machine_busy")
    p50, p90, p95, p99, p999 = (_quantile(single, q) for q in (0.5, 0.9, 0.95, 0.99, 0.999))
    mean = float(single.mean())
    return LatencySummary(
        runs=len(times),
        batch=batch,
        min_ns=float(single.min()),
        mean_ns=mean,
        median_ns=median,
        p50_ns=p50,
        p90_ns=p90,
        p95_ns=p95,
        p99_ns=p99,
        p999_ns=p999,
        cv=float(single.std(ddof=1)) / mean if len(single) > 1 and mean > 0 else None,
        median_interval=_median_interval(single),
        duration_s=float(times.sum()) / 1e9,
        drift=drift,
        clock_resolution_ns=clock_resolution_ns,
        waiting_share=waiting_share,
        reasons=tuple(reasons),
    )


def _quantile(values: Floats, quantile: float) -> float | None:
    if len(values) < least_runs_for(quantile):
        return None
    return float(np.quantile(values, quantile, method="median_unbiased"))


def _median_interval(values: Floats) -> Interval | None:
    from scipy.stats import quantile_test

    found = quantile_test(values, p=0.5).confidence_interval(CONFIDENCE)
    lo, hi = float(found.low), float(found.high)  # type: ignore[attr-defined]  # scipy-stubs: a float
    return None if math.isnan(lo) or math.isnan(hi) else Interval(lo, hi)


def _drift(values: Floats) -> tuple[float, bool]:
    """Relative change from the first to the last quarter, and whether it is more than chance.

    Quarters, because heat and throttling show between the ends; Mann-Whitney, because run times have heavy
    tails. Correlated runs make it say "real" too often, so the size of the change must count as well.
    """
    from scipy.stats import mannwhitneyu

    quarter = len(values) // 4
    median = float(np.median(values))
    if quarter == 0 or median == 0:
        return 0.0, False
    first, last = values[:quarter], values[-quarter:]
    change = float(np.median(last) - np.median(first)) / median
    return change, bool(mannwhitneyu(first, last).pvalue < DRIFT_P_VALUE)
