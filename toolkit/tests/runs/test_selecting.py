"""Which names of operators can be refused after the inspection, and which only a toolchain knows."""

from pathlib import Path

import pytest

from phoneproof.builds.source_facts import MOST_NAMES, OperatorNames, SourceFacts
from phoneproof.errors import PhoneproofError, RecipeError, SeveralErrors
from phoneproof.plan.model import Plan, read_plan
from phoneproof.runs.selecting import check_selection

NAMES = ("conv_1", "model/head/MatMul", "model/head", "model", "head")
TYPES = ("Conv2D", "Dense", "MatMul")


def plan_of(folder: Path, form: str, source: str, recipe: str, selection: str) -> Plan:
    folder.mkdir(exist_ok=True)
    inputs = '\ninputs = [{ name = "x", dtype = "float32", shape = [1, 4] }]' if form == "pytorch" else ""
    text = f"""
[[models]]
name = "net"
source = "{source}"
format = "{form}"{inputs}
[data]
calibration = {{ kind = "npz", path = "c.npz" }}
[[builds]]
recipe = "{recipe}"
{selection}
[[devices]]
kind = "host"
"""
    path = folder / "phoneproof.toml"
    path.write_text(text, encoding="utf-8")
    return read_plan(path)


def refused(plan: Plan, called: OperatorNames | None) -> list[PhoneproofError]:
    facts = SourceFacts("0" * 64, 1, (), (), (), {}, 0, called=called)
    try:
        check_selection(plan, plan.models[0], facts)
    except SeveralErrors as several:
        return list(several.errors)
    except RecipeError as error:
        return [error]
    return []


@pytest.mark.parametrize(
    ("form", "source", "recipe", "selection", "near"),
    [
        ("onnx", "a.onnx", "onnx-int8", 'keep_float_names = ["hed"]', "'head'"),
        ("onnx", "a.onnx", "onnx-int8", 'keep_float_types = ["CONV_2D"]', "'Conv2D'"),
        ("onnx", "a.onnx", "onnx-int8", 'keep_float = true\nquantize_names = ["hed"]', "'head'"),
        ("onnx", "a.onnx", "onnx-int8", 'keep_float = true\nquantize_types = ["Matmul"]', "'MatMul'"),
        ("exported_program", "a.pt2", "executorch-int8", 'keep_float_names = ["hed"]', "'head'"),
        ("exported_program", "a.pt2", "tflite-int8", 'keep_float_names = ["hed"]', "'head'"),
        ("pytorch", "net:make", "coreml-int8", 'keep_float_names = ["hed"]', "'head'"),
        ("keras", "a.keras", "coreml-int8-weights", 'keep_float_names = ["hed"]', "'head'"),
        ("keras", "a.keras", "tflite-int8", 'keep_float_names = ["hed"]', "'head'"),
        ("keras", "a.keras", "tflite-int8", 'keep_float_names = ["conv_11x"]', "'conv_1'"),
        ("keras", "a.keras", "tflite-int8", 'keep_float_types = ["Conv2d"]', "'Conv2D'"),
    ],
)
def test_what_the_inspection_knows_is_refused_with_the_nearest(
    tmp_path: Path, form: str, source: str, recipe: str, selection: str, near: str
) -> None:
    (error,) = refused(plan_of(tmp_path, form, source, recipe, selection), OperatorNames.of(NAMES, TYPES))
    assert error.exit_code == 2
    assert near in (error.next_step or "")
    key = selection.rpartition("\n")[2].partition(" ")[0]
    assert (error.where or "").endswith(f"builds #1.{key}")


@pytest.mark.parametrize(
    ("form", "source", "recipe", "selection"),
    [
        ("onnx", "a.onnx", "onnx-int8", 'keep_float_names = ["head"]\nkeep_float_types = ["MatMul"]'),
        # Nodes of the exported model, and of torch.fx, have names of their own.
        ("keras", "a.keras", "onnx-int8", 'keep_float_names = ["/head/Gemm"]'),
        ("exported_program", "a.pt2", "onnx-int8", 'keep_float_names = ["node_linear"]'),
        ("pytorch", "net:make", "torch-qnnpack-int8", 'keep_float_names = ["add_1"]'),
        # What TFLite's converter makes: its types, fused and numbered names.
        ("keras", "a.keras", "tflite-int8", 'keep_float_types = ["CONV_2D"]'),
        ("keras", "a.keras", "tflite-int8", 'keep_float_names = ["a/MatMul;a/BiasAdd", "conv_1+head"]'),
        ("keras", "a.keras", "tflite-int8", 'keep_float_names = ["head1"]'),
    ],
)
def test_what_only_a_toolchain_knows_is_left_to_it(
    tmp_path: Path, form: str, source: str, recipe: str, selection: str
) -> None:
    assert refused(plan_of(tmp_path, form, source, recipe, selection), OperatorNames.of(NAMES, TYPES)) == []


def test_a_model_of_very_many_names_leaves_them_to_its_toolchain(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "onnx", "a.onnx", "onnx-int8", 'keep_float_names = ["hed"]')
    many = [f"node_{number}" for number in range(MOST_NAMES + 1)]
    assert OperatorNames.of(many, TYPES) is None
    assert refused(plan, OperatorNames.of(many, TYPES)) == []
    assert len(refused(plan, OperatorNames.of(many[1:], TYPES))) == 1


def test_every_unknown_word_is_told_at_once(tmp_path: Path) -> None:
    selection = 'keep_float_names = ["hed", "conv_2"]\nkeep_float_types = ["Conv"]'
    plan = plan_of(tmp_path, "onnx", "a.onnx", "onnx-int8", selection)
    assert len(refused(plan, OperatorNames.of(NAMES, TYPES))) == 3
