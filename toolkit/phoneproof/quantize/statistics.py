"""What values a tensor took: least, greatest and a histogram, in memory that does not grow.

The width of a bin is always a power of two. Dividing a float32 by it is exact (but for values below 1e-38
beside large ones, which count as zero), so a value's bin never depends on rounding; and when a larger value
comes, neighbouring bins merge in pairs until the range covers it, which puts every value seen before into
exactly the bin that it would have had from the start. The result is therefore the same for every order of the
samples. (A moving average of minimum and maximum, as LiteRT's quantizer keeps, is not: its ranges follow the
last samples.) Each sign has bins of its own width, so that the few positive values before a ReLU are resolved
as well as those behind it, and the ReLU's output needs no look of its own.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from phoneproof.errors import DataError

HALF_BINS: Final = 4096
"""Bins on each side of zero. The greatest magnitude lies in the upper half of its side, so at least 2,048
bins resolve it."""

_BLOCK: Final = 65536
"""Values binned at a time: their float32 and int64 copies stay in the second-level cache."""

_LEAST_EXPONENT: Final = -120
"""Keeps the scale 2^120 finite in float32. Values below 2^-108 all fall into the bins beside zero."""

_LOG2_HALF_BINS: Final = HALF_BINS.bit_length() - 1


@dataclass(frozen=True)
class Histogram:
    """counts: int64[2 * HALF_BINS]; bin HALF_BINS + k holds the values in [k * width, (k + 1) * width).

    lowest, highest: the exact least and greatest value. total: number of values.
    """

    counts: NDArray[np.int64]
    width: float
    lowest: float
    highest: float
    total: int


@dataclass
class _Side:
    """Bins of one sign, counted from zero outwards; bin k holds magnitudes from k to k + 1 widths."""

    exponent: int | None = None
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(HALF_BINS, np.int64))

    @property
    def scale(self) -> np.float32:
        """One over the width of a bin."""
        return np.float32(2.0 ** -(self.exponent or 0))

    def cover(self, magnitude: float) -> None:
        """Widen the bins until `magnitude` lies within them."""
        if magnitude > 0.0:
            self.widen(max(math.frexp(magnitude)[1] - _LOG2_HALF_BINS, _LEAST_EXPONENT))

    def widen(self, exponent: int) -> None:
        """Merge bins until they are at least 2^exponent wide."""
        if self.exponent is None:
            self.exponent = exponent  # until now there were only zeros, whose bin is the same at any width
        for _ in range(min(exponent - self.exponent, _LOG2_HALF_BINS)):
            merged = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts[: merged.size] = merged
            self.counts[merged.size :] = 0
        self.exponent = max(self.exponent, exponent)

    def clipped(self, last: float) -> "_Side":
        """The bins after clipping to values of bin `last`."""
        counts = self.counts.copy()
        last = int(min(last, HALF_BINS - 1))
        counts[last] += counts[last + 1 :].sum()
        counts[last + 1 :] = 0
        return _Side(self.exponent, counts)


@dataclass
class TensorStatistics:
    """Collects one tensor's values over the calibration set."""

    name: str
    lowest: float = math.inf
    highest: float = -math.inf
    total: int = 0
    _positive: _Side = field(default_factory=_Side)
    _negative: _Side = field(default_factory=_Side)

    def add(self, values: NDArray[Any], sample: int, scratch: "Scratch") -> None:
        """Count the values of one sample. DataError, naming tensor and sample, if one is not finite."""
        flat = np.ascontiguousarray(values, dtype=np.float32).reshape(-1)
        if not flat.size:
            return
        lowest, highest = float(flat.min()), float(flat.max())
        if not (math.isfinite(lowest) and math.isfinite(highest)):
            raise DataError(
                f"Tensor {self.name!r} is not finite for calibration sample {sample}.",
                where="calibration",
                next_step="Check this sample and the preprocessing, or leave it out of the calibration set.",
                tensor=self.name,
                sample=sample,
                not_finite=int(flat.size - np.count_nonzero(np.isfinite(flat))),
            )
        self.lowest, self.highest = min(self.lowest, lowest), max(self.highest, highest)
        self.total += flat.size
        self._positive.cover(highest)
        self._negative.cover(-lowest)
        for start in range(0, flat.size, _BLOCK):
            self._count(flat[start : start + _BLOCK], lowest >= 0.0, scratch)

    def histogram(self) -> Histogram:
        """What was collected, in bins of one width. ValueError if nothing was."""
        if not self.total:
            raise ValueError(f"no values of {self.name}")
        sides = [_Side(side.exponent, side.counts.copy()) for side in (self._negative, self._positive)]
        widest = max((side.exponent for side in sides if side.exponent is not None), default=0)
        for side in sides:
            side.widen(widest)
        counts = np.concatenate((sides[0].counts[::-1], sides[1].counts))
        return Histogram(counts, 2.0**widest, self.lowest, self.highest, self.total)

    def clipped(self, name: str, low: float, high: float) -> "TensorStatistics":
        """The statistics of the tensor `name` that holds these values clipped to low ≤ 0 ≤ high.

        Exact where a bound is zero or infinite, as a ReLU's; else exact to the bin that the bound lies in.
        """
        positive, negative = self._positive.clipped(high * float(self._positive.scale)), _Side()
        if low == 0.0:
            positive.counts[0] += self._negative.counts.sum()
        else:
            # A bin holds the value at its outer edge on this side, at its inner edge on the other.
            reach = -low * float(self._negative.scale)
            negative = self._negative.clipped(math.ceil(reach) - 1 if math.isfinite(reach) else reach)
        lowest, highest = (min(max(value, low), high) for value in (self.lowest, self.highest))
        return TensorStatistics(name, lowest, highest, self.total, positive, negative)

    def _count(self, block: NDArray[np.float32], nonnegative: bool, scratch: "Scratch") -> None:
        scaled = scratch.scaled[: block.size]
        up, down = self._positive.scale, self._negative.scale
        np.multiply(block, up, out=scaled)
        if nonnegative:  # truncation is floor for these
            self._positive.counts += np.bincount(scratch.as_bins(scaled), minlength=HALF_BINS)
            return
        if up != down:
            # Of x * up and x * down, the greater has the right scale for both signs if up > down.
            other = scratch.other[: block.size]
            np.multiply(block, down, out=other)
            (np.maximum if up > down else np.minimum)(scaled, other, out=scaled)
        np.floor(scaled, out=scaled)
        np.add(scaled, np.float32(HALF_BINS), out=scaled)
        counts = np.bincount(scratch.as_bins(scaled), minlength=2 * HALF_BINS)
        self._negative.counts += counts[HALF_BINS - 1 :: -1]
        self._positive.counts += counts[HALF_BINS:]


@dataclass(frozen=True)
class Scratch:
    """Buffers for binning one block, shared by all tensors."""

    scaled: NDArray[np.float32] = field(default_factory=lambda: np.empty(_BLOCK, np.float32))
    other: NDArray[np.float32] = field(default_factory=lambda: np.empty(_BLOCK, np.float32))
    narrow: NDArray[np.int32] = field(default_factory=lambda: np.empty(_BLOCK, np.int32))
    bins: NDArray[np.intp] = field(default_factory=lambda: np.empty(_BLOCK, np.intp))

    def as_bins(self, scaled: NDArray[np.float32]) -> NDArray[np.intp]:
        """The integer parts, in a buffer that the next call overwrites."""
        # Two steps are more than twice as fast as one: only the way by int32 has vector instructions.
        narrow, bins = self.narrow[: scaled.size], self.bins[: scaled.size]
        np.copyto(narrow, scaled, casting="unsafe")
        np.copyto(bins, narrow)
        return bins


@dataclass(frozen=True)
class Derivation:
    """A tensor whose statistics follow from those of `source`: its values clipped to low ≤ 0 ≤ high."""

    source: str
    low: float
    high: float
