"""The float32 file that a float16 build is held to."""

import numpy as np
import pytest
from numpy.typing import NDArray

from phoneproof.errors import ToolchainError
from phoneproof.toolchains.tflite_float16 import with_rounded_weights
from tests.models.tflite_networks import holding

DRAW = np.random.default_rng(0)
WEIGHTS = DRAW.standard_normal((8, 4)).astype(np.float32)
BIAS = DRAW.standard_normal(8).astype(np.float32)
SHAPE = np.array([1, 8], np.int32)


def half(values: NDArray[np.float32]) -> NDArray[np.float16]:
    return values.astype(np.float16)


def test_what_is_float16_in_the_build_is_rounded_and_the_rest_is_left() -> None:
    found = with_rounded_weights(holding([WEIGHTS, SHAPE, BIAS]), holding([SHAPE, half(WEIGHTS), BIAS]), "x")
    assert found == holding([half(WEIGHTS).astype(np.float32), SHAPE, BIAS])
    assert found != holding([WEIGHTS, SHAPE, BIAS])


def test_a_float16_constant_of_other_values_is_a_fault_of_the_converter() -> None:
    truncated = (WEIGHTS.view(np.uint32) & 0xFFFFE000).view(np.float32)  # rounded towards zero
    with pytest.raises(ToolchainError, match="1 of the build's 2 float16 constants"):
        with_rounded_weights(holding([WEIGHTS, BIAS]), holding([half(truncated), half(BIAS)]), "x")


def test_a_weight_beyond_float16_is_named() -> None:
    large = BIAS.copy()
    large[2] = -70_000
    with np.errstate(over="ignore"):
        build = holding([half(large)])
    with pytest.raises(ToolchainError, match="A weight of 70000 is beyond float16, which ends at 65504"):
        with_rounded_weights(holding([large]), build, "x")
