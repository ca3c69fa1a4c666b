"""PyTorch programs to TFLite in the managed environment of litert-torch, which is really installed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.runtimes.litert import load
from phoneproof.runtimes.runtime import LoadRequest
from phoneproof.toolchains.tflite_file import TfliteFile, compute_dtype, read_tflite
from phoneproof.workers.environments import install_toolchain, managed_environment
from tests.toolchains.built import sqnr_db
from tests.toolchains.litert_torch_builds import carried_out_by, write_programs
from tests.toolchains.orders import Done, Order
from tests.toolchains.sample_sets import stored_set
from tests.toolchains.torch_builds import building

pytestmark = pytest.mark.slow

SPECS = {
    "conv": (
        [TensorSpec("image", "float32", (1, 3, 16, 16))],
        [TensorSpec("output", "float32", (1, 5))],
    ),
    "tokens": ([TensorSpec("ids", "int64", (1, 8))], [TensorSpec("output", "float32", (1, 3))]),
    "two": (
        [TensorSpec("left", "float32", (1, 8)), TensorSpec("right", "float32", (1, 4))],
        [TensorSpec("output_0", "float32", (1, 16)), TensorSpec("output_1", "float32", (1, 8))],
    ),
}
INT8 = {"io": "int8"}


@dataclass(frozen=True)
class Builds:
    """All builds of this file. folder: where the programs and their samples are."""

    folder: Path
    done: Mapping[str, Done]

    def file(self, name: str) -> TfliteFile:
        return read_tflite(self.path(name))

    def path(self, name: str) -> Path:
        assert self.done[name].result is not None, self.done[name].error
        return self.done[name].folder / "out" / "model.tflite"


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Builds:
    root = tmp_path_factory.mktemp("litert-torch")
    toolchain = TOOLCHAINS["litert-torch"]
    install_toolchain(toolchain, root / "store", lambda _: None)
    environment = managed_environment(toolchain, root / "store")
    assert environment is not None
    write_programs(root)
    return Builds(root, carried_out_by(environment.interpreter, _orders(root), root / "builds"))


def _orders(root: Path) -> list[Order]:
    samples = {name: _samples(root, name, 1) for name in SPECS}
    backwards = _samples(root, "conv", -1)

    def order(name: str, source: str, recipe: str, given: Any = None, **options: Any) -> Order:
        more: dict[str, Any] = {"options": options, "metadata": {"phoneproof.labels": '["ä", "b"]'}}
        if given is not None:
            more |= {"samples": {"path": given["path"]}, "calibration_sha256": given["digest"]}
        return building(name, "litert_torch", recipe, root / f"{source}.pt2", SPECS[source], **more)

    conv, two, tokens = samples["conv"], samples["two"], samples["tokens"]
    return [
        order("float32", "conv", "tflite-float32"),
        order("float32-again", "conv", "tflite-float32"),
        order("float16", "conv", "tflite-float16"),
        order("dynamic", "conv", "tflite-int8-dynamic"),
        order("int8", "conv", "tflite-int8", conv, **INT8),
        order("int8-backwards", "conv", "tflite-int8", backwards, **INT8),
        order("int8-percentile", "conv", "tflite-int8", conv, method="percentile", percentile=90.0, **INT8),
        order("int8-dense", "conv", "tflite-int8", conv, per_channel_dense=False, **INT8),
        order("int8-by-module", "conv", "tflite-int8", conv, keep_float_names=["features.0"], **INT8),
        order("int8-by-class", "conv", "tflite-int8", conv, keep_float_types=["Linear"], **INT8),
        order("int8-unknown", "conv", "tflite-int8", conv, keep_float_names=["features.O"], **INT8),
        order("int16x8", "conv", "tflite-int16x8", conv),
        order("target", "conv", "tflite-float32", target={"runtime_version": "1.12.0"}),
        order("two-float32", "two", "tflite-float32"),
        order("two-int8", "two", "tflite-int8", two, **INT8),
        order("two-int8-kept", "two", "tflite-int8", two, keep_float_types=["cumsum"], **INT8),
        order("tokens-float32", "tokens", "tflite-float32"),
        order("tokens-dynamic", "tokens", "tflite-int8-dynamic"),
        order("tokens-int8", "tokens", "tflite-int8", tokens, **INT8),
    ]


def _samples(root: Path, name: str, step: int) -> dict[str, str]:
    inputs = SPECS[name][0]
    with np.load(root / f"{name}.npz") as archive:
        arrays = {spec.name: archive[spec.name][::step] for spec in inputs}
    return stored_set(root / f"{name}{step}", inputs, arrays)


def quality(builds: Builds, name: str, source: str) -> dict[str, float]:
    """SQNR in dB of each output over the 16 samples, against the module in PyTorch."""
    manifest = builds.done[name].manifest
    session = load(LoadRequest(builds.path(name), "cpu", allow_fallback=False, threads=1, options={}))
    with np.load(builds.folder / f"{source}.npz") as archive:
        given = dict(archive)
    found: dict[str, list[NDArray[Any]]] = {spec.name: [] for spec in manifest.outputs}
    for index in range(16):
        feed = {spec.name: _stored(given[spec.name][index : index + 1], spec) for spec in manifest.inputs}
        for spec, value in zip(manifest.outputs, session.prepare(feed)(), strict=True):
            found[spec.name].append(_real(value, spec))
    session.close()
    return {name: sqnr_db([given[f"out-{name}"]], [np.concatenate(values)]) for name, values in found.items()}


def _stored(values: NDArray[Any], spec: TensorSpec) -> NDArray[Any]:
    if spec.scale is None or spec.zero_point is None:
        return values.astype(spec.dtype)
    return np.clip(np.round(values / spec.scale) + spec.zero_point, -128, 127).astype(spec.dtype)


def _real(values: NDArray[Any], spec: TensorSpec) -> NDArray[Any]:
    if spec.scale is None or spec.zero_point is None:
        return values
    return (values.astype(np.float32) - spec.zero_point) * spec.scale


def test_an_int8_build_is_integer_from_input_to_output_and_close_to_the_module(builds: Builds) -> None:
    manifest = builds.done["int8"].manifest
    assert set(manifest.operators) == {"int8"}
    assert manifest.float_operators == ()
    assert [(one.name, one.dtype, one.shape) for one in manifest.inputs] == [
        ("image", "int8", (1, 3, 16, 16))
    ]
    assert [(one.name, one.dtype) for one in manifest.outputs] == [("output", "int8")]
    assert quality(builds, "int8", "conv")["output"] >= 20.0


def test_float_builds_are_the_module(builds: Builds) -> None:
    assert quality(builds, "float32", "conv")["output"] >= 100.0
    assert quality(builds, "float16", "conv")["output"] >= 40.0
    assert min(quality(builds, "two-float32", "two").values()) >= 100.0
    assert quality(builds, "tokens-float32", "tokens")["output"] >= 100.0


def test_the_same_request_gives_the_same_bytes(builds: Builds) -> None:
    assert builds.path("float32").read_bytes() == builds.path("float32-again").read_bytes()


def test_the_order_of_the_samples_changes_nothing(builds: Builds) -> None:
    """The vendor's own calibration is a moving average, and follows it."""
    assert builds.path("int8").read_bytes() == builds.path("int8-backwards").read_bytes()


