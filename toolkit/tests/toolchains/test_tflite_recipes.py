"""Every TFLite recipe and option on several Keras models and SavedModels, and the faults that must show."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from phoneproof.errors import ToolchainError
from phoneproof.quantize.ranges import read_ranges
from phoneproof.sources.agreement import disagreement, sqnr_db
from phoneproof.toolchains.tflite_checks import refuse_stateful
from phoneproof.toolchains.tflite_file import read_tflite
from phoneproof.toolchains.tflite_float16 import with_rounded_weights
from phoneproof.toolchains.tflite_trial import LEAST_DB as LEAST_TRIAL_DB
from phoneproof.toolchains.tflite_trial import build_network
from tests.models.keras_networks import IDS, IMAGE, samples
from tests.toolchains.orders import Order
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
    ranges_of,
)

pytestmark = pytest.mark.slow

METHODS = ({"method": "minmax"}, {"method": "entropy"}, {"method": "percentile", "percentile": 100.0})
LEAST_DB = {
    "float16": 50,
    "saved": 90,
    "saved_int8": 25,
    "kept": 25,
    "dense": 25,
    "per_tensor": 20,
    "entropy": 20,
    "percentile": 25,
    "dynamic": 30,
    "dynamic_kept": 30,
    "int16_ids": 40,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recipes")


def saved_minmax(root: Path) -> Path:
    return root / "saved_ranges" / "ranges-minmax.json"


@pytest.fixture(scope="module")
def done(root: Path) -> Mapping[str, Done]:
    folder = root / "models"
    keras, saved = folder / "two_heads.keras", folder / "two_heads"
    calibrated = calibration_set(root)
    entropy, percentile = ranges_of(root, "entropy"), ranges_of(root, "percentile-100")
    orders = [
        models(
            folder,
            "two_heads",
            "two_heads_exported",
            "no_integer_form",
            "plain",
            "untracked_variables",
            "no_builtin",
        ),
        answering("reference", keras),
        answering("saved_reference", saved),
        calibrating("ranges", keras, calibrated, *METHODS),
        building("float32", "tflite-float32", keras),
        building("float16", "tflite-float16", keras),
        building("dynamic", "tflite-int8-dynamic", keras),
        building("dynamic_kept", "tflite-int8-dynamic", keras, keep_float_names=["words"]),
        building("dynamic_dense", "tflite-int8-dynamic", keras, keep_float_types=["Dense"]),
        building("dynamic_none", "tflite-int8-dynamic", keras, keep_float=True),
        building("int8", "tflite-int8", keras, calibrated),
        building("kept", "tflite-int8", keras, calibrated, keep_float_names=["norm", "box"]),
        building("kept_types", "tflite-int8", keras, calibrated, keep_float_types=["Dense"]),
        building("dense", "tflite-int8", keras, calibrated, per_channel_dense=False),
        building("per_tensor", "tflite-int8", keras, calibrated, per_channel=False),
        building("entropy", "tflite-int8", keras, calibrated, entropy, method="entropy"),
        building(
            "percentile",
            "tflite-int8",
            keras,
            calibrated,
            percentile,
            method="percentile",
            percentile=100.0,
        ),
        building("saved", "tflite-float32", saved),
        calibrating("saved_ranges", saved, calibrated, METHODS[0]),
        building("saved_int8", "tflite-int8", saved, calibrated, saved_minmax(root)),
        building("old_device", "tflite-int8", keras, calibrated, target={"runtime_version": "1.12.0"}),
        building("wrong_target", "tflite-int8", keras, calibrated, target={"onnx_opset": 13}),
        building("int16_ids", "tflite-int16x8", keras, calibrated),
        Order(
            "depthwise", "tests.models.keras_networks", {"path": str(keras), "count": 12}, "depthwise_range"
        ),
        building("no_builtin", "tflite-float32", folder / "erfinv"),
    ]
    return carried_out(orders, root)


@pytest.fixture(scope="module")
def plain(root: Path, done: Mapping[str, Done]) -> Mapping[str, Done]:
    """Builds of a model of images only."""
    keras = root / "models" / "plain.keras"
    calibrated = calibration_set(root / "plain", (IMAGE,))
    percentile = ranges_of(root / "plain", "percentile-100")
    options: dict[str, Any] = {"method": "percentile", "percentile": 100.0}
    orders = [
        answering("reference", keras, ("image",)),
        calibrating("ranges", keras, calibrated, METHODS[0], METHODS[2]),
        building("int16", "tflite-int16x8", keras, calibrated),
        building("int16_ranges", "tflite-int16x8", keras, calibrated, percentile, **options),
    ]
    return carried_out(orders, root / "plain")


@pytest.mark.parametrize(("name", "least"), LEAST_DB.items())
def test_a_build_computes_what_the_source_does(done: Mapping[str, Done], name: str, least: float) -> None:
    reference = "saved_reference" if name.startswith("saved") else "reference"
    found = done[name].outputs(samples(JUDGED, JUDGING_SEED))
    names = ("output_0", "output_1") if name.startswith("saved") else ("classes", "box")
    for expected, output in zip(answers(done[reference]), names, strict=True):
        assert sqnr_db(expected, found[output]) > least


def float16_disagreement(done: Mapping[str, Done], build: bytes, folder: Path) -> str | None:
    """Between a float16 build and the float32 one with its weights rounded."""
    content = with_rounded_weights(done["float32"].path.read_bytes(), build, "here")
    networks = []
    for name, one in (("rounded", content), ("build", build)):
        path = folder / f"{name}.tflite"
        path.write_bytes(one)
        manifest = done["float16"].manifest
        networks.append(build_network(path, manifest.inputs, manifest.outputs, manifest.outputs))
    return disagreement(networks[0], networks[1], (IMAGE, IDS), LEAST_TRIAL_DB)


def test_float16_is_float32_with_its_weights_rounded(done: Mapping[str, Done], tmp_path: Path) -> None:
    build = done["float16"].path.read_bytes()
    assert float16_disagreement(done, build, tmp_path) is None
    # Two weights of one size in each other's place: every constant is right, the build is not.
    rows = [one for one in done["float16"].file.constants if one.dtype == "float16" and one.size_bytes >= 32]
    swapped = next(
        content
        for one, other in itertools.combinations(rows, 2)
        if one.size_bytes == other.size_bytes
        for content in [with_swapped(build, one.buffer or 0, other.buffer or 0)]
        if content != build
    )
    assert "signal to noise ratio" in str(float16_disagreement(done, swapped, tmp_path))


def with_swapped(content: bytes, one: int, other: int) -> bytes:
    """The file with the values of two buffers exchanged."""
    from ai_edge_litert import schema_py_generated as schema

    changed = bytearray(content)
    model: Any = schema.Model.GetRootAs(changed, 0)
    first, second = (model.Buffers(number).DataAsNumpy() for number in (one, other))
    first[:], second[:] = second.copy(), first.copy()
    return bytes(changed)


def test_a_savedmodel_computes_what_its_keras_model_does(done: Mapping[str, Done]) -> None:
    for one, other in zip(answers(done["reference"]), answers(done["saved_reference"]), strict=True):
        assert sqnr_db(one, other) > 120


@pytest.mark.parametrize("name", ["int16", "int16_ranges"])
def test_int16_activations_are_nearer_to_the_source(plain: Mapping[str, Done], name: str) -> None:
    (expected,) = answers(plain["reference"])
    found = plain[name].outputs({"image": samples(JUDGED, JUDGING_SEED)["image"]})
    assert sqnr_db(expected, found["classes"]) > 40
    manifest = plain[name].manifest
    assert set(manifest.operators) == {"int16"}
    assert [spec.dtype for spec in (*manifest.inputs, *manifest.outputs)] == ["float32", "float32"]


def test_a_layer_kept_in_float_keeps_what_it_was_fused_with(done: Mapping[str, Done]) -> None:
    assert done["kept"].float_operators == {"conv+norm+clip": "kept_by_plan", "box": "kept_by_plan"}
    assert done["kept"].manifest.operators["float32"] == 2
    assert [spec.dtype for spec in done["kept"].manifest.inputs] == ["int8", "int32"]
    assert [finding["id"] for finding in done["kept"].result["findings"]] == ["BUILD-FLOAT-OPERATORS"]


def test_a_class_of_layers_is_kept_in_float(done: Mapping[str, Done]) -> None:
    assert set(done["kept_types"].float_operators) == {"hidden", "classes", "box"}
    assert "DEPTHWISE_CONV_2D" not in {one.type for one in done["kept_types"].manifest.float_operators}


def test_a_table_kept_out_of_dynamic_quantization_is_in_float(done: Mapping[str, Done]) -> None:
    assert done["dynamic_kept"].float_operators["words"] == "kept_by_plan"
    (lookup,) = (one for one in done["dynamic_kept"].file.operators if one.type == "GATHER")
    assert lookup.inputs[0].dtype == lookup.outputs[0].dtype == "float32"
    assert done["dynamic"].manifest.operators["int8"] == done["dynamic_kept"].manifest.operators["int8"] + 1
    grown = done["dynamic_kept"].manifest.size_bytes - done["dynamic"].manifest.size_bytes
    assert 0.9 < grown / (300 * 16 * 3) < 1.1  # the int8 table is gone


def test_a_dense_layer_kept_out_of_dynamic_quantization_is_that_of_the_source(
    done: Mapping[str, Done],
) -> None:
    assert done["dynamic_dense"].float_operators["hidden"] == "kept_by_plan"
    dense = [one for one in done["dynamic_dense"].file.operators if one.type == "FULLY_CONNECTED"]
    assert {tensor.dtype for one in dense for tensor in one.inputs} == {"float32"}
    given = samples(JUDGED, JUDGING_SEED)
    kept, expected = done["dynamic_dense"].outputs(given), answers(done["reference"])
    assert sqnr_db(expected[1], kept["box"]) > sqnr_db(expected[1], done["dynamic"].outputs(given)["box"])


def test_a_build_with_nothing_in_int8_is_refused(done: Mapping[str, Done]) -> None:
    assert "left every operator in float" in str(done["dynamic_none"].error)


def scales(done: Done, kind: str) -> set[int]:
    return {len(one.inputs[1].scales) for one in done.file.operators if one.type == kind}


def test_dense_layers_can_be_per_tensor_while_convolutions_are_per_channel(done: Mapping[str, Done]) -> None:
    """Some NNAPI drivers refuse fully connected layers with a scale per channel."""
    assert scales(done["int8"], "FULLY_CONNECTED") == {64, 10, 4}
    assert scales(done["dense"], "FULLY_CONNECTED") == {1}
    assert scales(done["int8"], "CONV_2D") == scales(done["dense"], "CONV_2D") == {16}
    assert scales(done["per_tensor"], "CONV_2D") == scales(done["per_tensor"], "DEPTHWISE_CONV_2D") == {1}


def test_a_tensor_that_an_addition_overwrites_has_its_own_range(root: Path, done: Mapping[str, Done]) -> None:
    """The trap: the vendor's calibrator takes the sum for the tensor that is added in place."""
    found = done["depthwise"].result
    assert found["vendors"][1] > 2 * found["true"][1]
    ours = read_ranges(ranges_of(root)).tensors[found["name"]]
    # Ours saw the judging samples too, so it may be a little wider.
    assert ours == pytest.approx(found["true"], rel=0.2)


