"""Error of one output of a build against the reference, over all samples, in memory that stays flat."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from phoneproof.verify.slices import AxisSums, ChunkSums, Floats, WorstSlice

Numbers = NDArray[Any]
ParityReason = Literal["zero_reference", "non_finite_build", "non_finite_reference"]

LEAST_SAMPLE_SIGNAL: Final = 0.01
"""A sample counts as having this share of the mean sample's power: a black image is not the worst sample."""

LARGEST: Final = 1e140


@dataclass(frozen=True)
class WorstSample:
    """The sample whose output agrees least, by its index in the order in which samples were added."""

    index: int
    sqnr_db: float


@dataclass(frozen=True)
class OutputParity:
    """How far one output of a build is from the reference.

    sqnr_db: 10 log10 of the reference's power over the error's power, over all samples. None when the
        outputs are equal (exact=True), else None with a reason and then never a pass:
        non_finite_build - NaN or an infinity where the reference is finite;
        non_finite_reference - the other way round, or two different ones;
        zero_reference - the reference is zero everywhere and the build is not.
    mse, max_abs_error, cosine: over the elements that are finite in both; None when there is none, cosine
        also when one side is zero. Elements that are the same infinity, or NaN, in both agree and are left
        out. A magnitude of 1e140 and more, whose square has no room in float64, counts as not finite.
    worst_sample: None when exact or the reference is zero.
    worst_slices: at most one for each axis of the output; see slices.py. Empty when exact, and for errors
        that are confined to a few samples.
    nonfinite_mismatches: elements finite in one and not in the other, or non-finite in different ways;
    first_nonfinite_sample: the first sample with one.
    """

    samples: int
    sqnr_db: float | None
    exact: bool
    reason: ParityReason | None
    mse: float | None
    max_abs_error: float | None
    cosine: float | None
    worst_sample: WorstSample | None
    worst_slices: tuple[WorstSlice, ...]
    reference_nonfinite: int
    build_nonfinite: int
    nonfinite_mismatches: int
    first_nonfinite_sample: int | None

    @property
    def worst_slice(self) -> WorstSlice | None:
        """The worst of all axes."""
        return min(self.worst_slices, key=lambda s: s.sqnr_db, default=None)


class ParityAccumulator:
    """Takes chunks of samples in order; `result` may be asked at any time after the first."""

    def __init__(self, output_shape: tuple[int, ...]) -> None:
        self._shape = output_shape
        self._axes = [AxisSums(length) for length in output_shape]
        self._signal: list[float] = []
        self._error: list[float] = []
        self._elements = 0
        self._build_power = 0.0
        self._product = 0.0
        self._max_abs_error = 0.0
        self._nonfinite = _NonFinite()

    def add(self, reference: Numbers, build: Numbers) -> None:
        """Add k samples: two arrays of (k, *output_shape), any real dtype, both dequantized.

        ValueError for another shape, or a complex or non-numeric dtype.
        """
        reference, build = _as_float(reference), _as_float(build)
        if reference.shape[1:] != self._shape or build.shape != reference.shape:
            raise ValueError(f"shapes {reference.shape} and {build.shape}, not (k, *{self._shape})")
        if reference.size == 0:
            return
        first_sample = len(self._signal)
        finite = _finite(reference) & _finite(build)
        self._elements += int(np.count_nonzero(finite))
        if not finite.all():
            self._nonfinite.add(reference, build, first_sample)
            reference, build = np.where(finite, reference, 0.0), np.where(finite, build, 0.0)
        error = reference - build
        self._max_abs_error = max(self._max_abs_error, float(np.abs(error).max()))
        self._build_power += float(np.vdot(build, build))
        self._product += float(np.vdot(reference, build))
        np.square(error, out=error)
        each = tuple(range(1, reference.ndim))
        self._signal.extend((reference**2).sum(axis=each).tolist())
        self._error.extend(error.sum(axis=each).tolist())
        sums = ChunkSums.of(reference)
        for axis, axis_sums in enumerate(self._axes):
            axis_sums.add(axis, first_sample, sums, error)

    def result(self) -> OutputParity:
        """ValueError when no sample was added."""
        if not self._signal:
            raise ValueError("no samples")
        signal, error = math.fsum(self._signal), math.fsum(self._error)
        exact = self._max_abs_error == 0 and self._nonfinite.mismatches == 0
        reason = self._nonfinite.reason or ("zero_reference" if signal == 0 and not exact else None)
        norms = math.sqrt(signal) * math.sqrt(self._build_power)
        worst = [sums.worst(axis) for axis, sums in enumerate(self._axes)]
        return OutputParity(
            samples=len(self._signal),
            sqnr_db=None if exact or reason else _decibels(signal, error),
            exact=exact,
            reason=reason,
            mse=error / self._elements if self._elements else None,
            max_abs_error=self._max_abs_error if self._elements else None,
            cosine=min(max(self._product / norms, -1.0), 1.0) if norms > 0 else None,
            worst_sample=self._worst_sample(),
            worst_slices=tuple(w for w in worst if w is not None),
            reference_nonfinite=self._nonfinite.in_reference,
            build_nonfinite=self._nonfinite.in_build,
            nonfinite_mismatches=self._nonfinite.mismatches,
            first_nonfinite_sample=self._nonfinite.first_sample,
        )

    def _worst_sample(self) -> WorstSample | None:
        signal, error = np.array(self._signal), np.array(self._error)
        if not error.any() or not signal.any():
            return None
        credited = np.maximum(signal, LEAST_SAMPLE_SIGNAL * signal.mean())
        index = int((error / credited).argmax())
        return WorstSample(index, _decibels(float(credited[index]), float(error[index])))


