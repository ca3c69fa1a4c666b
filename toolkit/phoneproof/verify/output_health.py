"""Faults of one output that have a name, and that a distance from the reference does not tell.

An output that joins boxes in pixels and scores in 0..1 and is quantized with one scale may read 40 dB while
every score is zero; one that gives the same answer for every input may read 15. What is looked for:

constant      every value of every sample is one and the same
unchanging    each sample gets the same values
dead          the same of single slices of an axis, such as one channel or class
crushed       slices of small range share a scale with large ones, and few levels are left to them
railed        values are cut off at the largest or smallest value that the build can give

Each counts only where the reference shows that there was something to lose. Sums are kept for slices, and one
sample of each side, so memory does not grow with the number of samples.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from phoneproof.errors import Fact
from phoneproof.verify.parity import LARGEST
from phoneproof.verify.slices import units_of

Array = NDArray[Any]
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

FaultId = Literal[
    "OUTPUT-CONSTANT",
    "OUTPUT-UNCHANGING",
    "OUTPUT-DEAD-CHANNELS",
    "OUTPUT-SCORES-CRUSHED",
    "OUTPUT-RAILED",
]

LEAST_CHANGE: Final = 5 / 255
"""Share of its largest value by which the reference must change: five steps of an 8-bit grid from zero to it.
A probability that stays between 0.999 and 0.9999 is one value in int8, and nothing is lost.
"""
LEAST_PART: Final = 0.1
"""A slice counts where its mean squared change is this share of its unit's: a class that no sample belongs to
hardly changes, and may well read zero in int8.
"""
DEAD_SHARE: Final = 0.01
"""A slice that keeps at most this of the reference's mean squared change is dead: the rest is flicker."""
FEW_LEVELS: Final = 16
"""16 levels are 4 bits: 24 dB for values that are spread evenly, less for scores, most of which are low."""
LEVELS_LOST: Final = 4
"""The reference has this many times the levels, else there were few to begin with."""
LEAST_RAILED: Final = 0.02
LEAST_EXCESS: Final = 0.05
"""Values at an end count as cut off when they are 2 % of all, and the reference's lie beyond it by 5 % of its
span on average. Calibration by percentile cuts off a hundredth of that on purpose; a softmax whose largest
int8 value is 255/256 misses 1.0 by 0.4 %.
"""
_FEWEST_RAILED: Final = 10


@dataclass(frozen=True)
class OutputFault:
    """One fault of an output, as the id of its finding and facts."""

    id: FaultId
    facts: Mapping[str, Fact]


@dataclass(frozen=True)
class Suspects:
    """Slices of an axis (counted without the axis of the samples) whose range is small beside the largest.

    low, high: the reference's extremes in them; largest: the span of the largest slice.
    """

    axis: int
    indices: Indices
    low: float
    high: float
    largest: float


class _Axis:
    """What is known of the slices along one axis."""

    def __init__(self, length: int) -> None:
        self.lowest = np.full(length, np.inf)
        self.highest = np.full(length, -np.inf)
        self.reference_change = np.zeros(length)
        self.build_change = np.zeros(length)

    def add(self, axis: int, lowest: Array, highest: Array, reference: Floats, build: Floats) -> None:
        """Each of the output's shape, already over the samples of a chunk."""
        others = tuple(a for a in range(lowest.ndim) if a != axis)
        self.lowest = np.minimum(self.lowest, lowest.min(axis=others))
        self.highest = np.maximum(self.highest, highest.max(axis=others))
        self.reference_change += reference.sum(axis=others)
        self.build_change += build.sum(axis=others)

    def units(self) -> list[Indices]:
        return units_of(np.minimum(self.lowest, 0.0), np.maximum(self.highest, 0.0))


class _Rail:
    """Values at the largest that the build gave so far (sign 1) or the smallest (sign -1)."""

    def __init__(self, sign: int) -> None:
        self._sign = sign
        self.value = -np.inf
        self.count = 0
        self.excess = 0.0

    def add(self, reference: Array, build: Array) -> None:
        end = float((self._sign * build).max())
        if end < self.value:
            return
        if end > self.value:
            self.value, self.count, self.excess = end, 0, 0.0
        there = self._sign * build == end
        beyond = self._sign * reference[there].astype(np.float64) - end
        self.count += int(np.count_nonzero(there))
        self.excess += float(np.maximum(beyond, 0.0).sum())