def test_ranges_have_a_method_and_zero_inside(root: Path, done: Mapping[str, Done]) -> None:
    assert done["ranges"].result["samples"] == 12 + JUDGED
    entropy = read_ranges(root / "ranges" / "ranges-entropy.json")
    widest = read_ranges(root / "ranges" / "ranges-percentile-100.json")
    assert entropy.tensors.keys() == widest.tensors.keys()
    assert all(low <= 0 <= high for low, high in entropy.tensors.values())
    assert any(entropy.tensors[name] != widest.tensors[name] for name in widest.tensors)


def test_a_target_that_has_less_is_refused(done: Mapping[str, Done]) -> None:
    assert "needs TensorFlow Lite 1.1" in str(done["old_device"].error)
    assert "the plan's target has 1.12.0" in str(done["old_device"].error)
    assert "has no onnx_opset" in str(done["wrong_target"].error)


def test_int16_takes_integer_inputs(done: Mapping[str, Done]) -> None:
    assert done["int16_ids"].manifest.operators["int16"] >= 10
    assert [spec.dtype for spec in done["int16_ids"].manifest.inputs] == ["float32", "int32"]


def test_an_operator_that_tflite_lacks_is_named(done: Mapping[str, Done]) -> None:
    assert "TFLite has no builtin operator for: " in str(done["no_builtin"].error)
    assert "Erfinv" in str(done["no_builtin"].error)


