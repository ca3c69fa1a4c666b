"""silero-vad: state inputs, an integer scalar that chooses a branch, an LSTM."""

from collections.abc import Callable

import pytest

from tests.networks.facts import Facts

pytestmark = pytest.mark.slow

INT8 = ("onnx-int8", "onnx-int8-qoperator", "onnx-int8-dynamic")


@pytest.fixture(scope="module")
def facts(run_network: Callable[[str], Facts]) -> Facts:
    return run_network("silero_vad")


def test_float_builds_take_state_and_rate_as_the_source_does(facts: Facts) -> None:
    for model in ("both-rates", "one-rate"):
        parity = facts.parity(f"{model}/onnx/onnx-float32")
        assert parity.keys() == {"output", "stateN"}
        assert min(parity.values()) > 100


@pytest.mark.parametrize("recipe", INT8)
def test_what_lies_in_branches_is_a_named_limit(facts: Facts, recipe: str) -> None:
    build = facts.build(f"both-rates/onnx/{recipe}")
    assert build.error is not None
    assert build.error.what == f"{recipe} left every operator in float."
    assert build.error.next_step is not None
    assert "branches" in build.error.next_step


def test_without_branches_convolutions_are_quantized_and_the_lstm_is_named(facts: Facts) -> None:
    for recipe in INT8[:2]:
        assert "LSTM" in facts.float_types(f"one-rate/onnx/{recipe}")
        assert "Conv" not in facts.float_types(f"one-rate/onnx/{recipe}")
    assert facts.ratio("one-rate/onnx/onnx-int8-dynamic") < 0.35


def test_static_ranges_lose_the_state_and_dynamic_ones_keep_it(facts: Facts) -> None:
    assert facts.result("one-rate/onnx/onnx-int8").verdict == "fail"
    assert facts.parity("one-rate/onnx/onnx-int8-dynamic")["stateN"] > 25
    assert facts.parity("one-rate/onnx/onnx-int8")["stateN"] < 20
