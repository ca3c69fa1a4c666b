"""A transformer over int64 ids: indices out of integer arithmetic, a mask, two outputs."""

from collections.abc import Callable

import pytest

from tests.networks.facts import Facts

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def facts(run_network: Callable[[str], Facts]) -> Facts:
    return run_network("text_classifier")


@pytest.mark.parametrize("recipe", ["executorch-float32", "coreml-float32", "onnx-float32", "torch-float32"])
def test_ids_reach_every_float_build_exactly(facts: Facts, recipe: str) -> None:
    """One wrong id or position would leave some 20 dB."""
    parity = facts.parity(recipe)
    assert parity.keys() == {"logits", "mean"}
    assert min(parity.values()) > 80


@pytest.mark.parametrize(
    ("recipe", "least"),
    [
        ("coreml-float16", 40),
        ("coreml-int8-weights", 25),
        ("executorch-int8-dynamic", 25),
        ("executorch-int8", 22),
        ("coreml-int8", 22),
        ("torch-qnnpack-int8", 22),
        ("onnx-int8-dynamic", 25),
        ("onnx-int8", 18),
    ],
)
def test_both_outputs_of_smaller_builds_are_judged(facts: Facts, recipe: str, least: float) -> None:
    parity = facts.parity(recipe)
    assert parity.keys() == {"logits", "mean"}
    assert min(parity.values()) > least