def test_minmax_covers_all_samples_and_percentile_does_not(builds: Builds) -> None:
    with np.load(builds.folder / "conv.npz") as archive:
        image = archive["image"]
    (whole,) = builds.done["int8"].manifest.inputs
    assert whole.scale == pytest.approx((image.max() - min(image.min(), 0)) / 255, rel=1e-4)
    (cut,) = builds.done["int8-percentile"].manifest.inputs
    assert float(cut.scale or 0) < float(whole.scale or 0)


def test_dense_layers_can_be_per_tensor_alone(builds: Builds) -> None:
    assert _weight_scales(builds.file("int8"), "FULLY_CONNECTED") == 5
    assert _weight_scales(builds.file("int8-dense"), "FULLY_CONNECTED") == 1
    assert _weight_scales(builds.file("int8-dense"), "CONV_2D") == 16


def _weight_scales(file: TfliteFile, kind: str) -> int:
    return len(next(one for one in file.operators if one.type == kind).inputs[1].scales)


@pytest.mark.parametrize(
    ("name", "kind"), [("int8-by-module", "CONV_2D"), ("int8-by-class", "FULLY_CONNECTED")]
)
def test_layers_are_kept_in_float_by_the_users_names_and_types(builds: Builds, name: str, kind: str) -> None:
    file = builds.file(name)
    assert [compute_dtype(one) for one in file.operators if one.type == kind] == ["float32"]
    left = builds.done[name].manifest.float_operators
    assert kind in {one.type for one in left if one.reason == "kept_by_plan"}
    assert builds.done[name].manifest.outputs[0].dtype == "int8"
    assert quality(builds, name, "conv")["output"] >= 20.0


