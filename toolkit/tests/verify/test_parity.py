"""Parity of one output: the figures, the worst places, and what is not a number."""

import json
import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from phoneproof.verify.parity import (
    OutputParity,
    ParityAccumulator,
    label_parity_of_chunks,
    parity_of_chunks,
)

Array = NDArray[Any]
SMALL = arrays(np.float32, (7, 3, 2), elements=st.floats(-1e6, 1e6, width=32))


def parity(reference: Array, build: Array, chunk: int = 64) -> OutputParity:
    starts = range(0, len(reference), chunk)
    return parity_of_chunks((reference[i : i + chunk], build[i : i + chunk]) for i in starts)


def noisy(reference: Array, decibels: float, seed: int = 0) -> Array:
    noise = np.random.default_rng(seed).standard_normal(reference.shape)
    scale = math.sqrt(float((reference**2).mean()) / float((noise**2).mean())) * 10 ** (-decibels / 20)
    noisy: Array = reference + noise * scale
    return noisy


def test_the_figures_are_those_of_their_definitions() -> None:
    reference = np.random.default_rng(1).standard_normal((50, 4, 6))
    build = noisy(reference, 25.0)
    found = parity(reference, build, chunk=7)
    assert found.sqnr_db == pytest.approx(25.0)
    assert found.mse == pytest.approx(np.mean((reference - build) ** 2))
    assert found.max_abs_error == np.abs(reference - build).max()
    assert found.cosine == pytest.approx(
        np.dot(reference.ravel(), build.ravel()) / np.linalg.norm(reference) / np.linalg.norm(build)
    )
    assert (found.exact, found.reason, found.samples) == (False, None, 50)


@given(SMALL, SMALL, st.integers(1, 7))
def test_chunks_do_not_change_the_result_and_it_is_json(reference: Array, build: Array, chunk: int) -> None:
    whole, cut = parity(reference, build), parity(reference, build, chunk)
    json.dumps(asdict(cut), allow_nan=False)
    assert cut.sqnr_db == (None if whole.sqnr_db is None else pytest.approx(whole.sqnr_db))
    assert (cut.exact, cut.reason) == (whole.exact, whole.reason)
    assert [s.sqnr_db for s in cut.worst_slices] == pytest.approx([s.sqnr_db for s in whole.worst_slices])


@given(SMALL)
def test_equal_outputs_are_exact_and_have_no_worst_place(reference: Array) -> None:
    found = parity(reference, reference.copy())
    assert (found.exact, found.sqnr_db, found.reason, found.mse) == (True, None, None, 0.0)
    assert (found.worst_sample, found.worst_slices) == (None, ())


def test_a_difference_whose_square_underflows_is_not_exact() -> None:
    found = parity(np.full((2, 1), 1e-170), np.zeros((2, 1)))
    assert not found.exact
    assert found.reason == "zero_reference"
    close = parity(np.ones((2, 1)), np.ones((2, 1)) + np.array([[1e-15], [0]]))
    assert not close.exact
    assert close.sqnr_db is not None
    assert close.sqnr_db > 300


def test_an_output_that_is_zero_only_in_the_reference_cannot_be_measured_and_is_not_equal() -> None:
    found = parity(np.zeros((3, 2)), np.ones((3, 2)))
    assert (found.sqnr_db, found.exact, found.reason, found.mse) == (None, False, "zero_reference", 1.0)
    assert found.cosine is None


@pytest.mark.parametrize(
    ("reference", "build", "reason", "counts"),
    [
        (1.0, math.nan, "non_finite_build", (0, 1, 1)),
        (1.0, math.inf, "non_finite_build", (0, 1, 1)),
        (math.nan, 1.0, "non_finite_reference", (1, 0, 1)),
        (math.inf, -math.inf, "non_finite_reference", (1, 1, 1)),
        (1.0, 1e200, "non_finite_build", (0, 1, 1)),
        (math.nan, math.nan, None, (1, 1, 0)),
        (-math.inf, -math.inf, None, (1, 1, 0)),
    ],
)
def test_elements_that_are_not_finite(
    reference: float, build: float, reason: str | None, counts: tuple[int, int, int]
) -> None:
    clean = np.arange(12.0).reshape(4, 3)
    left, right = clean.copy(), clean.copy()
    left[2, 1], right[2, 1] = reference, build
    found = parity(left, right, chunk=1)
    assert found.reason == reason
    assert found.sqnr_db is None
    assert found.exact == (reason is None)
    assert (found.reference_nonfinite, found.build_nonfinite, found.nonfinite_mismatches) == counts
    assert found.first_nonfinite_sample == (2 if reason else None)
    assert (found.mse, found.max_abs_error) == (0.0, 0.0)


def test_the_worst_sample_is_found_across_chunks_and_a_blank_sample_is_not_it() -> None:
    reference = np.random.default_rng(2).standard_normal((40, 8))
    reference[5] = 0.0
    build = noisy(reference, 40.0)
    build[33] *= 0.5
    found = parity(reference, build, chunk=9).worst_sample
    assert found is not None
    assert found.index == 33
    assert found.sqnr_db == pytest.approx(20 * math.log10(2), abs=0.5)


def test_integers_and_scalars_per_sample_are_taken_as_they_are() -> None:
    found = parity(np.array([0, 250, 3], np.uint8), np.array([1, 250, 3], np.int32))
    assert found.max_abs_error == 1.0
    assert found.worst_slices == ()


def test_unlike_shapes_odd_dtypes_and_no_samples_are_refused() -> None:
    accumulator = ParityAccumulator((3,))
    with pytest.raises(ValueError, match="no samples"):
        accumulator.result()
    with pytest.raises(ValueError, match="shapes"):
        accumulator.add(np.zeros((2, 3)), np.zeros((2, 4)))
    with pytest.raises(ValueError, match="complex"):
        accumulator.add(np.zeros((2, 3), complex), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="no samples"):
        parity_of_chunks([])


def test_labels_agree_by_element_and_by_sample() -> None:
    reference = np.array([[1, 2], [3, 4], [5, 6]])
    build = np.array([[1, 2], [3, 9], [5, 6]], np.int8)
    found = label_parity_of_chunks([(reference[:1], build[:1]), (reference[1:], build[1:])])
    assert (found.samples, found.agreement, found.samples_equal) == (3, 5 / 6, 2)
    assert found.first_different_sample == 1
    assert label_parity_of_chunks([(reference, reference)]).first_different_sample is None
    with pytest.raises(ValueError, match="float"):
        label_parity_of_chunks([(reference, build.astype(float))])
    with pytest.raises(ValueError, match="no samples"):
        label_parity_of_chunks([])
