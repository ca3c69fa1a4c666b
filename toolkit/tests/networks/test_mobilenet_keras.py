"""keras.applications' MobileNetV2 by every TFLite recipe."""

from collections.abc import Callable

import pytest

from tests.networks.facts import Facts

pytestmark = pytest.mark.slow

INT8 = ("tflite-int8", "tflite-int8/entropy", "tflite-int8/dense-per-tensor")


@pytest.fixture(scope="module")
def facts(run_network: Callable[[str], Facts]) -> Facts:
    return run_network("mobilenet_keras")


def test_every_recipe_makes_a_build(facts: Facts) -> None:
    assert facts.failed() == {}


def test_the_float_build_computes_what_the_source_does(facts: Facts) -> None:
    assert facts.parity("tflite-float32")["predictions"] > 80


@pytest.mark.parametrize("build", INT8)
def test_full_integer_builds_keep_the_logits_at_a_quarter_of_the_size(facts: Facts, build: str) -> None:
    assert facts.parity(build)["predictions"] > 20
    assert facts.ratio(build) < 0.35
    assert facts.build(build).float_operators == ()


def test_other_builds_keep_the_logits(facts: Facts) -> None:
    for recipe, least in (("tflite-float16", 40), ("tflite-int8-dynamic", 20), ("tflite-int16x8", 20)):
        assert facts.parity(recipe)["predictions"] > least, recipe


def test_dynamic_builds_name_the_weights_that_are_too_few(facts: Facts) -> None:
    """The converter leaves weights of less than 1024 elements in float: those of the first layers."""
    reasons = {one.type: one.reason for one in facts.build("tflite-int8-dynamic").float_operators}
    assert reasons["CONV_2D"] == reasons["DEPTHWISE_CONV_2D"] == "too_small"
    assert reasons["ADD"] == "not_quantizable"
