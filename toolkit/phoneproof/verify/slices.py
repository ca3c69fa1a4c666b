"""Which slice of an output disagrees, although the output as a whole agrees.

A slice is one index of one axis of the output, over all samples. An output that joins boxes in pixels with
scores in 0..1 reads 40 dB while every score is zero; the slices of its channel axis show it. Four rules keep
healthy builds from failing by their worst slice (each has a test):

1. Signal is the variance around the slice's mean, not the power: a coordinate of 320 +- 5 that a build
   returns as 320 has lost all it says. Of the mean's power the share MEAN_SHARE counts, which is what an
   8-bit grid from 0 to the mean needs for 20 dB; without it a slice that hardly varies would fail any int8
   build.
2. A slice has at least the average signal of its unit, the slices that are measured alike. A softmax class
   that never occurs has no signal of its own, and an error that is small for its neighbours is small for it.
   This also gives a finite answer for a slice that is zero in the reference and not in the build.
3. Units are told apart by range: sorted by range, a new unit begins where it grows more than UNIT_GAP times,
   except between slices that lie in 0..1, which are fractions whatever their range. A step of 8 costs the
   smaller slice 18 dB on a common grid; scores beside pixels differ by 100 times and more.
4. The error is the median over GROUPS groups of samples (sample i in group i modulo GROUPS) of the mean
   squared error, a median of means (Nemirovsky and Yudin 1983; Lugosi and Mendelson 2019). A slice fails when
   it errs throughout. One flipped image puts the error of its two classes near 0 dB, and a healthy int8 build
   of 1000 classes has several; those are seen as worst sample and in accuracy.

The cost: a class with a hundredth of its unit's average signal can be lost unseen here. Accuracy sees it.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

GROUPS: Final = 10
UNIT_GAP: Final = 8.0
MEAN_SHARE: Final = 100 / (12 * 255**2)
FRACTION_TOLERANCE: Final = 1e-3
"""Scores that a runtime computed in float16 may leave 0..1 by 1e-3."""


@dataclass(frozen=True)
class WorstSlice:
    """The slice of an axis that agrees least. axis counts without the axis of the samples."""

    axis: int
    index: int
    sqnr_db: float


class AxisSums:
    """Sums over all samples for each slice along one axis, in memory that the samples do not add to."""

    def __init__(self, length: int) -> None:
        self._count = 0
        self._total = np.zeros(length)
        self._squares = np.zeros(length)
        self._errors = np.zeros((GROUPS, length))
        self._group_counts = np.zeros(GROUPS)
        self._lowest = np.zeros(length)
        self._highest = np.zeros(length)

    def add(self, axis: int, first_sample: int, sums: "ChunkSums", squared_error: Floats) -> None:
        """Add a chunk. squared_error: (k, *output_shape); its first sample is number first_sample."""
        others = tuple(a for a in range(sums.total.ndim) if a != axis)
        per_slice = math.prod(sums.total.shape) // len(self._total)
        self._count += len(squared_error) * per_slice
        self._total += sums.total.sum(axis=others)
        self._squares += sums.squares.sum(axis=others)
        self._lowest = np.minimum(self._lowest, sums.lowest.min(axis=others))
        self._highest = np.maximum(self._highest, sums.highest.max(axis=others))
        groups = (first_sample + np.arange(len(squared_error))) % GROUPS
        np.add.at(self._errors, groups, squared_error.sum(axis=tuple(a + 1 for a in others)))
        np.add.at(self._group_counts, groups, per_slice)

    def worst(self, axis: int) -> WorstSlice | None:
        """The slice that agrees least; None when each is equal in most groups, or the reference is zero."""
        # Plain sums are precise enough: a variance below 1e-4 of the squared mean is replaced by rule 1.
        mean = self._total / self._count
        variance = np.maximum(self._squares / self._count - mean**2, 0.0)
        signal = variance + MEAN_SHARE * mean**2
        for unit in units_of(self._lowest, self._highest):
            signal[unit] = np.maximum(signal[unit], signal[unit].mean())
        used = self._group_counts > 0
        error = np.median(self._errors[used] / self._group_counts[used, None], axis=0)
        judged = (error > 0) & (signal > 0)
        if not judged.any():
            return None
        ratio = np.full(len(error), np.inf)
        ratio[judged] = signal[judged] / error[judged]
        index = int(ratio.argmin())
        return WorstSlice(axis, index, 10 * math.log10(ratio[index]))


@dataclass(frozen=True)
class ChunkSums:
    """Sums of the reference over the samples of one chunk; each (*output_shape)."""

    total: Floats
    squares: Floats
    lowest: Floats
    highest: Floats

    @classmethod
    def of(cls, reference: Floats) -> "ChunkSums":
        """reference: (k, *output_shape), finite."""
        return cls(
            reference.sum(axis=0), (reference**2).sum(axis=0), reference.min(axis=0), reference.max(axis=0)
        )


def units_of(lowest: Floats, highest: Floats) -> list[NDArray[np.intp]]:
    """Indices of the slices of each unit, in order of range (rule 3).

    lowest, highest: extremes of each slice, zero included. A slice that is always zero joins the unit with
    the smallest range.
    """
    span = highest - lowest
    order = np.argsort(span, kind="stable")
    sorted_span = span[order]
    starts = sorted_span[1:] > UNIT_GAP * sorted_span[:-1]
    starts &= sorted_span[:-1] > 0
    fraction = (lowest >= -FRACTION_TOLERANCE) & (highest <= 1 + FRACTION_TOLERANCE)
    where = np.flatnonzero(fraction[order])
    if len(where):
        starts[where[0] : where[-1]] = False
    return np.split(order, np.flatnonzero(starts) + 1)
