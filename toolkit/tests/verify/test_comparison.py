"""Before and after: what the interval covers, and that drift does not make a build faster."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.stats import ttest_1samp

from phoneproof.verify.comparison import AbbaRound, Comparison, compare, compare_log_ratios

Array = NDArray[np.float64]
ORDER = (0, 1, 1, 0)
TRUE_LOG_RATIO = -0.2


def autoregressive(random: np.random.Generator, runs: int, phi: float) -> Array:
    """Stationary AR(1) noise with unit variance of its innovations."""
    innovations = random.standard_normal(runs)
    innovations[0] /= math.sqrt(1 - phi**2)
    noise: Array = lfilter([1.0], [1.0, -phi], innovations)
    return noise


def rounds_of(log_times: Array, rounds: int, log_ratio: float) -> list[AbbaRound]:
    """Rounds out of consecutive log times of the baseline, the candidate's shifted by log_ratio."""
    visits = log_times.reshape(rounds, 4, -1) + log_ratio * np.array(ORDER)[None, :, None]
    times = 1e6 * np.exp(visits)
    return [AbbaRound(*(tuple(visit) for visit in times[i].tolist())) for i in range(rounds)]


def coverage(rounds: int, runs: int, phi: float, repetitions: int, seed: int) -> float:
    random = np.random.default_rng(seed)
    covered = 0
    for _ in range(repetitions):
        noise = 0.05 * autoregressive(random, rounds * 4 * runs, phi)
        found = compare(rounds_of(noise, rounds, TRUE_LOG_RATIO))
        assert found.interval is not None
        covered += math.exp(-TRUE_LOG_RATIO) in found.interval
    return covered / repetitions


def warming(runs: int, random: np.random.Generator) -> Array:
    return np.linspace(0, random.uniform(-0.5, 0.5), runs)


def throttling(runs: int, random: np.random.Generator) -> Array:
    step: Array = np.where(np.arange(runs) < random.integers(0, runs), 0.0, random.uniform(-0.6, 0.6))
    return step


def settling(runs: int, random: np.random.Generator) -> Array:
    decay: Array = random.uniform(-0.5, 0.5) * np.exp(-np.arange(runs) / (runs / random.uniform(1, 10)))
    return decay


DRIFTS: dict[str, Callable[[int, np.random.Generator], Array]] = {
    "warming": warming,
    "throttling": throttling,
    "settling": settling,
}


def false_verdicts(
    drift: str, phi: float, repetitions: int, seed: int, noise: float = 0.02, margin: float = 0.0
) -> tuple[float, float]:
    """Shares of faster and slower among comparisons of a build with itself; no margin is the hardest case."""
    random = np.random.default_rng(seed)
    rounds, runs = 20, 3
    verdicts = []
    for _ in range(repetitions):
        total = rounds * 4 * runs
        log_times = DRIFTS[drift](total, random) + noise * autoregressive(random, total, phi)
        verdicts.append(compare(rounds_of(log_times, rounds, 0.0), margin).verdict)
    return verdicts.count("faster") / repetitions, verdicts.count("slower") / repetitions


@pytest.mark.parametrize("phi", [0.0, 0.6, 0.9])
def test_the_interval_covers_the_true_ratio_in_a_few_hundred_repetitions(phi: float) -> None:
    assert coverage(rounds=20, runs=3, phi=phi, repetitions=400, seed=11) >= 0.93


@pytest.mark.parametrize("drift", DRIFTS)
def test_drift_rarely_makes_a_build_faster_than_itself_in_a_few_hundred_repetitions(drift: str) -> None:
    faster, slower = false_verdicts(drift, phi=0.5, repetitions=300, seed=12)
    assert faster <= 0.05
    assert slower <= 0.05


@pytest.mark.parametrize("drift", DRIFTS)
def test_the_margin_absorbs_what_curved_drift_leaves_on_a_quiet_device(drift: str) -> None:
    found = false_verdicts(drift, phi=0.0, repetitions=200, seed=16, noise=1e-4, margin=0.03)
    assert max(found) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6, 0.9, 0.99])
@pytest.mark.parametrize(("rounds", "runs"), [(20, 1), (20, 5), (50, 3)])
def test_the_interval_covers_the_true_ratio(rounds: int, runs: int, phi: float) -> None:
    assert coverage(rounds, runs, phi, repetitions=4000, seed=13) >= 0.94


@pytest.mark.slow
@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("drift", DRIFTS)
def test_drift_rarely_makes_a_build_faster_than_itself(drift: str, phi: float) -> None:
    faster, slower = false_verdicts(drift, phi, repetitions=4000, seed=14)
    assert faster <= 0.035
    assert slower <= 0.035


