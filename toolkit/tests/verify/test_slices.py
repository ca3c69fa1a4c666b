"""The worst slice shows what the whole hides, and a healthy int8 build does not fail by it."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from phoneproof.verify.parity import parity_of_chunks
from phoneproof.verify.slices import units_of

Array = NDArray[Any]
PASS_DB = 20.0
FAIL_DB = 10.0


def worst_of_axis(reference: Array, build: Array, axis: int = 0) -> tuple[int, float]:
    slices = parity_of_chunks([(reference, build)]).worst_slices
    (found,) = (s for s in slices if s.axis == axis)
    return found.index, found.sqnr_db


def on_8_bits(values: Array) -> Array:
    step = (max(values.max(), 0) - min(values.min(), 0)) / 255
    rounded: Array = np.round(values / step) * step
    return rounded


def softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    normalised: Array = powers / powers.sum(axis=-1, keepdims=True)
    return normalised


@pytest.fixture(scope="module")
def detections() -> tuple[Array, Array]:
    """Boxes (100, 4, 300) in pixels and sparse scores (100, 80, 300), some classes never seen."""
    random = np.random.default_rng(0)
    boxes = random.uniform(5, 640, (100, 4, 300))
    scores = random.beta(0.05, 300, (100, 80, 300))
    for image in range(100):
        for _ in range(random.integers(1, 6)):
            class_ = min(int(random.exponential(8)), 70)
            scores[image, class_, random.integers(0, 300, 3)] = random.uniform(0.3, 0.95, 3)
    return boxes, scores


def test_scores_lost_beside_boxes_in_pixels(detections: tuple[Array, Array]) -> None:
    reference = np.concatenate(detections, axis=1)
    found = parity_of_chunks([(reference, on_8_bits(reference))])
    assert found.sqnr_db is not None
    assert found.sqnr_db > 50
    assert found.worst_slice is not None
    assert found.worst_slice.axis == 0
    assert found.worst_slice.index >= 4
    assert found.worst_slice.sqnr_db < 2


def test_one_score_lost_beside_four_coordinates(detections: tuple[Array, Array]) -> None:
    reference = np.concatenate([detections[0], detections[1][:, :1]], axis=1)
    build = reference.copy()
    build[:, 4] = 0
    index, sqnr_db = worst_of_axis(reference, build)
    assert index == 4
    assert sqnr_db < 2


def test_boxes_and_scores_each_on_their_own_grid_pass(detections: tuple[Array, Array]) -> None:
    boxes, scores = detections
    random = np.random.default_rng(1)
    off = scores * (1 + 0.05 * random.standard_normal(scores.shape))
    build = np.concatenate([on_8_bits(boxes), on_8_bits(np.clip(off, 0, 1))], axis=1)
    assert worst_of_axis(np.concatenate(detections, axis=1), build)[1] > PASS_DB


@pytest.mark.parametrize("samples", [64, 500])
def test_a_healthy_softmax_of_1000_classes_passes_though_most_classes_never_occur(samples: int) -> None:
    random = np.random.default_rng(3)
    logits = random.standard_normal((samples, 1000)) * 1.5
    logits[np.arange(samples), random.integers(0, 1000, samples)] += random.uniform(4, 14, samples)
    reference = softmax(logits)
    build = on_8_bits(softmax(logits + 0.3 * random.standard_normal(logits.shape)))
    flips = np.count_nonzero(reference.argmax(1) != build.argmax(1))
    assert 0 < flips < 0.15 * samples
    assert worst_of_axis(reference, build)[1] > PASS_DB


def test_a_class_that_is_lost_in_every_image_fails() -> None:
    random = np.random.default_rng(4)
    logits = random.standard_normal((400, 10))
    logits[np.arange(400), random.integers(0, 10, 400)] += 6
    reference = softmax(logits)
    build = reference.copy()
    build[:, 7] = 0
    index, sqnr_db = worst_of_axis(reference, build)
    assert index == 7
    assert sqnr_db < 3


def test_a_coordinate_that_became_constant_fails_although_its_power_is_right() -> None:
    reference = 320 + np.random.default_rng(5).uniform(-5, 5, (200, 4))
    build = reference.copy()
    build[:, 2] = 320
    found = parity_of_chunks([(reference, build)])
    assert found.sqnr_db is not None
    assert found.sqnr_db > 40
    index, sqnr_db = worst_of_axis(reference, build)
    assert index == 2
    assert sqnr_db < FAIL_DB


def test_a_slice_that_hardly_varies_passes_on_a_grid_from_zero() -> None:
    reference = np.random.default_rng(6).uniform(100, 100.01, (200, 1))
    build = np.round(reference / (100.01 / 255 * 0.999)) * (100.01 / 255 * 0.999)
    assert worst_of_axis(reference, build)[1] > PASS_DB


def test_nearly_dead_channels_of_an_embedding_pass() -> None:
    random = np.random.default_rng(7)
    scale = np.geomspace(0.005, 5, 256)
    reference = np.maximum(random.standard_normal((300, 256)), 0) * scale
    assert worst_of_axis(reference, on_8_bits(reference))[1] > PASS_DB


def test_a_slice_that_is_zero_only_in_the_reference_has_a_finite_answer() -> None:
    reference = np.random.default_rng(8).standard_normal((100, 5))
    reference[:, 3] = 0
    build = reference.copy()
    build[:, 3] = 1
    index, sqnr_db = worst_of_axis(reference, build)
    assert index == 3
    assert -3 < sqnr_db < 3


def test_an_error_in_one_sample_is_no_slice() -> None:
    reference = np.random.default_rng(9).standard_normal((100, 5))
    build = reference.copy()
    build[17] = 0
    found = parity_of_chunks([(reference, build)])
    assert found.worst_slices == ()
    assert found.worst_sample is not None
    assert found.worst_sample.index == 17


def test_each_axis_names_its_own_slice_and_one_sample_is_enough() -> None:
    reference = np.random.default_rng(10).standard_normal((1, 6, 5, 4))
    build = reference * 1.001
    build[:, 4, 3, 2] += 1
    slices = parity_of_chunks([(reference, build)]).worst_slices
    assert [(s.axis, s.index) for s in slices] == [(0, 4), (1, 3), (2, 2)]


@pytest.mark.parametrize(
    ("lowest", "highest", "units"),
    [
        ([0, 0, 0, 0], [640, 640, 0.9, 1e-6], [{2, 3}, {0, 1}]),
        ([-1, -4, -30, -300], [1, 4, 30, 300], [{0, 1, 2}, {3}]),
        ([0, 0, -50], [0, 0, 50], [{0, 1, 2}]),
        ([0, 0], [0, 0], [{0, 1}]),
    ],
)
def test_units_by_range(lowest: list[float], highest: list[float], units: list[set[int]]) -> None:
    found = units_of(np.array(lowest, float), np.array(highest, float))
    assert [set(unit.tolist()) for unit in found] == units
