"""Outputs of a build beside the reference's: holes, quantized and renamed outputs, shapes, labels, size."""

import tracemalloc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from phoneproof.errors import ProtocolError
from phoneproof.protocol.outputs import OutputWriter
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.verify.outputs import (
    KeptOutputs,
    correspondence,
    is_labels,
    output_parities,
    real_values,
    sample_numbers,
    stacked_output,
)
from phoneproof.verify.parity import LabelParity, OutputParity

Array = NDArray[Any]


def kept(path: Path, tensors: Sequence[TensorSpec], records: Mapping[int, Sequence[Array]]) -> KeptOutputs:
    with OutputWriter(path, 0) as writer:
        for sample, arrays in records.items():
            writer.append(sample, arrays)
        writer.close()
    return KeptOutputs(path, tuple(tensors))


def floats(name: str, *shape: int) -> TensorSpec:
    return TensorSpec(name, "float32", shape)


def rows(seed: int, count: int, *shape: int) -> dict[int, list[Array]]:
    draw = np.random.default_rng(seed)
    return {i: [draw.standard_normal(shape).astype(np.float32)] for i in range(count)}


def only(found: tuple[tuple[str, OutputParity | LabelParity], ...]) -> OutputParity:
    ((_, one),) = found
    assert isinstance(one, OutputParity)
    return one


def test_samples_that_one_side_lacks_are_left_out(tmp_path: Path) -> None:
    reference = rows(0, 200, 1, 5)
    build = {i: [values[0] + np.float32(1)] for i, values in reference.items() if i not in (0, 7, 199)}
    del reference[3]
    found = output_parities(
        kept(tmp_path / "a", [floats("y", 1, 5)], reference),
        kept(tmp_path / "b", [floats("y", 1, 5)], build),
    )
    assert only(found).samples == 196
    assert only(found).mse == pytest.approx(1.0, rel=1e-5)


def test_the_same_samples_are_compared_with_each_other(tmp_path: Path) -> None:
    """A hole must not shift the rest: then every later sample would be compared with its neighbour."""
    reference = rows(1, 70, 1, 5)
    build = {i: values for i, values in reference.items() if i % 3}
    found = output_parities(
        kept(tmp_path / "a", [floats("y", 1, 5)], reference),
        kept(tmp_path / "b", [floats("y", 1, 5)], build),
    )
    assert only(found).exact


def test_no_common_sample_gives_no_parity(tmp_path: Path) -> None:
    reference = kept(tmp_path / "a", [floats("y", 1, 5)], {0: rows(0, 1, 1, 5)[0]})
    build = kept(tmp_path / "b", [floats("y", 1, 5)], {1: rows(0, 1, 1, 5)[0]})
    assert output_parities(reference, build) == ()
    assert sample_numbers(build) == (1,)


@pytest.mark.parametrize(
    ("dtype", "zero_point"), [("int8", -128), ("int8", 5), ("uint8", 0), ("uint8", 255), ("int16", 0)]
)
def test_a_quantized_output_is_compared_in_real_values(tmp_path: Path, dtype: str, zero_point: int) -> None:
    info = np.iinfo(dtype)
    stored = np.arange(info.min, info.max + 1, dtype=dtype).reshape(1, -1)
    scale = 0.037
    tensor = TensorSpec("y", dtype, stored.shape, scale, zero_point)
    real = ((stored.astype(np.float64) - zero_point) * scale).astype(np.float32)
    found = output_parities(
        kept(tmp_path / "a", [floats("y", *stored.shape)], {0: [real]}),
        kept(tmp_path / "b", [tensor], {0: [stored]}),
    )
    one = only(found)
    assert one.exact or (one.sqnr_db or 0) > 130


def test_an_output_of_another_dtype_than_declared_is_refused() -> None:
    tensor = TensorSpec("y", "int8", (1, 2), 0.5, 3)
    with pytest.raises(ProtocolError, match=r"float32.*int8"):
        real_values(np.array([[0.25, 1.5]], np.float32), tensor)


def test_outputs_in_another_order_go_by_their_names(tmp_path: Path) -> None:
    draw = np.random.default_rng(2)
    boxes = {i: draw.standard_normal((1, 4)).astype(np.float32) for i in range(5)}
    scores = {i: draw.standard_normal((1, 4)).astype(np.float32) for i in range(5)}
    reference = kept(
        tmp_path / "a",
        [floats("boxes", 1, 4), floats("scores", 1, 4)],
        {i: [boxes[i], scores[i]] for i in range(5)},
    )
    swapped = kept(
        tmp_path / "b",
        [floats("scores", 1, 4), floats("boxes", 1, 4)],
        {i: [scores[i], boxes[i]] for i in range(5)},
    )
    found = output_parities(reference, swapped)
    assert [name for name, _ in found] == ["boxes", "scores"]
    assert all(isinstance(one, OutputParity) and one.exact for _, one in found)


