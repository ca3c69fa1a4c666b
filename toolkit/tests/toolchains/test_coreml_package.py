"""Renaming the inputs and outputs of an ML program, without any converter."""

from typing import Any

import pytest

from phoneproof.runtimes.mil.vendor import ModelSpec
from phoneproof.toolchains.coreml_package import rename


def program() -> Any:
    """image -> relu "middle" -> relu "last", with a value inside that is called scores."""
    spec = ModelSpec()
    spec.description.input.add().name = "image"
    spec.description.output.add().name = "last"
    function = spec.mlProgram.functions["main"]
    function.inputs.add().name = "image"
    block = function.block_specializations["CoreML6"]
    for given, result in (("image", "scores"), ("scores", "last")):
        operation = block.operations.add()
        operation.type = "relu"
        operation.inputs["x"].arguments.add().name = given
        operation.outputs.add().name = result
    block.outputs.append("last")
    return spec


def flow(spec: Any) -> list[tuple[str, str]]:
    (block,) = spec.mlProgram.functions["main"].block_specializations.values()
    return [(one.inputs["x"].arguments[0].name, one.outputs[0].name) for one in block.operations]


def test_the_description_and_the_program_get_the_new_names() -> None:
    spec = program()
    rename(spec, ["picture", "classes"])
    assert flow(spec) == [("picture", "scores"), ("scores", "classes")]
    assert [one.name for one in spec.description.input] == ["picture"]
    assert [one.name for one in spec.description.output] == ["classes"]
    assert [one.name for one in spec.mlProgram.functions["main"].inputs] == ["picture"]


def test_a_value_inside_makes_way_for_an_output_of_its_name() -> None:
    spec = program()
    rename(spec, ["image", "scores"])
    assert flow(spec) == [("image", "scores_inner"), ("scores_inner", "scores")]


def test_names_can_be_exchanged() -> None:
    spec = program()
    rename(spec, ["last", "image"])
    assert flow(spec) == [("last", "scores"), ("scores", "image")]


@pytest.mark.parametrize("names", [["one"], ["same", "same"], ["a", "b", "c"]])
def test_names_that_do_not_fit_are_refused(names: list[str]) -> None:
    with pytest.raises(ValueError, match="names for 2"):
        rename(program(), names)
