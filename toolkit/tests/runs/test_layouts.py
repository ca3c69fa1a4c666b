"""A preprocess declares one layout; a source model of the other one gets its samples in its own."""

import json
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from phoneproof.recipes.table import Mode
from phoneproof.runs.building import build_metadata
from phoneproof.runs.run import RunOptions, run
from tests.runs.project import SIDE, network, write_project


def channels_last(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same network behind a transposition, with an input of [1, height, width, 3]."""
    (given,) = model.graph.input
    for node in model.graph.node:
        for index, name in enumerate(node.input):
            if name == given.name:
                node.input[index] = "channels_first"
    model.graph.node.insert(
        0, helper.make_node("Transpose", [given.name], ["channels_first"], "to_nchw", perm=[0, 3, 1, 2])
    )
    given.CopyFrom(helper.make_tensor_value_info(given.name, TensorProto.FLOAT, [1, SIDE, SIDE, 3]))
    onnx.checker.check_model(model, full_check=True)
    return model


def test_calibration_and_metadata_are_in_the_models_own_layout(tmp_path: Path) -> None:
    project = write_project(tmp_path / "project", tmp_path / "store")
    assert 'layout = "nchw"' in project.plan_path.read_text()
    onnx.save(channels_last(network()), str(project.folder / "tiny.onnx"))
    plan = project.plan
    finished = run(plan, project.folder / "run", options=RunOptions("build", project.store))
    static = [b for b in finished.builds if b.wanted.recipe.mode is Mode.STATIC]
    assert [b.status for b in static] == ["built", "built"]
    for build in static:
        assert build.manifest is not None
        assert build.manifest.inputs[0].shape == (1, SIDE, SIDE, 3)
        told = json.loads(build_metadata(plan, build.manifest.inputs)["phoneproof.preprocess"])
        assert told["layout"] == "nhwc"