@pytest.mark.slow
@pytest.mark.parametrize("phi", [0.0, 0.2, 0.4, 0.6])
def test_the_interval_covers_correlated_rounds(phi: float) -> None:
    random = np.random.default_rng(15)
    covered = sum(
        (interval := compare_log_ratios(autoregressive(random, 20, phi)).interval) is not None
        and 1.0 in interval
        for _ in range(4000)
    )
    assert covered / 4000 >= 0.93


def test_without_correlation_it_is_the_t_interval_of_scipy() -> None:
    values = np.array([0.30, 0.28, 0.31, 0.27, 0.32, 0.26, 0.33, 0.27, 0.31, 0.28, 0.30])
    found = compare_log_ratios(values)
    expected = ttest_1samp(-values, 0).confidence_interval(0.95)
    assert found.interval is not None
    assert (found.interval.lo, found.interval.hi) == pytest.approx(
        (math.exp(expected.low), math.exp(expected.high))
    )
    assert found.effective_rounds == 11
    assert found.ratio == pytest.approx(math.exp(-values.mean()))


def test_a_linear_trend_in_log_time_cancels_exactly() -> None:
    trend = np.linspace(0, 2, 15 * 4 * 5)
    for abba in rounds_of(trend, 15, -0.5):
        assert abba.log_ratio == pytest.approx(-0.5)


def test_one_interrupted_run_does_not_move_its_visit() -> None:
    calm = AbbaRound((10, 10, 10), (5, 5, 5), (5, 5, 5), (10, 10, 10))
    spiked = AbbaRound((10, 10, 10), (5, 500, 5), (5, 5, 5), (10, 10, 10))
    assert spiked.log_ratio == calm.log_ratio == pytest.approx(math.log(0.5))


def test_batches_are_divided_by_their_own_size() -> None:
    abba = AbbaRound.of_batches([[1000], [800, 800], [800], [1000, 1000]], 10, 16)
    assert abba == AbbaRound((100.0,), (50.0, 50.0), (50.0,), (100.0, 100.0))


def spread(centre: float, half_width: float) -> Comparison:
    """A comparison of 20 rounds whose speed-up has this log and nearly this half width of its interval."""
    pattern = np.tile([1.0, -1.0], 10)
    scale = half_width * math.sqrt(19) / 2.093
    return compare_log_ratios(-centre + scale * pattern, margin=0.03)


@pytest.mark.parametrize(
    ("centre", "half_width", "verdict"),
    [
        (0.5, 0.1, "faster"),
        (-0.5, 0.1, "slower"),
        (0.0, 0.01, "no_difference"),
        (0.015, 0.005, "no_difference"),
        (0.03, 0.01, "faster"),
        (-0.03, 0.01, "slower"),
        (0.0, 0.05, "too_noisy"),
        (0.3, 0.5, "too_noisy"),
    ],
)
def test_the_four_verdicts(centre: float, half_width: float, verdict: str) -> None:
    found = spread(centre, half_width)
    assert found.verdict == verdict
    assert found.reason == ("wide_interval" if verdict == "too_noisy" else None)


@given(st.lists(st.floats(-3, 3), min_size=10, max_size=40), st.floats(0, 0.5))
def test_swapping_the_sides_swaps_the_verdict(values: list[float], margin: float) -> None:
    there = compare_log_ratios(np.array(values), margin)
    back = compare_log_ratios(-np.array(values), margin)
    swapped = {"faster": "slower", "slower": "faster"}
    assert back.verdict == swapped.get(there.verdict, there.verdict)
    assert there.ratio is not None
    assert back.ratio == pytest.approx(1 / there.ratio)


def test_too_few_rounds_and_rounds_without_variation_say_nothing() -> None:
    few = compare_log_ratios(np.linspace(-0.51, -0.49, 9))
    assert (few.verdict, few.reason, few.interval, few.rounds) == ("too_noisy", "too_few_rounds", None, 9)
    assert few.ratio == pytest.approx(math.exp(0.5))
    same = compare_log_ratios(np.full(20, -0.5))
    assert (same.verdict, same.reason, same.interval) == ("too_noisy", "no_variation", None)
    none = compare([])
    assert (none.verdict, none.ratio) == ("too_noisy", None)


def test_impossible_rounds_and_margins_are_refused() -> None:
    with pytest.raises(ValueError, match="without a run"):
        AbbaRound((1.0,), (), (1.0,), (1.0,))
    with pytest.raises(ValueError, match="positive"):
        AbbaRound((1.0,), (0.0,), (1.0,), (1.0,))
    with pytest.raises(ValueError, match="four visits"):
        AbbaRound.of_batches([[1], [1]], 1, 1)
    with pytest.raises(ValueError, match="margin"):
        compare([], margin=1.0)