def parity_of_chunks(chunks: Iterable[tuple[Numbers, Numbers]]) -> OutputParity:
    """Parity of one output from (reference, build) pairs of (k, *output_shape) arrays, k free to vary.

    ValueError when there is no sample, or as ParityAccumulator.add.
    """
    accumulator: ParityAccumulator | None = None
    for reference, build in chunks:
        accumulator = accumulator or ParityAccumulator(reference.shape[1:])
        accumulator.add(reference, build)
    if accumulator is None:
        raise ValueError("no samples")
    return accumulator.result()


@dataclass(frozen=True)
class LabelParity:
    """Agreement of an output of labels (boolean or integer), where a distance means nothing.

    agreement: share of equal elements. samples_equal: samples with all elements equal.
    first_different_sample: None when all agree.
    """

    samples: int
    agreement: float
    samples_equal: int
    first_different_sample: int | None


def label_parity_of_chunks(chunks: Iterable[tuple[Numbers, Numbers]]) -> LabelParity:
    """Agreement of labels from (reference, build) pairs of (k, *output_shape) arrays.

    The integer dtypes may differ. ValueError for unlike shapes, a float dtype, or no element.
    """
    samples = elements = equal_elements = samples_equal = 0
    first: int | None = None
    for reference, build in chunks:
        if (
            reference.shape != build.shape
            or reference.dtype.kind not in "biu"
            or build.dtype.kind not in "biu"
        ):
            raise ValueError(f"labels {reference.dtype}{reference.shape} and {build.dtype}{build.shape}")
        equal = np.equal(reference, build).reshape(len(reference), -1)
        whole = equal.all(axis=1)
        if first is None and not whole.all():
            first = samples + int(whole.argmin())
        samples += len(equal)
        elements += equal.size
        equal_elements += int(np.count_nonzero(equal))
        samples_equal += int(np.count_nonzero(whole))
    if elements == 0:
        raise ValueError("no samples")
    return LabelParity(samples, equal_elements / elements, samples_equal, first)


class _NonFinite:
    """Counts of elements that are NaN or infinite."""

    def __init__(self) -> None:
        self.in_reference = self.in_build = self.mismatches = 0
        self.first_sample: int | None = None
        self.reason: ParityReason | None = None

    def add(self, reference: Floats, build: Floats, first_sample: int) -> None:
        build_only = _finite(reference) & ~_finite(build)
        alike = (reference == build) | (np.isnan(reference) & np.isnan(build))
        mismatch = build_only | (~_finite(reference) & ~alike)
        self.in_reference += int(np.count_nonzero(~_finite(reference)))
        self.in_build += int(np.count_nonzero(~_finite(build)))
        self.mismatches += int(np.count_nonzero(mismatch))
        if build_only.any():
            self.reason = "non_finite_build"
        elif mismatch.any() and self.reason is None:
            self.reason = "non_finite_reference"
        if self.first_sample is None and mismatch.any():
            self.first_sample = first_sample + int(mismatch.reshape(len(mismatch), -1).any(axis=1).argmax())


def _as_float(array: Numbers) -> Floats:
    if array.dtype.kind not in "biuf":
        raise ValueError(f"dtype {array.dtype}")
    return array.astype(np.float64, copy=False)


def _finite(array: Floats) -> NDArray[np.bool_]:
    return np.abs(array) < LARGEST  # False for NaN


def _decibels(signal: float, error: float) -> float:
    """signal > 0. An error so small that its square underflows counts as the least float."""
    return 10 * (math.log10(signal) - math.log10(max(error, math.ulp(0.0))))
