"""Summary of timed runs, and when they do not count."""

import numpy as np
import pytest
from scipy.stats import binom
from scipy.stats.mstats import mquantiles

from phoneproof.verify.latency import ValidityRules, least_runs_for, summarise_latency

MS = 1_000_000


def steady(runs: int, seed: int = 0) -> list[int]:
    """Run times around 20 ms with a heavy right tail."""
    random = np.random.default_rng(seed)
    return [int(t) for t in 20 * MS * (1 + random.gamma(2, 0.02, runs))]


def test_the_figures_are_those_of_their_definitions() -> None:
    runs = steady(3000)
    found = summarise_latency(runs, clock_resolution_ns=50)
    assert (found.valid, found.reasons, found.runs) == (True, (), 3000)
    # Type 8 of Hyndman and Fan has alphap = betap = 1/3 in scipy's older function.
    expected = mquantiles(runs, [0.5, 0.9, 0.95, 0.99, 0.999], alphap=1 / 3, betap=1 / 3)
    quantiles = (found.p50_ns, found.p90_ns, found.p95_ns, found.p99_ns, found.p999_ns)
    assert quantiles == pytest.approx(tuple(expected))
    assert found.median_ns == np.median(runs)
    assert found.min_ns == min(runs)
    assert found.mean_ns == pytest.approx(np.mean(runs))
    assert found.cv == pytest.approx(np.std(runs, ddof=1) / np.mean(runs))
    assert found.duration_s == pytest.approx(sum(runs) / 1e9)


@pytest.mark.parametrize(("quantile", "least"), [(0.5, 5), (0.9, 29), (0.95, 59), (0.99, 299), (0.999, 2995)])
def test_a_quantile_needs_as_many_runs_as_wilks_says(quantile: float, least: int) -> None:
    assert least_runs_for(quantile) == least
    assert binom.pmf(least, least, quantile) <= 0.05 < binom.pmf(least - 1, least - 1, quantile)


def test_a_quantile_that_the_runs_do_not_support_is_none() -> None:
    found = summarise_latency(steady(60), clock_resolution_ns=50)
    assert found.p95_ns is not None
    assert (found.p99_ns, found.p999_ns) == (None, None)
    one = summarise_latency([5 * MS])
    assert (one.median_ns, one.p50_ns, one.cv, one.median_interval) == (5 * MS, None, None, None)


def test_the_interval_of_the_median_is_made_of_order_statistics_and_covers() -> None:
    interval = summarise_latency(list(range(1, 21))).median_interval
    assert interval is not None
    assert (interval.lo, interval.hi) == (6, 15)  # Conover, Practical Nonparametric Statistics, n = 20
    truth = 20 * MS * (1 + 0.02 * 1.6783469900166605)  # median of a gamma distribution with shape 2
    covered = 0
    for seed in range(200):
        found = summarise_latency(steady(50, seed)).median_interval
        covered += found is not None and truth in found
    assert covered / 200 >= 0.93


def test_batches_are_divided_and_their_duration_is_not() -> None:
    found = summarise_latency([1000] * 100, batch=10, clock_resolution_ns=10)
    assert (found.median_ns, found.duration_s, found.batch) == (100.0, 1e-4, 10)
    assert "clock_too_coarse" not in found.reasons


@pytest.mark.parametrize(
    ("runs", "clock", "reason"),
    [
        (steady(63), 50, "too_few_runs"),
        ([MS] * 100, 50, "too_short"),
        (steady(100), None, "clock_unknown"),
        (steady(100), 300_000, "clock_too_coarse"),
        ([int(20 * MS * (1 + 0.003 * i)) for i in range(100)], 50, "drifting"),
        ([20 * MS + i for i in range(60)] + [30 * MS + i for i in range(60)], 50, "drifting"),
    ],
)
def test_runs_that_do_not_count_say_why(runs: list[int], clock: int | None, reason: str) -> None:
    found = summarise_latency(runs, clock_resolution_ns=clock)
    assert not found.valid
    assert found.reasons == (reason,)


def test_a_small_but_certain_change_is_no_drift_and_the_rules_can_be_set() -> None:
    slow_warming = [int(20 * MS * (1 + 0.0005 * i)) for i in range(100)]
    assert summarise_latency(slow_warming, clock_resolution_ns=50).valid
    strict = ValidityRules(least_runs=101, largest_drift=0.01)
    found = summarise_latency(slow_warming, clock_resolution_ns=50, rules=strict)
    assert found.reasons == ("too_few_runs", "drifting")


def test_equal_and_zero_times_are_summarised() -> None:
    same = summarise_latency([20 * MS] * 100, clock_resolution_ns=50)
    assert (same.valid, same.cv, same.drift) == (True, 0.0, 0.0)
    zero = summarise_latency([0] * 100, clock_resolution_ns=50)
    assert (zero.cv, zero.reasons) == (None, ("too_short", "clock_too_coarse"))


@pytest.mark.parametrize(("runs", "batch"), [([], 1), ([-1], 1), ([1], 0)])
def test_impossible_runs_are_refused(runs: list[int], batch: int) -> None:
    with pytest.raises(ValueError, match="batch"):
        summarise_latency(runs, batch)
