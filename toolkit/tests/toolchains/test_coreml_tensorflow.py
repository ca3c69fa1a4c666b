"""Core ML builds of Keras models and SavedModels, judged by the interpreter against TensorFlow."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phoneproof.builds.model_files import model_sha256
from phoneproof.runtimes.mil_interpreter import load
from phoneproof.runtimes.runtime import LoadRequest
from phoneproof.toolchains.mlpackage_file import read_mlpackage
from tests.models.keras_networks import samples
from tests.toolchains.built import sqnr_db
from tests.toolchains.orders import Order
from tests.toolchains.tensorflow_orders import (
    JUDGED,
    JUDGING_SEED,
    Done,
    answering,
    answers,
    building,
    carried_out,
    models,
)

pytestmark = pytest.mark.slow  # TensorFlow and coremltools start, and torch once for each package

BOTH = ("image", "ids")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Done]:
    root = tmp_path_factory.mktemp("coreml-tensorflow")
    keras, saved, names = (root / name for name in ("two_heads.keras", "two_heads", "names.keras"))
    scaled = root / "scaled_by_its_maximum.keras"

    def order(name: str, recipe: str, path: Path, **options: Any) -> Order:
        made = building(name, recipe, path, metadata={"phoneproof.labels": '["a"]'}, **options)
        return replace(made, module="phoneproof.toolchains.coreml_tensorflow")

    weights = "coreml-int8-weights"
    return carried_out(
        [
            models(root, "two_heads", "two_heads_exported", "names", "scaled_by_its_maximum"),
            answering("answers", keras, BOTH),
            order("float32", "coreml-float32", keras),
            order("again", "coreml-float32", keras),
            order("saved", "coreml-float32", saved),
            order("float16", "coreml-float16", keras),
            order("weights", weights, keras),
            order("kept-name", weights, keras, keep_float_names=["hidden"]),
            order("kept-type", weights, keras, keep_float_types=["Embedding"]),
            order("kept-fused", weights, keras, keep_float_names=["norm"]),
            order("unknown", weights, keras, keep_float_names=["hiden"]),
            order("saved-type", weights, saved, keep_float_types=["MatMul"]),
            order("old", weights, keras, target={"deployment_target": "iOS15"}),
            order("names", "coreml-float32", names),
            order("scaled", "coreml-float32", scaled),
            order("scaled-float16", "coreml-float16", scaled),
        ],
        root / "work",
    )


def package(done: Mapping[str, Done], name: str) -> Path:
    return done[name].folder / "out" / "model.mlpackage"


def worst_db(done: Mapping[str, Done], name: str) -> float:
    """SQNR of the worst output over the judging samples."""
    made = done[name].manifest
    session = load(LoadRequest(package(done, name), "cpu", True, 1, {}))
    feed = samples(JUDGED, JUDGING_SEED)
    found = []
    for index in range(JUDGED):
        given = {spec.name: feed[spec.name][index : index + 1] for spec in made.inputs}
        found.append([np.asarray(one) for one in session.prepare(given)()])
    expected = answers(done["answers"])
    return min(
        sqnr_db([expected[k]], [np.concatenate([one[k] for one in found])]) for k in range(len(expected))
    )


@pytest.mark.parametrize(
    ("name", "least"), [("float32", 100), ("saved", 100), ("float16", 40), ("weights", 30)]
)
def test_builds_compute_what_tensorflow_computes(done: Mapping[str, Done], name: str, least: float) -> None:
    assert worst_db(done, name) >= least
    made = done[name].manifest
    assert {spec.name: spec.dtype for spec in made.inputs} == {"image": "float32", "ids": "int32"}
    assert [spec.name for spec in made.outputs] in (["classes", "box"], ["output_0", "output_1"])
    assert made.source_names == {}
    assert "torch" in made.tool_versions  # whose interpreter has judged it


def test_weights_are_int8_and_what_is_not_is_named_by_layer(done: Mapping[str, Done]) -> None:
    assert done["weights"].float_operators == {"depthwise": "too_small", "box": "too_small"}
    assert {
        one.dtype for one in read_mlpackage(package(done, "weights")).constants if one.size_bytes > 600
    } == {"int8"}


@pytest.mark.parametrize(
    ("name", "layer"), [("kept-name", "hidden"), ("kept-type", "words"), ("kept-fused", "conv")]
)
def test_what_the_plan_keeps_stays_in_float(done: Mapping[str, Done], name: str, layer: str) -> None:
    """`norm` is fused into the convolution before, which is found by walking the graph back."""
    kept = {key for key, reason in done[name].float_operators.items() if reason == "kept_by_plan"}
    assert kept == {layer}


def test_operators_of_a_savedmodel_are_kept_by_tensorflows_type(done: Mapping[str, Done]) -> None:
    kept = [key for key, reason in done["saved-type"].float_operators.items() if reason == "kept_by_plan"]
    assert len(kept) == 3
    assert all("MatMul" in key for key in kept)


def test_an_unknown_name_is_refused(done: Mapping[str, Done]) -> None:
    error = str(done["unknown"].error)
    assert "no operator 'hiden'" in error
    assert "'hidden'" in error


def test_a_target_that_is_too_old_is_refused(done: Mapping[str, Done]) -> None:
    assert "needs iOS16, and the plan's target is iOS15" in str(done["old"].error)


def test_the_same_request_gives_the_same_bytes(done: Mapping[str, Done]) -> None:
    assert model_sha256(package(done, "float32")) == model_sha256(package(done, "again"))


def test_names_that_are_no_identifiers_are_mapped(done: Mapping[str, Done]) -> None:
    made = done["names"].manifest
    assert set(made.source_names.values()) >= {"a-b", "x/y"}
    assert {spec.name for spec in made.inputs} == {"a_b", "x_y"}


def test_metadata_is_embedded(done: Mapping[str, Done]) -> None:
    assert read_mlpackage(package(done, "float16")).metadata["phoneproof.labels"] == '["a"]'


@pytest.mark.parametrize("name", ["scaled", "scaled-float16"])
def test_a_division_by_zero_is_zero_as_in_tensorflow(done: Mapping[str, Done], name: str) -> None:
    """coremltools by itself makes 0 / 0 of it: NaN on silence and on a black frame."""
    (given,) = done[name].manifest.inputs
    session = load(LoadRequest(package(done, name), "cpu", True, 1, {}))
    zeros, ones = (np.full((1, 16), value, np.float32) for value in (0, 1))
    of_zeros, of_ones, of_twos = (
        np.asarray(session.prepare({given.name: values})()[0]) for values in (zeros, ones, 2 * ones)
    )
    assert (of_zeros == 0).all(), "the bias of the layer behind it is zero"
    assert np.abs(of_ones).max() > 0.1
    np.testing.assert_allclose(of_twos, of_ones, rtol=1e-3)