def test_an_operator_without_integer_form_is_refused_by_name_or_kept(
    root: Path, done: Mapping[str, Done]
) -> None:
    assert done["float32"].error is None
    keras = root / "models" / "no_integer_form.keras"
    calibrated = stored_floats(root / "wave")
    orders = [
        calibrating("ranges", keras, calibrated, METHODS[0]),
        building("refused", "tflite-int8", keras, calibrated),
        building("kept", "tflite-int8", keras, calibrated, keep_float_types=["SIN"]),
    ]
    found = carried_out(orders, root / "wave")
    assert "(SIN)" in str(found["refused"].error)
    assert list(found["kept"].float_operators.values()) == ["kept_by_plan"]
    assert [one.type for one in found["kept"].manifest.float_operators] == ["SIN"]


def stored_floats(folder: Path) -> dict[str, str]:
    from phoneproof.protocol.tensors import TensorSpec
    from tests.toolchains.sample_sets import stored_set

    values = samples(16)["image"].reshape(16, -1)[:, :32]
    stored = stored_set(folder, [TensorSpec("given", "float32", (1, 32))], {"given": values})
    return {**stored, "minmax": str(ranges_of(folder))}


def test_variables_that_the_converter_does_not_know_are_refused(root: Path, done: Mapping[str, Done]) -> None:
    """The trap: TFLiteConverter makes uninitialised variables of them, and the build answers NaN."""
    assert done["models"].error is None
    file = read_tflite(root / "models" / "untracked.tflite")
    with pytest.raises(ToolchainError, match="VAR_HANDLE"):
        refuse_stateful(file, "untracked")


def test_the_same_request_gives_the_same_bytes(root: Path, done: Mapping[str, Done]) -> None:
    keras, saved = root / "models" / "two_heads.keras", root / "models" / "two_heads"
    calibrated = {**calibration_set(root / "again"), "minmax": str(ranges_of(root))}
    orders = [
        building("saved_int8", "tflite-int8", saved, calibrated, saved_minmax(root)),
        building("int8", "tflite-int8", keras, calibrated),
        building("dynamic_kept", "tflite-int8-dynamic", keras, keep_float_names=["words"]),
        building("saved", "tflite-float32", saved),
    ]
    # In another order, another process, and after other models: nothing may count what came before.
    again = carried_out(orders, root / "again")
    for name, one in again.items():
        assert one.path.read_bytes() == done[name].path.read_bytes(), name
