"""TFLite builds of a Keras model: right, honest about what they compute in, with the source's names."""

from collections.abc import Mapping

import pytest

from phoneproof.sources.agreement import sqnr_db
from tests.models.keras_networks import samples
from tests.toolchains.tensorflow_orders import (
    JUDGED,
    JUDGING_SEED,
    Done,
    answering,
    answers,
    building,
    calibrating,
    calibration_set,
    carried_out,
    models,
)

LABELS = {"phoneproof.labels": '["Katze", "Böhnchen"]', "phoneproof.preprocess": "{}"}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Done]:
    root = tmp_path_factory.mktemp("tflite")
    keras = root / "models" / "two_heads.keras"
    calibrated = calibration_set(root)
    orders = [
        models(root / "models", "two_heads"),
        answering("reference", keras),
        calibrating("ranges", keras, calibrated, {"method": "minmax"}),
        building("float32", "tflite-float32", keras),
        building("int8", "tflite-int8", keras, calibrated, metadata=LABELS),
        building("unknown", "tflite-int8", keras, calibrated, keep_float_names=["conv_9"]),
    ]
    return carried_out(orders, root)


@pytest.mark.parametrize(("name", "least"), [("float32", 90), ("int8", 25)])
def test_a_build_computes_what_the_source_does(done: Mapping[str, Done], name: str, least: float) -> None:
    found = done[name].outputs(samples(JUDGED, JUDGING_SEED))
    classes, box = answers(done["reference"])
    assert sqnr_db(classes, found["classes"]) > least
    assert sqnr_db(box, found["box"]) > least


def test_names_and_order_are_those_of_the_source(done: Mapping[str, Done]) -> None:
    manifest = done["float32"].manifest
    assert [spec.name for spec in manifest.inputs] == ["image", "ids"]
    assert {spec.name for spec in manifest.outputs} == {"classes", "box"}
    assert manifest.source_names == {}
    file = done["float32"].file
    assert file.input_names == ("image", "ids")
    assert [tensor.name for tensor in file.inputs] == ["image", "ids"]


def test_int8_is_all_integer_inputs_and_outputs_too(done: Mapping[str, Done]) -> None:
    manifest = done["int8"].manifest
    assert set(manifest.operators) <= {"int8", "int32", "bool"}
    assert manifest.operators["int8"] >= 10
    assert manifest.float_operators == ()
    assert [spec.dtype for spec in manifest.inputs] == ["int8", "int32"]
    assert [spec.dtype for spec in manifest.outputs] == ["int8", "int8"]
    image = manifest.inputs[0]
    assert image.scale == pytest.approx(1 / 255, rel=0.01)
    assert image.zero_point == -128
    assert manifest.inputs[1].scale is None
    assert manifest.size_bytes < done["float32"].manifest.size_bytes * 0.5
    assert manifest.floor.runtime_version is not None


def test_metadata_can_be_read_again(done: Mapping[str, Done]) -> None:
    found = done["int8"].file.metadata
    assert {key: found[key].decode() for key in LABELS} == LABELS
    assert "min_runtime_version" in found


def test_an_unknown_name_to_keep_is_refused(done: Mapping[str, Done]) -> None:
    error = done["unknown"].error
    assert error is not None
    assert error.startswith("RecipeError: keep_float_names: The source model has no operator")
    assert "'conv'" in error