def test_an_unknown_name_is_an_error_that_suggests_the_near_one(builds: Builds) -> None:
    error = str(builds.done["int8-unknown"].error)
    assert error.startswith("RecipeError: keep_float_names")
    assert "'features.1'" in error


def test_int16x8_has_float_inputs_and_is_finer_than_int8(builds: Builds) -> None:
    manifest = builds.done["int16x8"].manifest
    assert set(manifest.operators) == {"int16"}
    assert manifest.inputs[0].dtype == manifest.outputs[0].dtype == "float32"
    assert quality(builds, "int16x8", "conv")["output"] > quality(builds, "int8", "conv")["output"]


def test_dynamic_quantization_keeps_activations_in_float(builds: Builds) -> None:
    manifest = builds.done["dynamic"].manifest
    assert manifest.operators["int8"] >= 3
    assert manifest.inputs[0].dtype == "float32"
    assert quality(builds, "dynamic", "conv")["output"] >= 20.0


def test_an_operator_without_integer_form_refuses_full_integer_by_its_name(builds: Builds) -> None:
    error = str(builds.done["two-int8"].error)
    assert error.startswith("ToolchainError")
    assert "cumsum (CUMSUM)" in error
    assert builds.done["two-int8-kept"].float_operators["cumsum"] == "kept_by_plan"
    assert min(quality(builds, "two-int8-kept", "two").values()) >= 20.0


def test_several_inputs_and_outputs_keep_names_and_order(builds: Builds) -> None:
    manifest = builds.done["two-float32"].manifest
    assert [one.name for one in manifest.inputs] == ["left", "right"]
    assert [one.name for one in manifest.outputs] == ["output_0", "output_1"]
    assert manifest.source_names == {}


def test_token_ids_become_int32(builds: Builds) -> None:
    assert builds.done["tokens-dynamic"].manifest.inputs[0].dtype == "int32"
    assert quality(builds, "tokens-dynamic", "tokens")["output"] >= 20.0


def test_metadata_can_be_read_again_and_says_nothing_untrue(builds: Builds) -> None:
    for name in ("float32", "int8"):
        assert builds.file(name).metadata["phoneproof.labels"].decode() == '["ä", "b"]'
    assert builds.done["float32"].manifest.floor.runtime_version is not None
    assert builds.done["int8"].manifest.floor.runtime_version is None


def test_a_target_that_is_too_old_is_refused(builds: Builds) -> None:
    assert "RecipeError" in str(builds.done["target"].error)
    assert "needs TensorFlow Lite 2.0.0" in str(builds.done["target"].error)
