"""Correctness by label, and drops that never claim more than the samples say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.stats import ttest_rel

from phoneproof.verify.accuracy import (
    AccuracyDrop,
    correctness_drop,
    is_shown_above,
    number_drop,
    score_drop,
    set_metric_drop,
    top1_agreement,
    top_k_correct,
)
from phoneproof.verify.intervals import Interval, judge_interval

Floats = NDArray[np.float64]
FEW_LEVELS = arrays(np.int8, (20, 6), elements=st.integers(-3, 3))


def interval_of(drop: AccuracyDrop) -> Interval:
    assert drop.interval is not None
    return drop.interval


@given(FEW_LEVELS, arrays(np.int64, (20,), elements=st.integers(0, 5)), st.integers(1, 6))
def test_top_k_is_the_head_of_a_stable_sort_also_with_ties(
    scores: NDArray[np.int8], labels: NDArray[np.int64], k: int
) -> None:
    order = np.argsort(-scores.astype(int), axis=1, kind="stable")
    expected = [labels[i] in order[i, :k] for i in range(20)]
    assert top_k_correct(scores, labels, k).tolist() == expected
    if k == 1:
        assert top_k_correct(scores, labels, 1).tolist() == (scores.argmax(axis=1) == labels).tolist()


def test_unsigned_scores_and_rows_with_nan() -> None:
    assert top_k_correct(np.array([[0, 255, 7]], np.uint8), np.array([1], np.uint8), 1).all()
    scores = np.array([[0.9, np.nan], [0.9, 0.1], [-np.inf, 0.0]])
    assert top_k_correct(scores, np.array([0, 0, 1]), 1).tolist() == [False, True, True]
    assert top1_agreement(scores, scores) == 2 / 3


def test_agreement_counts_the_same_first_highest_class() -> None:
    assert top1_agreement(np.array([[1, 1, 0], [0, 2, 1]]), np.array([[2, 0, 0], [0, 1, 1]])) == 1.0
    assert top1_agreement(np.array([[1, 1, 0], [0, 2, 1]]), np.array([[0, 2, 0], [0, 1, 1]])) == 0.5


@pytest.mark.parametrize(("labels", "k"), [([0, 2], 1), ([0, -1], 1), ([0], 1), ([0, 1], 0), ([0, 1], 3)])
def test_impossible_labels_and_k_are_refused(labels: list[int], k: int) -> None:
    with pytest.raises(ValueError, match=r"labels|top"):
        top_k_correct(np.zeros((2, 2)), np.array(labels), k)


def test_a_drop_is_reference_minus_build_and_a_loss_is_positive() -> None:
    reference = np.array([True] * 90 + [False] * 10)
    build = np.array([True] * 80 + [False] * 20)
    found = correctness_drop(reference, build)
    assert (found.n, found.reference, found.build) == (100, 0.9, 0.8)
    assert found.drop == pytest.approx(0.1)
    assert 0 < interval_of(found).lo < 0.1 < interval_of(found).hi


def test_no_changed_answer_passes_a_one_point_gate_only_with_enough_samples() -> None:
    verdicts = {}
    for n in (32, 200, 500, 2000):
        same = np.ones(n, bool)
        interval = interval_of(correctness_drop(same, same))
        verdicts[n] = judge_interval(interval.lo, interval.hi, 0.01, "at_most").verdict
    assert verdicts == {32: "inconclusive", 200: "inconclusive", 500: "pass", 2000: "pass"}


@pytest.mark.parametrize(
    ("correct", "n", "chance", "shown"),
    [
        (14, 20, 0.5, False),  # one-sided p: 0.0577
        (15, 20, 0.5, True),  # 0.0207
        (0, 20, 0.5, False),
        (1, 200, 0.001, False),  # 0.181
        (2, 200, 0.001, True),  # 0.0175
        (3, 3, 0.5, False),  # 0.125: three samples show nothing about two classes
    ],
)
def test_what_is_shown_to_be_better_than_chance(correct: int, n: int, chance: float, shown: bool) -> None:
    assert is_shown_above(correct, n, chance) is shown


def test_a_real_valued_score_gives_the_paired_t_interval_of_scipy() -> None:
    random = np.random.default_rng(0)
    reference = random.uniform(0.5, 0.9, 60)
    build = reference - random.normal(0.02, 0.05, 60)
    found = score_drop(reference, build)
    expected = ttest_rel(reference, build).confidence_interval(0.95)
    assert found.method == "paired_t"
    assert (interval_of(found).lo, interval_of(found).hi) == pytest.approx((expected.low, expected.high))


def test_a_score_of_zeros_and_ones_is_a_proportion() -> None:
    reference, build = np.array([1.0, 1, 0, 1]), np.array([1.0, 0, 0, 1])
    assert score_drop(reference, build) == correctness_drop(reference == 1, build == 1)


@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_equal_differences_claim_no_certainty(shift: float) -> None:
    reference = np.random.default_rng(1).uniform(0.2, 0.9, 50)
    unbounded = score_drop(reference, reference - shift)
    assert (unbounded.interval, unbounded.missing) == (None, "too_few_changes")
    assert unbounded.drop == pytest.approx(shift)
    bounded = score_drop(reference, reference - shift, bounds=(0.0, 1.0))
    assert bounded.method == "few_changes_bound"
    share = 1 - 0.025 ** (1 / 50)  # the rule of three at 97.5 %
    assert interval_of(bounded).hi == pytest.approx(shift * (1 - share) + share)
    assert interval_of(bounded).lo == pytest.approx(shift * (1 - share) - share)


def test_few_changed_samples_widen_the_bound() -> None:
    reference = np.random.default_rng(2).uniform(0.2, 0.9, 200)
    build = reference.copy()
    widths = []
    for changed in range(0, 10, 3):
        build[:changed] = 0.1
        found = score_drop(reference, build, bounds=(0, 1))
        assert found.method == "few_changes_bound"
        assert found.drop is not None
        assert found.drop in interval_of(found)
        widths.append(interval_of(found).hi)
    assert widths == sorted(widths)
    build[:10] = 0.1
    assert score_drop(reference, build, bounds=(0, 1)).method == "paired_t"


def test_scores_that_are_rarely_changed_are_covered() -> None:
    random = np.random.default_rng(3)
    covered = 0
    for _ in range(400):
        reference = random.uniform(0.5, 1.0, 300)
        build = np.where(random.random(300) < 0.01, 0.0, reference)
        covered += 0.01 * 0.75 in interval_of(score_drop(reference, build, bounds=(0, 1)))
    assert covered / 400 >= 0.95


def test_one_sample_and_nan_say_nothing_and_scores_outside_their_bounds_are_refused() -> None:
    assert score_drop(np.array([0.3]), np.array([0.2])).missing == "too_few_changes"
    assert score_drop(np.array([0.3, np.nan]), np.array([0.2, 0.1])).drop is None
    with pytest.raises(ValueError, match="outside the bounds"):
        score_drop(np.array([0.3]), np.array([1.2]), bounds=(0, 1))


def f1(predicted: NDArray[np.bool_], truth: NDArray[np.bool_]) -> float:
    total = predicted.sum() + truth.sum()
    return float(2 * (predicted & truth).sum() / total) if total else 1.0


def test_a_metric_of_the_whole_set_gets_a_paired_bootstrap_or_none() -> None:
    random = np.random.default_rng(4)
    truth = random.random(200) < 0.4
    reference = truth ^ (random.random(200) < 0.05)
    build = reference ^ (random.random(200) < 0.15)

    def metric(indices: NDArray[np.intp]) -> tuple[float, float]:
        return f1(reference[indices], truth[indices]), f1(build[indices], truth[indices])

    found = set_metric_drop(metric, 200, seed=5, resamples=400)
    assert found.method == "paired_bca"
    assert found.drop is not None
    assert interval_of(found).lo < found.drop < interval_of(found).hi
    assert found == set_metric_drop(metric, 200, seed=5, resamples=400)

    def same(indices: NDArray[np.intp]) -> tuple[float, float]:
        return f1(reference[indices], truth[indices]), f1(reference[indices], truth[indices])

    unchanged = set_metric_drop(same, 200, seed=5)
    assert (unchanged.drop, unchanged.interval, unchanged.missing) == (0.0, None, "too_few_changes")


def test_two_numbers_give_a_drop_without_interval() -> None:
    found = number_drop(0.5, 0.4, 100)
    assert found.drop == pytest.approx(0.1)
    assert (found.interval, found.missing) == (None, "one_number_for_the_set")
    assert number_drop(0.5, float("nan"), 100).drop is None
