"""Whether labels are counted from another number than the scores of a model."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from phoneproof.verify.accuracy import Labels, Scores

LEAST_CLASSES: Final = 3
"""Of two classes a shift by one is a swap of names, and chance a half."""

LEAST_RIGHT: Final = 0.5
"""An order of ten labels drawn at random had three of them in the place of the next."""

_DOUBT: Final = 0.001


@dataclass(frozen=True)
class LabelShift:
    """by: what must be added to labels. accuracy, shifted: top-1 of n samples, with the labels as given and
    with the shifted ones."""

    by: int
    accuracy: float
    shifted: float
    n: int


def label_shift(scores: Scores, labels: Labels) -> LabelShift | None:
    """The shift by one, up or down, with which labels fit the highest scores far better; None without one.

    scores: (n, classes); labels: (n,) class indices. Far better is: right on half of the samples (any order
    of labels is right on some), at least twice as often as with the labels as given, and too often for luck
    (exact sign test over the samples that are right one way only, one-sided at 0.1 %).
    ValueError for other shapes or no sample.
    """
    if scores.ndim != 2 or labels.shape != scores.shape[:1] or not len(labels):
        raise ValueError(f"scores {scores.shape} and labels {labels.shape}, not (n, classes) and (n,)")
    n, classes = scores.shape
    if classes < LEAST_CLASSES:
        return None
    highest = np.where(np.isnan(scores).any(axis=1), -classes, scores.argmax(axis=1))
    right = {by: int(np.count_nonzero(highest == labels + by)) for by in (0, 1, -1)}
    best = max((1, -1), key=lambda by: right[by])
    given, shifted = right[0], right[best]
    if shifted < max(LEAST_RIGHT * n, 2 * given) or not _is_no_luck(shifted, given):
        return None
    return LabelShift(best, given / n, shifted / n, n)


def _is_no_luck(shifted: int, given: int) -> bool:
    from scipy.stats import binomtest

    return bool(binomtest(shifted, shifted + given, 0.5, alternative="greater").pvalue < _DOUBT)
