"""What an ML program is held to: measured with its results or weights moved, in float32 throughout."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phoneproof.errors import ToolchainError
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.table import Precision
from phoneproof.sources.agreement import Arrays

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own

OUTPUTS = (TensorSpec("output", "float32", (1, 4)),)
INPUTS = (TensorSpec("x", "float32", (1, 4)), TensorSpec("ids", "int32", (1, 3)))


def taking(largest: int) -> Callable[[Arrays], Arrays]:
    """A source that takes ids below a number."""

    def network(arrays: Arrays) -> Arrays:
        if int(arrays[1].max()) >= largest:
            raise IndexError("index out of range")
        return [arrays[0]]

    return network


def test_float16_is_not_rounded_when_it_is_widened() -> None:
    from phoneproof.runtimes.mil.types import held
    from phoneproof.toolchains.coreml_rounding import widened

    third = np.float32(1 / 3)
    assert held(third, "fp16") != third
    assert widened(third, "fp16") == third
    assert widened([1.5, 2.5], "int32").tolist() == [1, 2]


def test_a_second_sample_has_other_ids_if_the_source_takes_them() -> None:
    from phoneproof.toolchains.coreml_compare import random_inputs

    both = random_inputs(INPUTS, taking(4))
    assert [int(sample[1].max()) > 0 for sample in both] == [False, True]
    assert not np.array_equal(both[0][0], both[1][0])
    assert len(random_inputs(INPUTS, taking(1))) == 1


@pytest.mark.parametrize(("precision", "least", "most"), [("float32", 99.9, 100.0), ("float16", 45.0, 75.0)])
def test_limits_follow_the_precision(precision: str, least: float, most: float) -> None:
    from phoneproof.toolchains.coreml_rounding import least_db

    assert least <= least_db(*scaled(), Precision(precision))[0] <= most


def test_a_program_that_cancels_has_a_lower_limit() -> None:
    """(x · w + 1000) - 1000, or nearly: three digits are lost, 60 dB."""
    from phoneproof.toolchains.coreml_rounding import least_db

    (usual,), (lost,) = (least_db(*scaled(offset), Precision.FLOAT32) for offset in (0.0, 1000.5))
    assert usual - 60 < lost < usual - 20


def scaled(offset: float = 0.0) -> tuple[Any, Callable[[Any, Any], list[Any]]]:
    """A block of one multiplication, and how it is run: (x · w + offset) - offset."""
    from phoneproof.runtimes.mil.interpreter import PreparedBlock

    weights = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    block = PreparedBlock(("x",), {"w": weights}, (), ("output",), 2)
    x = np.random.default_rng(1).standard_normal(64).astype(np.float32)

    def compute(given: Any, hold: Any) -> list[Any]:
        product = hold(x * given.constants["w"], "fp32")
        return [hold(hold(product + np.float32(offset), "fp32") - np.float32(offset), "fp32")]

    return block, compute


def test_a_build_that_is_not_finite_is_told_of_float16() -> None:
    from phoneproof.toolchains.coreml_compare import Answers, refuse_wrong

    good = np.ones((1, 4), np.float32)
    bad = good.copy()
    bad[0, 1] = np.inf
    refuse_wrong(OUTPUTS, Answers(([good],), [good.ravel()], []), [good.ravel()], [100.0], Path("m"))
    with pytest.raises(ToolchainError, match=r"not finite where the source is.*65504"):
        refuse_wrong(OUTPUTS, Answers(([bad],), [good.ravel()], []), [good.ravel()], [100.0], Path("m"))
    with pytest.raises(ToolchainError, match=r"40\.\d dB against .* rounding leaves 100\.0 dB"):
        refuse_wrong(
            OUTPUTS, Answers(([good],), [good.ravel() * 1.01], []), [good.ravel()], [100.0], Path("m")
        )