class OutputHealth:
    """Takes chunks of samples in order. shape: of the output of one sample."""

    def __init__(self, shape: tuple[int, ...], labels: bool = False) -> None:
        self._labels = labels
        self._axes = {axis: _Axis(length) for axis, length in enumerate(shape) if length > 1}
        self._first: tuple[Array, Array] | None = None
        self._rails = (_Rail(-1), _Rail(1))
        self._samples = 0
        self._elements = 0
        self._reference = np.array([np.inf, -np.inf])
        self._build = np.array([np.inf, -np.inf])
        self._reference_change = self._build_change = 0.0
        self._finite = True

    def add(self, reference: Array, build: Array) -> None:
        """k samples of both: (k, *shape) in real values. Values that are not finite end the examination:
        parity tells of those.
        """
        reference, build = _as_float(reference), _as_float(build)
        if not reference.size or not self._finite:
            return
        self._finite = _is_finite(reference) and _is_finite(build)
        if not self._finite:
            return
        if self._first is None:
            self._first = reference[0].copy(), build[0].copy()
        changes = [_change(side, first) for side, first in zip((reference, build), self._first, strict=True)]
        lowest, highest = reference.min(axis=0), reference.max(axis=0)
        for axis, sums in self._axes.items():
            sums.add(axis, lowest, highest, *changes)
        self._samples += len(reference)
        self._elements += reference.size
        self._reference = _widened(self._reference, reference)
        self._build = _widened(self._build, build)
        self._reference_change += float(changes[0].sum())
        self._build_change += float(changes[1].sum())
        if not self._labels:
            for rail in self._rails:
                rail.add(reference, build)

    def suspects(self) -> Suspects | None:
        """The slices that may be crushed: of the unit with the smallest range beside the largest; else None.

        Whether they are, the levels that the build has in them tell.
        """
        found: list[Suspects] = []
        for axis, sums in self._axes.items() if self._may_be_judged and not self._labels else ():
            spans = np.maximum(sums.highest, 0.0) - np.minimum(sums.lowest, 0.0)
            largest = float(spans.max())
            for unit in sums.units():
                span = float(spans[unit].max())
                if 0 < span * FEW_LEVELS <= largest:
                    low, high = float(sums.lowest[unit].min()), float(sums.highest[unit].max())
                    found.append(Suspects(axis, np.sort(unit), low, high, largest))
        return min(found, key=lambda one: one.high - one.low, default=None)

    def faults(self, crushed: Suspects | None = None) -> tuple[OutputFault, ...]:
        """What is wrong, the widest first. crushed: slices that are known to be, which need no other name."""
        if not self._may_be_judged:
            return ()
        whole = self._whole()
        if whole is not None:
            return (whole,)
        if self._labels:
            return ()
        dead, railed = self._dead(crushed), self._railed()
        return tuple(fault for fault in (dead, railed) if fault is not None)

    @property
    def _may_be_judged(self) -> bool:
        return self._finite and self._samples > 0

    def _whole(self) -> OutputFault | None:
        largest = float(np.abs(self._reference).max())
        facts: dict[str, Fact] = {
            "samples": self._samples,
            "low": float(self._reference[0]),
            "high": float(self._reference[1]),
        }
        if self._build[0] == self._build[1]:
            if float(np.ptp(self._reference)) < LEAST_CHANGE * largest or largest == 0:
                return None
            return OutputFault("OUTPUT-CONSTANT", {"value": float(self._build[0]), **facts})
        change = (self._reference_change / self._elements) ** 0.5
        if self._samples < 2 or self._build_change > 0 or change < LEAST_CHANGE * largest or change == 0:
            return None
        return OutputFault("OUTPUT-UNCHANGING", {"change": change, **facts})

    def _dead(self, crushed: Suspects | None) -> OutputFault | None:
        """The dead slices of the axis that has the greatest share of them."""
        found: list[tuple[float, int, Indices]] = []
        for axis, sums in self._axes.items():
            if self._samples < 2 or (crushed is not None and crushed.axis != axis):
                continue
            dead = self._dead_slices(sums)
            if crushed is not None:
                dead = np.setdiff1d(dead, crushed.indices)
            if len(dead):
                found.append((len(dead) / len(sums.lowest), axis, dead))
        if not found:
            return None
        share, axis, dead = max(found, key=lambda one: one[0])
        sums = self._axes[axis]
        kept = float((sums.build_change[dead] / sums.reference_change[dead]).max())
        return OutputFault(
            "OUTPUT-DEAD-CHANNELS",
            {
                "axis": axis,
                "slices": listed(dead),
                "count": len(dead),
                "of": round(len(dead) / share),
                "kept": kept,
                "samples": self._samples,
            },
        )

    def _dead_slices(self, sums: _Axis) -> Indices:
        per_slice = self._elements / len(sums.lowest)
        change = sums.reference_change / per_slice
        magnitude = np.maximum(np.abs(sums.lowest), np.abs(sums.highest))
        counts = (change > 0) & (np.sqrt(change) >= LEAST_CHANGE * magnitude)
        for unit in sums.units():
            counts[unit] &= change[unit] >= LEAST_PART * change[unit].mean()
        return np.flatnonzero(counts & (sums.build_change <= DEAD_SHARE * sums.reference_change))

    def _railed(self) -> OutputFault | None:
        span = float(np.ptp(self._reference))
        least = max(LEAST_EXCESS * span, LEAST_CHANGE * float(np.abs(self._reference).max()))
        found = []
        for rail, end in zip(self._rails, ("smallest", "largest"), strict=True):
            if rail.count < max(_FEWEST_RAILED, LEAST_RAILED * self._elements):
                continue
            excess = rail.excess / rail.count
            if span > 0 and excess >= least:
                value = -rail.value if end == "smallest" else rail.value
                found.append((rail.count, end, float(value), excess / span))
        if not found:
            return None
        count, end, value, excess = max(found)
        reached = float(self._reference[0 if end == "smallest" else 1])
        facts: dict[str, Fact] = {
            "end": end,
            "value": value,
            "share": count / self._elements,
            "excess": excess,
            "reached": reached,
            "samples": self._samples,
        }
        return OutputFault("OUTPUT-RAILED", facts)


