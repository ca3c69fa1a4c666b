"""Loading ONNX source models: what is refused, and how axes are fixed."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phoneproof.errors import RecipeError, SourceModelError
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.sources.onnx_model import content_sha256, load_onnx, load_source
from phoneproof.sources.onnx_versions import floor_of, within_target
from phoneproof.sources.request import OnnxSourceRequest
from tests.models.onnx_networks import NetworkBuilder, classifier, images, saved, two_inputs
from tests.toolchains.built import outputs_of, sqnr_db


def external(model: Any, folder: Path) -> Path:
    """The model with its weights in weights.bin beside it."""
    path = folder / "model.onnx"
    onnx.save_model(model, str(path), save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def relocated(path: Path, location: str) -> Path:
    """The model at `path`, its external data said to be at `location`."""
    model = onnx.load_model(str(path), load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    path.write_bytes(model.SerializeToString())
    return path


def test_a_dynamic_batch_becomes_one(tmp_path: Path) -> None:
    source = load_onnx(saved(classifier(batch="N"), tmp_path / "m.onnx"))
    assert source.inputs == (TensorSpec("image", "float32", (1, 3, 16, 16)),)
    assert source.outputs == (TensorSpec("softmax_out", "float32", (1, 5)),)


def test_another_dynamic_axis_is_refused_and_names_the_plan_key(tmp_path: Path) -> None:
    path = saved(classifier(side="side"), tmp_path / "m.onnx")
    with pytest.raises(SourceModelError, match="Axis 2") as caught:
        load_onnx(path)
    assert caught.value.where == f"{path}: input 'image'"
    assert "[[models]] shapes" in (caught.value.next_step or "")


def test_a_given_shape_fixes_every_axis(tmp_path: Path) -> None:
    path = saved(classifier(side=None), tmp_path / "m.onnx")
    source = load_onnx(path, {"image": (1, 3, 20, 24)})
    assert source.inputs[0].shape == (1, 3, 20, 24)
    assert source.outputs[0].shape == (1, 5)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"imgae": (1, 3, 16, 16)}, "nearest input is 'image'"),
        ({"image": (1, 3, 16)}, "all 4 axes"),
        ({"image": (1, 4, 16, 16)}, "length 3, but 4"),
        ({"image": (0, 3, 16, 16)}, "so it is the batch, and 0 is asked for"),
        ({"image": (2, 3, 16, 16)}, "so it is the batch, and 2 is asked for"),
    ],
)
def test_shapes_that_contradict_the_model_are_refused(
    tmp_path: Path, shapes: dict[str, tuple[int, ...]], message: str
) -> None:
    path = saved(classifier(), tmp_path / "m.onnx")
    with pytest.raises(SourceModelError, match=message):
        load_onnx(path, shapes)


def test_one_name_for_two_axes_means_one_length(tmp_path: Path) -> None:
    path = saved(classifier(side="side"), tmp_path / "m.onnx")
    with pytest.raises(SourceModelError, match="length 16, but 20"):
        load_onnx(path, {"image": (1, 3, 16, 20)})


def test_shapes_that_the_model_computes_from_constants_are_found(tmp_path: Path) -> None:
    """As torch's older exporter writes Pad: ONNX's inference alone leaves the output open."""
    build = NetworkBuilder()
    rows = build.weight("rows", np.array([[0, 0], [0, 0], [1, 1], [2, 2]], np.int64))
    columns = build.op("Transpose", [rows], "columns", perm=[1, 0])
    flat = build.op("Reshape", [columns, build.weight("all", np.array([-1], np.int64))], "pads")
    x = build.op("Pad", ["image", flat], "pad")
    source = load_onnx(
        saved(build.model({"image": ["N", 3, 8, 8]}, {x: ["N", 3, "h", "w"]}), tmp_path / "m.onnx")
    )
    assert source.outputs[0].shape == (1, 3, 10, 12)


def test_an_output_whose_shape_depends_on_the_data_is_refused(tmp_path: Path) -> None:
    build = NetworkBuilder()
    found = build.op("NonZero", ["image"], "found")
    model = build.model({"image": [1, 4]}, {found: [2, None]})
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    with pytest.raises(SourceModelError, match="depends on the data"):
        load_onnx(saved(model, tmp_path / "m.onnx"))


@given(cut=st.floats(0.0, 0.999))
def test_a_truncated_model_is_refused(tmp_path_factory: pytest.TempPathFactory, cut: float) -> None:
    content = classifier().SerializeToString()
    path = tmp_path_factory.mktemp("cut") / "m.onnx"
    path.write_bytes(content[: int(len(content) * cut)])
    with pytest.raises(SourceModelError) as caught:
        load_onnx(path)
    assert caught.value.next_step


@given(content=st.binary(max_size=200))
def test_other_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("other") / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(SourceModelError):
        load_onnx(path)


def test_a_model_the_checker_refuses_is_refused(tmp_path: Path) -> None:
    model = classifier()
    model.graph.node[3].input[0] = "nowhere"
    with pytest.raises(SourceModelError, match="checker") as caught:
        load_onnx(saved(model, tmp_path / "m.onnx"))
    assert "nowhere" in str(caught.value.facts["cause"])


def test_external_data_counts_in_the_hash_and_gives_the_same_model(tmp_path: Path) -> None:
    path = external(classifier(), tmp_path)
    before = content_sha256(path)
    inside = load_onnx(saved(classifier(), tmp_path / "inside.onnx"))
    sample = [{"image": images(1, (1, 3, 16, 16))[0]}]
    first, second = outputs_of(load_onnx(path).model, sample), outputs_of(inside.model, sample)
    np.testing.assert_array_equal(first[0][0], second[0][0])
    weights = tmp_path / "weights.bin"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + b"\x7f")
    assert content_sha256(path) != before
    weights.write_bytes(content)
    assert content_sha256(path) == before == load_onnx(path).sha256


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/passwd", "sub/../../secret.bin", "", "link.bin"])
def test_external_data_outside_the_folder_is_refused(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    secret = tmp_path / "secret.bin"
    path = external(classifier(), folder)
    secret.write_bytes((folder / "weights.bin").read_bytes())
    (folder / "link.bin").symlink_to(secret)
    with pytest.raises(SourceModelError, match="only from the model's own folder"):
        load_onnx(relocated(path, location))


def test_missing_and_truncated_external_data_are_refused(tmp_path: Path) -> None:
    path = external(classifier(), tmp_path)
    weights = tmp_path / "weights.bin"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(SourceModelError, match="shorter"):
        load_onnx(path)
    weights.unlink()
    with pytest.raises(SourceModelError, match="missing"):
        load_onnx(path)


def test_a_source_that_changed_after_planning_is_refused(tmp_path: Path) -> None:
    path = saved(classifier(seed=0), tmp_path / "m.onnx")
    request = OnnxSourceRequest("onnx", str(path), content_sha256(path))
    assert load_source(request).sha256 == request.sha256
    saved(classifier(seed=1), path)
    with pytest.raises(SourceModelError, match="has changed"):
        load_source(request)


def test_nodes_without_a_name_are_named_after_their_output(tmp_path: Path) -> None:
    model = two_inputs()
    for node in model.graph.node:
        node.name = ""
    names = [node.name for node in load_onnx(saved(model, tmp_path / "m.onnx")).model.graph.node]
    assert names[0] == "conv_out"
    assert len(set(names)) == len(names)


def test_an_old_opset_is_converted_up_and_computes_the_same(tmp_path: Path) -> None:
    source = load_onnx(saved(classifier(opset=11), tmp_path / "m.onnx"))
    model = within_target(source.model, "m.onnx")
    floor = floor_of(model)
    assert (floor.onnx_opset, floor.onnx_ir) == (13, 8)
    samples = [{"image": value} for value in images(3, (1, 3, 16, 16))]
    before, after = outputs_of(source.model, samples), outputs_of(model, samples)
    assert sqnr_db([o[0] for o in before], [o[0] for o in after]) > 100


def test_an_opset_newer_than_phones_load_is_refused(tmp_path: Path) -> None:
    model = classifier(opset=23)
    model.ir_version = 11
    source = load_onnx(saved(model, tmp_path / "m.onnx"))
    with pytest.raises(RecipeError, match="opset 23") as caught:
        within_target(source.model, "m.onnx")
    assert "opset_version=22" in (caught.value.next_step or "")


def test_a_newer_ir_number_is_lowered(tmp_path: Path) -> None:
    model = classifier(opset=17)
    model.ir_version = 12
    source = load_onnx(saved(model, tmp_path / "m.onnx"))
    assert within_target(source.model, "m.onnx").ir_version == 10
