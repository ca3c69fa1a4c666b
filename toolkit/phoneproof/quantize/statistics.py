"""What values a tensor took: least, greatest and a histogram, in memory that does not grow.

The width of a bin is always a power of two. Dividing a float32 by it is exact (but for values below 1e-38
beside large ones, which count as zero), so a value's bin never depends on rounding; and when a larger value
comes, neighbouring bins merge in pairs until the range covers it, which puts every value seen before into
exactly the bin that it would have had from the start. The result is therefore the same for every order of the
samples. (A moving average of minimum and maximum, as LiteRT's quantizer keeps, is not: its ranges follow the
last samples.)
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
class TensorStatistics:
    """Collects one tensor's values over the calibration set."""

    name: str
    lowest: float = math.inf
    highest: float = -math.inf
    total: int = 0
    _exponent: int | None = None
    _counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2 * HALF_BINS, np.int64))

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
        self._cover(max(-lowest, highest, 0.0))
        self._count(flat, lowest >= 0.0, scratch)

    def histogram(self) -> Histogram:
        """What was collected. ValueError if nothing was."""
        if not self.total:
            raise ValueError(f"no values of {self.name}")
        return Histogram(
            self._counts.copy(), 2.0 ** (self._exponent or 0), self.lowest, self.highest, self.total
        )

    def _cover(self, magnitude: float) -> None:
        """Widen the bins until `magnitude` lies within them."""
        if magnitude == 0.0:
            return
        needed = max(math.frexp(magnitude)[1] - _LOG2_HALF_BINS, _LEAST_EXPONENT)
        if self._exponent is None:
            self._exponent = needed  # until now there were only zeros, whose bin is the same at any width
        doublings = min(needed - self._exponent, _LOG2_HALF_BINS + 1)
        for _ in range(doublings):
            merged = self._counts.reshape(-1, 2).sum(axis=1)
            self._counts.fill(0)
            self._counts[HALF_BINS // 2 : HALF_BINS // 2 + HALF_BINS] = merged
        self._exponent = max(self._exponent, needed)

    def _count(self, flat: NDArray[np.float32], nonnegative: bool, scratch: "Scratch") -> None:
        scale = np.float32(2.0 ** -(self._exponent or 0))
        # Truncation is floor for values that are not negative, which saves two passes after every ReLU.
        target = self._counts[HALF_BINS:] if nonnegative else self._counts
        for start in range(0, flat.size, _BLOCK):
            block = flat[start : start + _BLOCK]
            scaled, bins = scratch.scaled[: block.size], scratch.bins[: block.size]
            np.multiply(block, scale, out=scaled)
            if not nonnegative:
                np.floor(scaled, out=scaled)
                np.add(scaled, np.float32(HALF_BINS), out=scaled)
            np.copyto(bins, scaled, casting="unsafe")
            target += np.bincount(bins, minlength=target.size)


@dataclass(frozen=True)
class Scratch:
    """Buffers for binning one block, shared by all tensors."""

    scaled: NDArray[np.float32] = field(default_factory=lambda: np.empty(_BLOCK, np.float32))
    bins: NDArray[np.intp] = field(default_factory=lambda: np.empty(_BLOCK, np.intp))
