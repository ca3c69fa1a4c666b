"""Faults of outputs that have a name: each is found where it is made, and not in healthy builds."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from phoneproof.verify.output_health import (
    FEW_LEVELS,
    OutputFault,
    OutputHealth,
    crushed_fault,
    listed,
)

Array = NDArray[Any]
SCALE_640 = 640 / 255


def examined(
    reference: Array, build: Array, chunk: int = 7, scale: float | None = None, labels: bool = False
) -> dict[str, OutputFault]:
    """All faults by id, given in chunks of samples; reference, build: (samples, *shape)."""
    health = OutputHealth(reference.shape[1:], labels)
    for begin in range(0, len(reference), chunk):
        health.add(reference[begin : begin + chunk], build[begin : begin + chunk])
    suspects = health.suspects()
    crushed = None
    if suspects is not None:
        length = reference.shape[1 + suspects.axis]
        crushed = crushed_fault(suspects, length, iter(build), iter(reference), scale)
    faults = health.faults(None if crushed is None else suspects)
    return {one.id: one for one in ((crushed, *faults) if crushed else faults)}


def on_grid(values: Array, low: float, high: float, levels: int = 256) -> Array:
    """Rounded and cut off to a grid of so many values from low to high."""
    scale = (high - low) / (levels - 1)
    steps = np.clip(np.round((values - low) / scale), 0, levels - 1)
    return np.asarray(low + steps * scale, np.float32)


def detections(seed: int = 0, samples: int = 20, anchors: int = 50, classes: int = 6) -> Array:
    """(samples, 1, 4 + classes, anchors): boxes in pixels up to 640, and scores in 0..1, most of them low."""
    draw = np.random.default_rng(seed)
    boxes = draw.uniform(0, 640, (samples, 1, 4, anchors))
    scores = draw.beta(0.3, 4, (samples, 1, classes, anchors))
    return np.concatenate([boxes, scores], axis=2).astype(np.float32)


def classes(seed: int = 0, samples: int = 40, count: int = 12) -> Array:
    """(samples, 1, classes): probabilities; the last third of the classes never occurs."""
    draw = np.random.default_rng(seed)
    logits = draw.normal(0, 1, (samples, 1, count))
    logits[:, :, -(count // 3) :] -= 9
    logits[np.arange(samples), 0, draw.integers(0, count - count // 3, samples)] += 5
    shares = np.exp(logits)
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True), np.float32)


def test_scores_that_share_a_scale_with_boxes_are_crushed() -> None:
    reference = detections()
    found = examined(reference, on_grid(reference, 0, 640), scale=SCALE_640)
    assert list(found) == ["OUTPUT-SCORES-CRUSHED"]
    facts = found["OUTPUT-SCORES-CRUSHED"].facts
    assert (facts["axis"], facts["slices"], facts["count"], facts["of"]) == (1, "4-9", 6, 10)
    assert facts["levels"] == 1
    assert facts["scale"] == SCALE_640
    assert facts["high"] == pytest.approx(reference[:, :, 4:].max())
    assert facts["largest"] == pytest.approx(640, rel=0.01)


def test_a_build_whose_float_output_was_rounded_inside_is_seen_without_a_scale() -> None:
    reference = detections()
    reference[:, :, 4:] *= 20  # scores of a few units: a handful of steps is left
    found = examined(reference, on_grid(reference, 0, 640))
    left = found["OUTPUT-SCORES-CRUSHED"].facts["levels"]
    assert left == len(np.unique(on_grid(reference, 0, 640)[:, :, 4:]))
    assert left in range(2, FEW_LEVELS)
    assert found["OUTPUT-SCORES-CRUSHED"].facts["scale"] is None


@pytest.mark.parametrize("samples", [1, 20])
def test_boxes_and_scores_with_scales_of_their_own_are_sound(samples: int) -> None:
    reference = detections(samples=samples)
    boxes, scores = on_grid(reference[:, :, :4], 0, 640), on_grid(reference[:, :, 4:], 0, 1)
    assert examined(reference, np.concatenate([boxes, scores], axis=2)) == {}


def test_sixteen_bits_are_enough_for_both() -> None:
    reference = detections()
    assert examined(reference, on_grid(reference, 0, 640, 65536)) == {}


def test_scores_with_few_values_of_their_own_lose_none() -> None:
    reference = detections()
    reference[:, :, 4:] = np.round(reference[:, :, 4:])
    assert "OUTPUT-SCORES-CRUSHED" not in examined(reference, reference)


def test_an_output_of_one_value_is_constant() -> None:
    reference = classes()
    found = examined(reference, np.full_like(reference, 0.25))
    assert list(found) == ["OUTPUT-CONSTANT"]
    facts = found["OUTPUT-CONSTANT"].facts
    assert (facts["value"], facts["samples"]) == (0.25, 40)
    assert facts["high"] == pytest.approx(reference.max())


def test_an_output_that_no_input_moves_is_unchanging() -> None:
    reference = classes()
    build = np.repeat(reference[3:4], len(reference), axis=0)
    assert list(examined(reference, build)) == ["OUTPUT-UNCHANGING"]


def test_labels_that_never_change_are_found_and_others_are_not() -> None:
    reference = classes().argmax(axis=-1)
    assert list(examined(reference, np.full_like(reference, 3), labels=True)) == ["OUTPUT-CONSTANT"]
    assert examined(reference, reference[::-1], labels=True) == {}


@pytest.mark.parametrize("flicker", [0.0, 1e-3])
def test_channels_that_lost_what_they_say_are_dead(flicker: float) -> None:
    draw = np.random.default_rng(5)
    reference = draw.normal(0, 1, (30, 1, 8, 6, 6)).astype(np.float32)
    build = on_grid(reference, -4, 4)
    build[:, :, [2, 3, 7]] = 0.5 + flicker * draw.normal(0, 1, (30, 1, 3, 6, 6))
    found = examined(reference, build)
    assert list(found) == ["OUTPUT-DEAD-CHANNELS"]
    facts = found["OUTPUT-DEAD-CHANNELS"].facts
    assert (facts["axis"], facts["slices"], facts["count"], facts["of"]) == (1, "2-3, 7", 3, 8)
    assert isinstance(facts["kept"], float)
    assert facts["kept"] <= 1e-3


def test_what_is_crushed_is_not_called_dead_as_well_and_another_channel_is() -> None:
    reference = detections()
    build = on_grid(reference, 0, 640)
    build[:, :, 2] = 100
    found = examined(reference, build)
    assert set(found) == {"OUTPUT-SCORES-CRUSHED", "OUTPUT-DEAD-CHANNELS"}
    assert found["OUTPUT-DEAD-CHANNELS"].facts["slices"] == "2"


def test_classes_that_never_occur_may_read_zero() -> None:
    reference = classes()
    build = on_grid(reference, 0, 255 / 256)
    assert (build[:, :, -4:] == 0).all()
    assert examined(reference, build) == {}


def test_a_reference_that_hardly_moves_leaves_nothing_to_lose() -> None:
    draw = np.random.default_rng(1)
    reference = draw.uniform(0.999, 0.9999, (20, 1, 3)).astype(np.float32)
    assert examined(reference, np.full_like(reference, 255 / 256)) == {}
    assert examined(np.zeros((20, 1, 3), np.float32), np.zeros((20, 1, 3), np.float32)) == {}


@pytest.mark.parametrize(("low", "high", "end"), [(-4, 1, "largest"), (-1, 4, "smallest")])
def test_values_that_are_cut_off_are_railed(low: float, high: float, end: str) -> None:
    reference = np.random.default_rng(2).normal(0, 1, (30, 1, 50)).astype(np.float32)
    found = examined(reference, on_grid(reference, low, high))
    assert list(found) == ["OUTPUT-RAILED"]
    facts = found["OUTPUT-RAILED"].facts
    assert facts["end"] == end
    assert facts["share"] == pytest.approx(0.16, abs=0.02)
    assert facts["value"] == pytest.approx(1 if end == "largest" else -1)
    assert abs(float(facts["reached"])) > 3  # type: ignore[arg-type]


def test_what_the_reference_itself_piles_up_is_not_railed() -> None:
    reference = np.clip(np.random.default_rng(2).normal(0, 1, (30, 1, 50)), 0, 1).astype(np.float32)
    assert (reference == 1).mean() > 0.1
    assert examined(reference, on_grid(reference, 0, 1)) == {}


def test_a_percentile_that_cuts_off_outliers_is_not_railed() -> None:
    reference = np.random.default_rng(2).standard_t(2, (200, 1, 50)).astype(np.float32)
    low, high = np.percentile(reference, [0.1, 99.9])
    assert examined(reference, on_grid(reference, float(low), float(high))) == {}


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
@pytest.mark.parametrize("in_reference", [True, False])
def test_values_that_are_not_finite_are_left_to_parity(bad: float, in_reference: bool) -> None:
    reference, build = classes().astype(np.float64), np.zeros((40, 1, 12))
    (reference if in_reference else build)[20, 0, 1] = bad
    assert examined(reference, build) == {}


@given(
    seed=st.integers(0, 1000),
    chunk=st.integers(1, 40),
    make=st.sampled_from([classes, detections]),
    spoil=st.sampled_from([lambda x: x, lambda x: on_grid(x, 0, 640), lambda x: np.full_like(x, 0.5)]),
)
@settings(max_examples=40, deadline=None)
def test_chunks_do_not_matter(
    seed: int, chunk: int, make: Callable[[int], Array], spoil: Callable[[Array], Array]
) -> None:
    reference = make(seed)
    whole, parts = (examined(reference, spoil(reference), size) for size in (len(reference), chunk))
    assert list(whole) == list(parts)
    for finding_id, fault in whole.items():
        for name, value in fault.facts.items():
            assert parts[finding_id].facts[name] == (
                pytest.approx(value) if isinstance(value, float) else value
            )


@given(seed=st.integers(0, 10_000), samples=st.integers(1, 30), count=st.integers(3, 40))
@settings(max_examples=60, deadline=None)
def test_a_healthy_int8_build_of_a_classifier_has_no_fault(seed: int, samples: int, count: int) -> None:
    logits = np.random.default_rng(seed).normal(0, 3, (samples, 1, count)).astype(np.float32)
    assert examined(logits, on_grid(logits, float(logits.min()), float(logits.max()))) == {}
    reference = classes(seed, samples, count)
    assert examined(reference, on_grid(reference, 0, 255 / 256)) == {}


@given(seed=st.integers(0, 10_000), dtype=st.sampled_from([np.float16, np.float32, np.float64]))
@settings(max_examples=40, deadline=None)
def test_an_output_that_equals_the_reference_has_no_fault(seed: int, dtype: Any) -> None:
    draw = np.random.default_rng(seed)
    shape = (int(draw.integers(1, 12)), *draw.integers(1, 9, int(draw.integers(1, 4))))
    spread = 10.0 ** draw.uniform(-3, 3, shape[1:])
    reference = (draw.normal(0, 1, shape) * spread).astype(dtype)
    assert examined(reference, reference) == {}


def test_the_levels_that_are_left_count_up_to_the_limit() -> None:
    reference = detections()
    for levels in (2, FEW_LEVELS, FEW_LEVELS + 1, 40):
        build = reference.copy()
        build[:, :, 4:] = on_grid(reference[:, :, 4:], 0, float(reference[:, :, 4:].max()), levels)
        found = examined(reference, build)
        assert ("OUTPUT-SCORES-CRUSHED" in found) == (levels <= FEW_LEVELS)


@pytest.mark.parametrize(
    ("indices", "text"),
    [([3], "3"), ([0, 1, 2, 5], "0-2, 5"), (range(0, 40, 2), "0, 2, 4, 6, 8, 10, 12, 14 and 12 more")],
)
def test_indices_are_listed_as_runs(indices: Any, text: str) -> None:
    assert listed(np.array(list(indices))) == text
