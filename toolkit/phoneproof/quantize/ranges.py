"""From what values a tensor took to the range that is quantized, and the file that carries the ranges."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from phoneproof.errors import ProtocolError
from phoneproof.protocol.codec import from_dict, to_dict
from phoneproof.protocol.work import write_atomically
from phoneproof.quantize.statistics import HALF_BINS, Histogram
from phoneproof.recipes.table import Method

RANGES_VERSION: Final = 1

LEVELS: Final = 256
"""Number of values an int8 has. Asymmetric quantization uses all of them inside the range."""

OUTLIER_SHARE: Final = 1e-3
"""Share of values that the entropy method may clip whatever squared error that makes."""

_CANDIDATES: Final = 256
"""Thresholds tried by the entropy method: steps of at most 0.4 % of the greatest magnitude."""

_EMPTY_LEVEL: Final = 1e-4
"""Count given to a level that holds only clipped values, so that its divergence is large but finite."""


@dataclass(frozen=True)
class Ranges:
    """ranges.json: what a toolchain quantizes activations with.

    tensors: name in the prepared graph to (lowest, highest) in real units; zero is always inside.
    percentile: only with method percentile. samples: number of calibration samples used.
    """

    version: int
    method: Method
    percentile: float | None
    calibration_sha256: str
    samples: int
    tensors: Mapping[str, tuple[float, float]]


def write_ranges(path: Path, ranges: Ranges) -> None:
    """Write ranges.json; whole or not at all."""
    write_atomically(path, json.dumps(to_dict(ranges), allow_nan=False, indent=1) + "\n")


def read_ranges(path: Path) -> Ranges:
    """The ranges in the file at `path`. ProtocolError if it is not such a file, or of another version."""
    try:
        ranges = from_dict(Ranges, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ProtocolError(f"The ranges cannot be read: {error}", where=str(path)) from error
    if ranges.version != RANGES_VERSION:
        raise ProtocolError(
            f"The ranges have version {ranges.version}, not {RANGES_VERSION}.", where=str(path)
        )
    for name, (lowest, highest) in ranges.tensors.items():
        if not (math.isfinite(lowest) and math.isfinite(highest) and lowest <= 0.0 <= highest):
            raise ProtocolError(f"The range of {name!r} is not finite or leaves zero out.", where=str(path))
    return ranges


def range_of(histogram: Histogram, method: Method, percentile: float) -> tuple[float, float]:
    """(lowest, highest) in real units, zero inside, by `method`.

    percentile: in percent; counts only for its own method. Entropy and percentile find a magnitude t and clip
    to [-t, t]; what the tensor never reached stays outside.
    """
    if method is Method.MINMAX:
        limit = math.inf
    elif method is Method.PERCENTILE:
        limit = percentile_threshold(histogram, percentile)
    else:
        limit = entropy_threshold(histogram)
    return min(0.0, max(histogram.lowest, -limit)), max(0.0, min(histogram.highest, limit))


def percentile_threshold(histogram: Histogram, percentile: float) -> float:
    """Least upper edge t of a bin with at least `percentile` percent of the values in [-t, t]."""
    positive, negative = histogram.counts[HALF_BINS:], histogram.counts[HALF_BINS - 1 :: -1]
    inside = np.cumsum(positive + negative)
    # Reckoned in counts: 1 - 99.999 % as a fraction has too few digits for a large set.
    needed = math.ceil(percentile / 100.0 * histogram.total)
    return float(np.searchsorted(inside, needed) + 1) * histogram.width


def entropy_threshold(histogram: Histogram) -> float:
    """Magnitude t whose clipped and quantized distribution loses least information against the true one.

    Migacz, "8-bit inference with TensorRT" (GTC 2017): for each candidate t, P is the histogram inside
    [-t, t] with the values outside added to its edge bins; Q spreads each of the quantized levels evenly over
    those of its bins where P is not empty; the t with the least divergence KL(P‖Q) wins, the greater t on a
    tie. Three differences: the range is asymmetric, so all 256 levels lie over the part that the tensor
    reaches (TensorRT: 128 over the magnitude); exact zeros, which quantize without error, do not weigh: the
    bin of zero counts no more than its neighbour (as in NVIDIA's pytorch-quantization); and a threshold that
    clips more than outliers (OUTLIER_SHARE) wins only if it does not add more squared error by clipping than
    it saves by finer steps. Without the last, flat backgrounds and padding mislead the search: each is one
    full bin among sparse ones, which the divergence wants alone in its level at any price (the demo's digits:
    66 times the squared error in the first convolution, and 12.8 dB for the build). All candidates are
    reckoned at once out of running sums, since each term of the divergence is a sum over a level's bins.
    """
    counts = histogram.counts.astype(np.float64)
    counts[HALF_BINS] = min(counts[HALF_BINS], counts[HALF_BINS + 1])
    occupied = np.flatnonzero(histogram.counts)
    first, last = int(occupied[0]), int(occupied[-1]) + 1
    reach = candidate_thresholds(first, last)
    starts = np.maximum(HALF_BINS - reach, min(first, HALF_BINS))
    ends = np.minimum(HALF_BINS + reach, max(last, HALF_BINS))
    errors, sums = _squared_errors(counts, starts, ends), _running_sum(counts)
    outside = sums[-1] - (sums[ends] - sums[starts])
    allowed = (outside <= OUTLIER_SHARE * sums[-1]) | (errors <= errors[0])
    divergence = np.where(allowed, _divergences(counts, starts, ends), np.inf)
    return float(reach[int(np.argmin(divergence))]) * histogram.width


def candidate_thresholds(first: int, last: int) -> NDArray[np.int64]:
    """Thresholds to try, in bins, the greatest first, for a histogram occupied in bins first..last-1.

    A window of fewer bins than LEVELS is not tried: the histogram cannot say what quantizing it loses.
    """
    below, above = max(HALF_BINS - first, 0), max(last - HALF_BINS, 0)
    greatest = max(below, above)
    step = max(1, math.ceil(greatest / _CANDIDATES))
    reach = np.arange(greatest, 0, -step, dtype=np.int64)
    wide_enough = np.minimum(reach, below) + np.minimum(reach, above) >= LEVELS
    return reach[wide_enough] if wide_enough.any() else reach[:1]


def _squared_errors(
    counts: NDArray[np.float64], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Squared error that quantizing to each window [start, end) makes, in widths of a bin squared.

    Inside it is that of rounding, a twelfth of the step squared; outside, the distance to the window's edge.
    """
    centres = np.arange(counts.size) - HALF_BINS + 0.5
    n, first, second = (_running_sum(counts * centres**power) for power in (0, 1, 2))
    low, high = (starts - HALF_BINS).astype(np.float64), (ends - HALF_BINS).astype(np.float64)
    below = second[starts] - 2 * low * first[starts] + low**2 * n[starts]
    above = second[-1] - second[ends] - 2 * high * (first[-1] - first[ends]) + high**2 * (n[-1] - n[ends])
    step = (high - low) / (LEVELS - 1)
    errors: NDArray[np.float64] = step**2 / 12 * (n[ends] - n[starts]) + below + above
    return errors


def _divergences(
    counts: NDArray[np.float64], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.float64]:
    """KL(P‖Q) of each window [start, end) of bins, in nats; infinite where nothing lies inside."""
    sums, filled = _running_sum(counts), _running_sum(counts > 0)
    spread = _running_sum(_x_log_x(counts))
    left, right = sums[starts], sums[-1] - sums[ends]
    edges = starts[:, None] + (np.arange(LEVELS + 1) * (ends - starts)[:, None]) // LEVELS
    levels, bins = np.diff(sums[edges], axis=1), np.diff(filled[edges], axis=1)
    clipped = levels.copy()
    for column, edge_bin, outside in ((0, starts, left), (-1, ends - 1, right)):
        clipped[:, column] += outside
        bins[:, column] += (counts[edge_bin] == 0) & (outside > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_q = np.log(np.where(levels > 0, levels, _EMPTY_LEVEL) / bins)
        cross = np.where(clipped > 0, clipped * log_q, 0.0).sum(axis=1)
    own = spread[ends] - spread[starts]
    for edge_bin, outside in ((starts, left), (ends - 1, right)):
        own += _x_log_x(counts[edge_bin] + outside) - _x_log_x(counts[edge_bin])
    inside = sums[ends] - sums[starts]
    with np.errstate(divide="ignore", invalid="ignore"):
        result = (own - cross) / sums[-1] - np.log(sums[-1] / inside)
    return np.where(inside > 0, result, np.inf)


def _running_sum(values: NDArray[np.float64] | NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.concatenate(([0.0], np.cumsum(values, dtype=np.float64)))


def _x_log_x(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values * np.log(np.where(values > 0, values, 1.0))
