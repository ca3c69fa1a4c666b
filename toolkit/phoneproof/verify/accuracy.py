"""Accuracy of a build, and its drop against the reference on the same samples.

A drop is reference minus build, as a fraction: 0.01 is one point, and a positive drop is a loss.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from phoneproof.verify.intervals import CONFIDENCE, Interval
from phoneproof.verify.paired_proportions import PairedTable, tango_interval

Scores = NDArray[Any]
Labels = NDArray[np.integer[Any]]
Booleans = NDArray[np.bool_]
Floats = NDArray[np.float64]

IntervalMethod = Literal["tango", "paired_t", "few_changes_bound", "paired_bca"]
MissingInterval = Literal["too_few_changes", "non_finite_score", "one_number_for_the_set"]

LEAST_CHANGES: Final = 10
"""Fewer changed samples than this are too few for a t or bootstrap interval."""
ROUNDING: Final = 1e-9
"""Differences that agree to this share of the scores are the same: 0.3 - 0.2 and 0.5 - 0.4 are not equal."""


@dataclass(frozen=True)
class AccuracyDrop:
    """A metric of a build and of the reference, on the same n samples.

    drop: reference - build; None when a value is not finite. interval: 95 % interval of the drop, by
    `method`; None with the reason `missing`. table: the counts behind a proportion's drop.
    """

    n: int
    reference: float
    build: float
    drop: float | None
    interval: Interval | None
    method: IntervalMethod | None
    missing: MissingInterval | None = None
    table: PairedTable | None = None


def top_k_correct(scores: Scores, labels: Labels, k: int) -> Booleans:
    """Whether the label is among the k highest scores, for each sample.

    scores: (n, classes); labels: (n,) class indices. Among equal scores the lower class index comes first, as
    in numpy.argmax: int8 scores tie often, and apps take the first. A row with NaN is never correct.
    ValueError for other shapes, no sample, k outside 1..classes, or a label outside 0..classes - 1.
    """
    if scores.ndim != 2 or labels.shape != scores.shape[:1] or not len(labels):
        raise ValueError(f"scores {scores.shape} and labels {labels.shape}, not (n, classes) and (n,)")
    classes = scores.shape[1]
    if not 1 <= k <= classes:
        raise ValueError(f"top {k} of {classes} classes")
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(f"labels from {labels.min()} to {labels.max()} for {classes} classes")
    of_label = np.take_along_axis(scores, labels[:, None].astype(np.intp), axis=1)
    before = np.arange(classes)[None, :] < labels[:, None]
    rank = np.count_nonzero((scores > of_label) | ((scores == of_label) & before), axis=1)
    correct: Booleans = (rank < k) & ~np.isnan(scores).any(axis=1)
    return correct


def top1_agreement(reference: Scores, candidate: Scores) -> float:
    """Share of samples with the same highest class; scores (n, classes), ties as in top_k_correct.

    A row with NaN in either agrees with nothing. ValueError for other shapes or no sample.
    """
    if reference.ndim != 2 or reference.shape != candidate.shape or not reference.size:
        raise ValueError(f"scores {reference.shape} and {candidate.shape}, not (n, classes) both")
    known = ~(np.isnan(reference).any(axis=1) | np.isnan(candidate).any(axis=1))
    return float(np.mean((reference.argmax(axis=1) == candidate.argmax(axis=1)) & known))


def is_shown_above(correct: int, n: int, chance: float) -> bool:
    """Whether `correct` of n samples are more than guessing gives, each right with the probability `chance`.

    One-sided exact binomial test at 5 %. ValueError for n < 1, or numbers out of range.
    """
    from scipy.stats import binomtest

    return bool(binomtest(correct, n, chance, alternative="greater").pvalue <= 1 - CONFIDENCE)


def correctness_drop(reference: Booleans, build: Booleans) -> AccuracyDrop:
    """Drop of a proportion from which samples were right; (n,) each. The interval is Tango's.

    ValueError for unlike shapes or no sample.
    """
    if reference.ndim != 1 or reference.shape != build.shape:
        raise ValueError(f"correctness {reference.shape} and {build.shape}, not (n,) both")
    table = PairedTable(
        both=int(np.count_nonzero(reference & build)),
        only_first=int(np.count_nonzero(reference & ~build)),
        only_second=int(np.count_nonzero(~reference & build)),
        neither=int(np.count_nonzero(~reference & ~build)),
    )
    return AccuracyDrop(
        n=table.n,
        reference=(table.both + table.only_first) / table.n,
        build=(table.both + table.only_second) / table.n,
        drop=table.difference,
        interval=tango_interval(table),
        method="tango",
        table=table,
    )


def score_drop(reference: Floats, build: Floats, bounds: tuple[float, float] | None = None) -> AccuracyDrop:
    """Drop of the mean of a score that each sample has; (n,) each.

    bounds: least and greatest value that a score can have, if known.
    Scores that are all 0 or 1 are proportions: Tango's interval. Else the paired t interval, cut to what
    the bounds allow - but not where most differences are one same value and fewer than LEAST_CHANGES are
    another: their variance is then 0 or nearly, and t would claim a certainty that n samples cannot give.
    There the share of changed samples is bounded (Clopper-Pearson) and each may be as bad as the bounds
    allow: `few_changes_bound`. Without bounds nothing limits a rare change, so there is no interval.
    ValueError for unlike shapes, no sample, or a score outside the bounds.
    """
    if reference.ndim != 1 or reference.shape != build.shape or not len(reference):
        raise ValueError(f"scores {reference.shape} and {build.shape}, not (n,) both")
    n, values = len(reference), (float(np.mean(reference)), float(np.mean(build)))
    both = np.concatenate([reference, build])
    if not np.isfinite(both).all():
        return AccuracyDrop(n, *values, None, None, None, "non_finite_score")
    if bounds is not None and (both.min() < bounds[0] or both.max() > bounds[1]):
        raise ValueError(f"scores from {both.min()} to {both.max()}, outside the bounds {bounds}")
    if np.isin(both, (0.0, 1.0)).all():
        return correctness_drop(reference == 1, build == 1)
    differences = reference - build
    drop = float(differences.mean())
    reach = bounds[1] - bounds[0] if bounds is not None else math.inf
    scale = float(np.abs(both).max())
    if _few_changes(differences, scale):
        if bounds is None:
            return AccuracyDrop(n, *values, drop, None, None, "too_few_changes")
        bound = _few_changes_bound(differences, scale, reach)
        return AccuracyDrop(n, *values, drop, bound, "few_changes_bound")
    return AccuracyDrop(n, *values, drop, _paired_t(differences, reach), "paired_t")


def set_metric_drop(
    metric: Callable[[NDArray[np.intp]], tuple[float, float]], n: int, seed: int, resamples: int = 1000
) -> AccuracyDrop:
    """Drop of a metric that has one value for a set (mAP, F1), by a paired bootstrap over samples (BCa).

    metric: (reference value, build value) of the samples at the given indices, which may repeat; it is called
    resamples + 2 n times. seed: of the resampling. A metric of which fewer than LEAST_CHANGES samples move
    the drop gets no interval, because resampling would read [0, 0] or nearly; nor does one that is not finite
    on some resample. ValueError when n < 1.
    """
    from scipy.stats import bootstrap

    if n < 1:
        raise ValueError("no samples")
    reference, build = metric(np.arange(n))
    if not math.isfinite(reference) or not math.isfinite(build):
        return AccuracyDrop(n, reference, build, None, None, None, "non_finite_score")

    def drop_of(indices: NDArray[np.intp]) -> float:
        first, second = metric(indices)
        return first - second

    drop = reference - build
    without_one = np.array([drop_of(np.delete(np.arange(n), i)) for i in range(n)]) if n > 1 else np.zeros(1)
    if not np.isfinite(without_one).all():
        return AccuracyDrop(n, reference, build, drop, None, None, "non_finite_score")
    if n <= LEAST_CHANGES or _few_changes(without_one, max(abs(reference), abs(build))):
        return AccuracyDrop(n, reference, build, drop, None, None, "too_few_changes")
    found = bootstrap(
        (np.arange(n),),
        drop_of,
        n_resamples=resamples,
        vectorized=False,
        confidence_level=CONFIDENCE,
        method="BCa",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    if not math.isfinite(found.low) or not math.isfinite(found.high):
        return AccuracyDrop(n, reference, build, drop, None, None, "non_finite_score")
    return AccuracyDrop(
        n, reference, build, drop, Interval(float(found.low), float(found.high)), "paired_bca"
    )


def number_drop(reference: float, build: float, n: int) -> AccuracyDrop:
    """Drop of a metric of which only the two numbers are known: no interval, so no gate passes or fails."""
    if not math.isfinite(reference) or not math.isfinite(build):
        return AccuracyDrop(n, reference, build, None, None, None, "non_finite_score")
    return AccuracyDrop(n, reference, build, reference - build, None, None, "one_number_for_the_set")


def _commonest(values: Floats, scale: float) -> tuple[float, int]:
    """The commonest value, and how many values differ from it by more than rounding at this scale."""
    grid = np.round(values / (ROUNDING * scale)) if scale > 0 else np.zeros(len(values))
    _, first, counts = np.unique(grid, return_index=True, return_counts=True)
    most = int(counts.argmax())
    return float(values[first[most]]), int(len(values) - counts[most])


def _few_changes(values: Floats, scale: float) -> bool:
    changed = _commonest(values, scale)[1]
    return changed < LEAST_CHANGES and 2 * changed < len(values)


def _few_changes_bound(differences: Floats, scale: float, reach: float) -> Interval:
    from scipy.stats import binomtest

    common, changed = _commonest(differences, scale)
    share = binomtest(changed, len(differences)).proportion_ci(CONFIDENCE, method="exact").high
    return Interval(float(common * (1 - share) - reach * share), float(common * (1 - share) + reach * share))


def _paired_t(differences: Floats, reach: float) -> Interval:
    from scipy.stats import ttest_1samp

    found = ttest_1samp(differences, 0.0).confidence_interval(CONFIDENCE)
    return Interval(max(float(found.low), -reach), min(float(found.high), reach))
