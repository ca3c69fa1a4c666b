"""The plan that init writes for each form of a source: its builds, and the inputs of a function."""

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from phoneproof.plan.initial import ModelFacts, ModelTensor, initial_plan
from phoneproof.plan.model import Plan, read_plan
from phoneproof.recipes.table import SourceFormat
from tests.plan.plans import refusal, written

FACTS = ModelFacts((ModelTensor("x", "float32", (None, 8, 8, 3)),), (ModelTensor("y", "float32", (None, 4)),))
BUILDS = {
    SourceFormat.ONNX: ["onnx-int8"],
    SourceFormat.KERAS: ["tflite-int8"],
    SourceFormat.SAVEDMODEL: ["tflite-int8"],
    SourceFormat.EXPORTED_PROGRAM: ["executorch-int8", "coreml-int8-weights", "onnx-int8"],
    SourceFormat.PYTORCH: ["executorch-int8", "coreml-int8-weights", "onnx-int8"],
}
SOURCES = {
    SourceFormat.ONNX: "net.onnx",
    SourceFormat.KERAS: "net.keras",
    SourceFormat.SAVEDMODEL: "net/",
    SourceFormat.EXPORTED_PROGRAM: "net.pt2",
    SourceFormat.PYTORCH: "nets.small:net",
}


def text_for(form: SourceFormat, folder: Path, data: Path | None = None) -> str:
    facts = None if form is SourceFormat.PYTORCH else FACTS
    source = SOURCES[form] if facts is None else f"{folder}/{SOURCES[form]}"
    return initial_plan(source, form, data, facts, folder)


def without_comment(text: str, key: str) -> str:
    assert f"\n# {key} = " in text
    return text.replace(f"\n# {key} = ", f"\n{key} = ", 1)


def read(folder: Path, text: str) -> Plan:
    return read_plan(written(folder, text))


@pytest.mark.parametrize("form", list(SourceFormat), ids=str)
def test_each_form_has_builds_that_suit_it(tmp_path: Path, form: SourceFormat) -> None:
    text = text_for(form, tmp_path)
    if form is SourceFormat.PYTORCH:
        text = without_comment(text, "inputs")
    plan = read(tmp_path, text)
    assert [(b.model.name, b.recipe.name) for b in plan.planned_builds()] == [
        ("net", recipe) for recipe in BUILDS[form]
    ]
    assert plan.models[0].format is form
    assert plan.models[0].source == SOURCES[form].rstrip("/")


@pytest.mark.parametrize("form", list(SourceFormat), ids=str)
def test_what_is_offered_as_a_comment_can_be_taken(tmp_path: Path, form: SourceFormat) -> None:
    text = text_for(form, tmp_path)
    if form is SourceFormat.PYTORCH:
        text = without_comment(text, "inputs")
    offered = text.count("# [[builds]]")
    assert offered
    text = text.replace("# [[builds]]", "[[builds]]").replace("# recipe = ", "recipe = ")
    for line in ("# method = ", "# per_channel = ", "# keep_float_names = "):
        text = text.replace(line, line[2:])
    assert len(read(tmp_path, text).builds) == len(BUILDS[form]) + offered


@pytest.mark.parametrize("with_data", [False, True])
@pytest.mark.parametrize("form", list(SourceFormat), ids=str)
def test_every_key_in_a_comment_is_toml_without_its_mark(
    tmp_path: Path, form: SourceFormat, with_data: bool
) -> None:
    archive = tmp_path / "set.npz"
    np.savez(archive, x=np.zeros((9, 8, 8, 3), np.float32))
    text = text_for(form, tmp_path, archive if with_data else None)
    keys = [line[2:] for line in text.splitlines() if re.match(r"# (\[+[a-z.]+\]+|[a-z_]+ =)", line)]
    assert any(line.startswith("accuracy_drop_max = 0.01") for line in keys)
    for line in keys:
        assert tomllib.loads(line)


def test_a_function_without_its_inputs_is_refused_with_what_to_add(tmp_path: Path) -> None:
    text = text_for(SourceFormat.PYTORCH, tmp_path)
    assert "CHECK THIS: fill in the inputs, in the order of the module's forward" in text
    error = refusal(tmp_path, text)
    assert (error.where or "").endswith(": models #1.inputs")
    assert "inputs = [" in (error.next_step or "")


def test_the_inputs_of_a_function_are_proposed_as_the_arrays_are(tmp_path: Path) -> None:
    archive = tmp_path / "set.npz"
    np.savez(archive, ids=np.zeros((9, 12), np.int64), mask=np.zeros((9, 12), bool), labels=np.arange(9) % 3)
    text = without_comment(text_for(SourceFormat.PYTORCH, tmp_path, archive), "inputs")
    plan = read(tmp_path, text)
    assert [(one.name, one.dtype, one.shape) for one in plan.models[0].inputs] == [
        ("ids", "int64", (1, 12)),
        ("mask", "bool", (1, 12)),
    ]
    assert plan.task.metrics == ()
    assert "the outputs of the model are not known yet" in text


def test_images_for_a_function_are_proposed_as_pytorch_takes_them(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for i in range(3):
            Image.new("RGB", (4, 4), (i, 0, 0)).save(tmp_path / "images" / name / f"{i}.png")
    text = without_comment(text_for(SourceFormat.PYTORCH, tmp_path, tmp_path / "images"), "inputs")
    plan = read(tmp_path, text)
    assert [(one.name, one.shape) for one in plan.models[0].inputs] == [("image", (1, 3, 224, 224))]
    assert plan.data.preprocess is not None
    assert plan.data.preprocess.layout == "nchw"
    assert text.count("CHECK THIS") == 2


def test_the_npy_of_a_function_is_its_only_input(tmp_path: Path) -> None:
    np.save(tmp_path / "set.npy", np.zeros((9, 3), np.float32))
    text = without_comment(text_for(SourceFormat.PYTORCH, tmp_path, tmp_path / "set.npy"), "inputs")
    assert [(one.name, one.shape) for one in read(tmp_path, text).models[0].inputs] == [("input", (1, 3))]


def test_a_name_that_toml_must_escape_stands_in_the_proposal(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {'a "b"': np.zeros((9, 2), np.float32)}
    np.savez(tmp_path / "set.npz", **arrays)
    text = without_comment(text_for(SourceFormat.PYTORCH, tmp_path, tmp_path / "set.npz"), "inputs")
    assert read(tmp_path, text).models[0].inputs[0].name == 'a "b"'