def levels(values: Iterable[Array], suspects: Suspects, most: int) -> int:
    """How many different values the suspected slices take over all samples; `most` + 1 for more than that.

    values: the output of each sample. It stops at the first sample that tells.
    """
    seen: NDArray[Any] = np.empty(0)
    for one in values:
        seen = np.union1d(seen, np.take(one, suspects.indices, axis=suspects.axis))
        if len(seen) > most:
            return most + 1
    return len(seen)


def crushed_fault(
    suspects: Suspects, length: int, build: Iterable[Array], reference: Iterable[Array], scale: float | None
) -> OutputFault | None:
    """The fault of suspected slices, if few levels are left to them.

    length: of the axis. build, reference: the output of each sample. scale: the build's, if the output is
    quantized itself; a build that gives floats may have been rounded before.
    """
    left = levels(build, suspects, FEW_LEVELS)
    if left > FEW_LEVELS:
        return None
    before = levels(reference, suspects, LEVELS_LOST * FEW_LEVELS)
    if before < LEVELS_LOST * left:
        return None
    facts: dict[str, Fact] = {
        "axis": suspects.axis,
        "slices": listed(suspects.indices),
        "count": len(suspects.indices),
        "of": length,
        "low": suspects.low,
        "high": suspects.high,
        "largest": suspects.largest,
        "levels": left,
        "reference_levels": before,
        "scale": scale,
    }
    return OutputFault("OUTPUT-SCORES-CRUSHED", facts)


def listed(indices: Indices, most: int = 8) -> str:
    """Indices in ascending order as runs: `4-83, 90`. After `most` runs, how many indices follow."""
    runs = np.split(indices, np.flatnonzero(np.diff(indices) > 1) + 1)
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs[:most]]
    rest = sum(map(len, runs[most:]))
    return ", ".join(texts) + (f" and {rest} more" if rest else "")


def watched(chunks: Iterator[tuple[Array, Array]], health: OutputHealth) -> Iterator[tuple[Array, Array]]:
    """The same chunks, each shown to `health` on its way, so that outputs are read once."""
    for reference, build in chunks:
        health.add(reference, build)
        yield reference, build


def _as_float(array: Array) -> Array:
    """float32 and float64 as they are, anything narrower in float32, integers in float64."""
    if array.dtype.kind == "f":
        return array if array.itemsize >= 4 else array.astype(np.float32)
    return array.astype(np.float64)


def _is_finite(array: Array) -> bool:
    """In float64, without magnitudes whose square has no room in it."""
    return bool((np.abs(array) < (LARGEST if array.itemsize == 8 else np.inf)).all())


def _change(side: Array, first: Array) -> Floats:
    """Squared difference to the first sample, summed over the samples: (*shape)."""
    changed: Floats = np.square(np.subtract(side, first, dtype=np.float64)).sum(axis=0)
    return changed


def _widened(ends: Floats, values: Array) -> Floats:
    return np.array([min(ends[0], float(values.min())), max(ends[1], float(values.max()))])
