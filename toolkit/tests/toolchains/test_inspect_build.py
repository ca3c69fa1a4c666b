"""Inspecting builds made elsewhere. ONNX and TFLite here; the formats that need torch stand beside."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import pytest

from phoneproof.builds.manifest import BuildManifest
from phoneproof.builds.model_files import model_sha256
from phoneproof.errors import BuildFileError, RecipeError
from phoneproof.protocol.codec import from_dict, to_dict
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import Progress
from phoneproof.sources.onnx_model import load_onnx
from phoneproof.toolchains.inspect_build import inspect_build
from phoneproof.toolchains.tflite_file import read_tflite
from tests.models.onnx_networks import classifier, saved, two_inputs
from tests.models.tflite_networks import sums
from tests.toolchains.built import Built, built, ranges_file, request_for, samples_for

LEFT_RIGHT = (TensorSpec("left", "float32", (1, 4)), TensorSpec("right", "float32", (1, 4)))
RESULT = (TensorSpec("result", "float32", (1, 4)),)


def inspected(
    path: Path,
    inputs: tuple[TensorSpec, ...],
    outputs: tuple[TensorSpec, ...],
    folder: Path,
    **more: Any,
) -> Built:
    """Inspect in this process."""
    folder.mkdir(exist_ok=True)
    formats = {".onnx": "onnx", ".tflite": "tflite", ".pte": "executorch", ".mlpackage": "coreml"}
    request: Mapping[str, Any] = {
        "file": str(path),
        "format": formats[path.suffix],
        "source_sha256": "5" * 64,
        "source_inputs": [to_dict(spec) for spec in inputs],
        "source_outputs": [to_dict(spec) for spec in outputs],
        "out": "out",
        **more,
    }
    result = inspect_build(request, folder, Progress(folder))
    manifest = from_dict(BuildManifest, json.loads((folder / "out" / "build.json").read_text()))
    return Built(folder / "out", manifest, list(result["findings"]))


def test_a_file_comes_through_unchanged_with_its_facts(tmp_path: Path) -> None:
    path = saved(classifier(), tmp_path / "made.onnx")
    source = load_onnx(path)
    found = inspected(path, source.inputs, source.outputs, tmp_path / "work")
    assert found.content == path.read_bytes()
    manifest = found.manifest
    assert manifest.recipe == "onnx-file"
    assert (manifest.sha256, manifest.size_bytes) == (model_sha256(path), path.stat().st_size)
    assert (manifest.inputs, manifest.outputs) == (source.inputs, source.outputs)
    assert manifest.precision == "float32"
    assert manifest.floor.onnx_opset == 17
    assert set(manifest.operators) == {"float32"}
    assert manifest.float_operators == ()


@pytest.mark.parametrize("recipe", ["onnx-int8", "onnx-int8-qoperator", "onnx-int8-dynamic"])
def test_a_build_of_ours_is_found_to_be_what_it_was_made_as(tmp_path: Path, recipe: str) -> None:
    path = saved(classifier(), tmp_path / "source.onnx")
    source = load_onnx(path)
    ranges = None if recipe.endswith("dynamic") else ranges_file(path, samples_for(path, 4))
    options = {"io": "int8"} if recipe == "onnx-int8" else {}
    made = built(request_for(path, recipe, ranges, **options), tmp_path / "made")
    found = inspected(made.folder / "model.onnx", source.inputs, source.outputs, tmp_path / "work").manifest
    assert found.precision == "int8"
    assert (found.inputs, found.outputs) == (made.manifest.inputs, made.manifest.outputs)
    assert found.operators == made.manifest.operators
    assert [one.type for one in found.float_operators] == [one.type for one in made.manifest.float_operators]
    assert {one.reason for one in found.float_operators} <= {"as_made"}
    assert found.wide_tensors == made.manifest.wide_tensors


def test_float_operators_of_an_int8_build_are_a_finding(tmp_path: Path) -> None:
    path = saved(classifier(), tmp_path / "source.onnx")
    source = load_onnx(path)
    request = request_for(
        path, "onnx-int8", ranges_file(path, samples_for(path, 4)), keep_float_types=["Gemm"]
    )
    made = built(request, tmp_path / "made")
    found = inspected(made.folder / "model.onnx", source.inputs, source.outputs, tmp_path / "work")
    assert [one["id"] for one in found.findings] == ["BUILD-FLOAT-OPERATORS"]
    assert found.findings[0]["facts"]["reasons"] == ["as_made"]


def test_an_onnx_file_with_weights_elsewhere_is_refused(tmp_path: Path) -> None:
    model = classifier()
    path = tmp_path / "made.onnx"
    onnx.save_model(model, str(path), save_as_external_data=True, location="w.bin", size_threshold=0)
    with pytest.raises(BuildFileError, match="weights in other files"):
        inspected(path, (), (), tmp_path / "work")


def test_a_tflite_file_has_the_names_of_its_signature_or_of_its_tensors(tmp_path: Path) -> None:
    path = sums(tmp_path / "named.tflite", ["RELU"])
    found = inspected(path, LEFT_RIGHT, RESULT, tmp_path / "a").manifest
    file = read_tflite(path)
    assert tuple(one.name for one in found.inputs) == file.input_names
    bare = sums(tmp_path / "bare.tflite", ["RELU"], named=False)
    names = {"t_left": "left", "t_right": "right"}
    found = inspected(bare, LEFT_RIGHT, RESULT, tmp_path / "b", names=names).manifest
    assert [one.name for one in found.inputs] == ["t_left", "t_right"]
    assert found.source_names == {**names, "t_result": "result"}
    with pytest.raises(RecipeError, match="more than one possible"):
        inspected(bare, LEFT_RIGHT, RESULT, tmp_path / "c")


def test_open_axes_take_the_sources_lengths_and_outputs_those_of_a_run(tmp_path: Path) -> None:
    path = sums(tmp_path / "open.tflite", ["RELU"], length=4, open_axis=True)
    found = inspected(path, LEFT_RIGHT, RESULT, tmp_path / "work").manifest
    assert {one.shape for one in (*found.inputs, *found.outputs)} == {(1, 4)}


def test_custom_operators_are_named_and_refused(tmp_path: Path) -> None:
    path = sums(tmp_path / "custom.tflite", ["FlexErf"])
    with pytest.raises(BuildFileError, match="FlexErf") as caught:
        inspected(path, LEFT_RIGHT, RESULT, tmp_path / "work")
    assert caught.value.where == str(path)
    assert caught.value.facts["operators"] == ("FlexErf",)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_a_truncated_file_is_one_error(tmp_path: Path, share: float) -> None:
    whole = sums(tmp_path / "whole.tflite", ["RELU"]).read_bytes()
    path = tmp_path / "cut.tflite"
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(BuildFileError) as caught:
        inspected(path, LEFT_RIGHT, RESULT, tmp_path / "work")
    assert caught.value.where == str(path)
    assert "unpack_from" not in caught.value.what


def test_a_format_other_than_the_plans_is_refused(tmp_path: Path) -> None:
    path = saved(two_inputs(), tmp_path / "made.onnx")
    with pytest.raises(BuildFileError, match="onnx, not tflite"):
        inspected(path, (), (), tmp_path / "work", format="tflite")
