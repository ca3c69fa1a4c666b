"""basic-pitch: a SavedModel of Keras 2 with its optimizer, an ONNX form, files, three outputs."""

from collections.abc import Callable

import pytest

from tests.networks.facts import Facts

pytestmark = pytest.mark.slow

OUTPUTS = {"contour", "note", "onset"}


@pytest.fixture(scope="module")
def facts(run_network: Callable[[str], Facts]) -> Facts:
    return run_network("basic_pitch")


@pytest.mark.parametrize("build", ["tflite-float32", "coreml-float32", "tflite-file"])
def test_float_builds_agree_in_each_output(facts: Facts, build: str) -> None:
    parity = facts.parity(build)
    assert parity.keys() == OUTPUTS
    assert min(parity.values()) > 60


def test_the_outputs_of_a_file_are_judged_under_the_names_of_the_source(facts: Facts) -> None:
    parity = facts.parity("coreml-file")
    assert parity.keys() == OUTPUTS
    assert min(parity.values()) > 60


def test_the_onnx_form_has_its_own_reference(facts: Facts) -> None:
    assert len(facts.parity("onnx-float32")) == len(OUTPUTS)
    assert min(facts.parity("onnx-float32").values()) > 60


def test_silence_is_a_number_in_our_build_and_none_in_the_published_one(facts: Facts) -> None:
    """coremltools makes 0 / 0 of the division by the loudest frame; ours keeps TensorFlow's zero."""
    failed = {
        build: {one.name for one in facts.result(build).edge_results if one.verdict == "fail"}
        for build in ("coreml-float32", "coreml-file")
    }
    assert failed == {"coreml-float32": set(), "coreml-file": {"zeros", "denormal"}}


@pytest.mark.parametrize("recipe", ["tflite-int8", "tflite-int16x8"])
def test_operators_without_an_integer_form_are_named_where_all_must_be_integer(
    facts: Facts, recipe: str
) -> None:
    error = facts.build(recipe).error
    assert error is not None
    assert error.what.startswith(f"{recipe} is all integer, but these operators have no integer form: ")
    assert "(NEG)" in error.what
    assert error.next_step is not None


@pytest.mark.parametrize("recipe", ["onnx-int8", "onnx-int8-qoperator", "onnx-int8-dynamic"])
def test_int8_builds_judge_each_output(facts: Facts, recipe: str) -> None:
    assert len(facts.parity(recipe)) == len(OUTPUTS)
    assert facts.build(recipe).operators["int8"] > 0


def test_dynamic_ranges_keep_every_output(facts: Facts) -> None:
    assert min(facts.parity("tflite-int8-dynamic").values()) > 15


def test_float16_builds_are_made_and_fail_by_their_numbers(facts: Facts) -> None:
    """The network takes logarithms of a spectrum: what is right of float16 is for the gate to say."""
    for recipe in ("tflite-float16", "coreml-float16"):
        assert facts.build(recipe).error is None
        assert facts.parity(recipe).keys() == OUTPUTS
    assert facts.result("coreml-float16").verdict == "fail"
