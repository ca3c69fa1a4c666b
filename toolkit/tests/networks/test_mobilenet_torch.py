"""torchvision's MobileNetV2 by every recipe that takes PyTorch sources here."""

from collections.abc import Callable

import pytest

from tests.networks.facts import Facts

pytestmark = pytest.mark.slow

INT8 = ("executorch-int8", "coreml-int8", "onnx-int8", "onnx-int8-qoperator")


@pytest.fixture(scope="module")
def facts(run_network: Callable[[str], Facts]) -> Facts:
    return run_network("mobilenet_torch")


def test_every_recipe_makes_a_build(facts: Facts) -> None:
    assert facts.failed() == {}


@pytest.mark.parametrize("recipe", ["executorch-float32", "coreml-float32", "onnx-float32", "torch-float32"])
def test_float_builds_compute_what_the_source_does(facts: Facts, recipe: str) -> None:
    assert facts.parity(recipe)["logits"] > 80


@pytest.mark.parametrize("recipe", INT8)
def test_static_int8_keeps_the_logits_at_a_quarter_of_the_size(facts: Facts, recipe: str) -> None:
    assert facts.parity(recipe)["logits"] > 20
    assert facts.ratio(recipe) < 0.35
    assert facts.build(recipe).operators["int8"] >= 53, "its convolutions and its linear layer"


def test_builds_without_calibration_keep_the_logits(facts: Facts) -> None:
    for recipe, least in (
        ("coreml-float16", 40),
        ("coreml-int8-weights", 20),
        ("onnx-int8-dynamic", 20),
        ("executorch-int8-dynamic", 30),
    ):
        assert facts.parity(recipe)["logits"] > least, recipe


def test_dynamic_executorch_builds_leave_depthwise_convolutions_in_float(facts: Facts) -> None:
    """17 of its 52 convolutions, with few of the weights: the others are quantized by what each run holds."""
    left = [one.type for one in facts.build("executorch-int8-dynamic").float_operators]
    assert left.count("conv2d") == 17
    assert facts.ratio("executorch-int8-dynamic") < 0.35


def test_qnnpack_keeps_the_logits_as_other_static_builds_do(facts: Facts) -> None:
    """With torch's own clamps, which put the values into other places, 14 dB less than ONNX Runtime."""
    qnnpack, onnx = (facts.parity(recipe)["logits"] for recipe in ("torch-qnnpack-int8", "onnx-int8"))
    assert qnnpack > onnx - 4
    assert facts.ratio("torch-qnnpack-int8") < 0.35