@pytest.mark.parametrize(
    ("reference", "build", "order"),
    [
        ("ab", "ab", (0, 1)),
        ("ab", "ba", (1, 0)),
        ("ab", "xy", (0, 1)),
        ("abc", "cab", (1, 2, 0)),
        ("a", "x", (0,)),
    ],
)
def test_which_outputs_correspond(reference: str, build: str, order: tuple[int, ...]) -> None:
    assert correspondence([floats(n) for n in reference], [floats(n) for n in build]) == order


@pytest.mark.parametrize(("reference", "build"), [("ab", "bc"), ("ab", "ax"), ("ab", "a"), ("a", "ab")])
def test_outputs_that_may_be_swapped_or_are_missing_are_refused(reference: str, build: str) -> None:
    with pytest.raises(ProtocolError):
        correspondence([floats(n) for n in reference], [floats(n) for n in build])


def test_a_record_with_other_outputs_than_the_build_declares_is_refused(tmp_path: Path) -> None:
    two = kept(tmp_path / "b", [floats("y", 1, 5)], {0: [np.zeros((1, 5), np.float32)] * 2})
    with pytest.raises(ProtocolError, match="2 tensors, the build 1"):
        list(two.samples())


@pytest.mark.parametrize("shape", [(1, 6), (5,), (1, 5, 1), (5, 1)])
def test_an_output_of_another_shape_is_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    reference = kept(tmp_path / "a", [floats("y", 1, 5)], rows(0, 3, 1, 5))
    build = kept(tmp_path / "b", [floats("y", *shape)], rows(0, 3, *shape))
    with pytest.raises(ProtocolError, match="shape"):
        output_parities(reference, build)


def test_outputs_whose_shape_depends_on_the_input_are_refused(tmp_path: Path) -> None:
    records: dict[int, list[Array]] = {i: [np.ones((1, 3 + i), np.float32)] for i in range(3)}
    reference = kept(tmp_path / "a", [floats("y", 1, 3)], records)
    build = kept(tmp_path / "b", [floats("y", 1, 3)], records)
    with pytest.raises(ProtocolError, match="depends on the input") as raised:
        output_parities(reference, build)
    assert raised.value.next_step is not None


def test_integers_without_scale_are_labels(tmp_path: Path) -> None:
    labels = TensorSpec("label", "int64", (1,))
    assert is_labels(labels)
    assert is_labels(TensorSpec("mask", "bool", (1,)))
    assert not is_labels(TensorSpec("y", "int8", (1,), 0.1, 0))
    records: dict[int, list[Array]] = {i: [np.array([i % 4])] for i in range(8)}
    changed = {**records, 5: [np.array([0])]}
    narrow = {i: [values[0].astype(np.int32)] for i, values in changed.items()}
    ((name, one),) = output_parities(
        kept(tmp_path / "a", [labels], records),
        kept(tmp_path / "b", [TensorSpec("label", "int32", (1,))], narrow),
    )
    assert name == "label"
    assert isinstance(one, LabelParity)
    assert (one.samples_equal, one.first_different_sample) == (7, 5)


def test_big_files_are_compared_in_little_memory(tmp_path: Path) -> None:
    """24 outputs of 4 MiB on each side: in float64 they would take 400 MB."""
    draw = np.random.default_rng(3)
    reference = {i: [draw.standard_normal((1, 1024, 1024)).astype(np.float32)] for i in range(24)}
    build = {i: [values[0] * np.float32(1.01)] for i, values in reference.items()}
    tensor = floats("y", 1, 1024, 1024)
    a, b = kept(tmp_path / "a", [tensor], reference), kept(tmp_path / "b", [tensor], build)
    del reference, build
    tracemalloc.start()
    try:
        found = only(output_parities(a, b))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.samples == 24
    assert found.sqnr_db == pytest.approx(40.0, abs=0.01)
    assert peak < 200e6


def test_the_scores_of_chosen_samples_are_stacked(tmp_path: Path) -> None:
    tensors = [floats("boxes", 1, 4), floats("scores", 1, 1, 3)]
    records: dict[int, list[Array]] = {
        i: [np.zeros((1, 4), np.float32), np.full((1, 1, 3), i, np.float32)] for i in (0, 2, 5)
    }
    outputs = kept(tmp_path / "a", tensors, records)
    assert stacked_output(outputs, "scores", [5, 0]).tolist() == [[[5.0] * 3], [[0.0] * 3]]
    assert stacked_output(outputs, "boxes", [2]).shape == (1, 4)


@pytest.mark.parametrize(("name", "samples"), [(None, [0]), ("other", [0]), ("scores", [1])])
def test_no_output_or_sample_is_guessed(tmp_path: Path, name: str | None, samples: list[int]) -> None:
    tensors = [floats("boxes", 1, 4), floats("scores", 1, 3)]
    records: dict[int, list[Array]] = {0: [np.zeros((1, 4), np.float32), np.zeros((1, 3), np.float32)]}
    with pytest.raises(KeyError):
        stacked_output(kept(tmp_path / "a", tensors, records), name, samples)
