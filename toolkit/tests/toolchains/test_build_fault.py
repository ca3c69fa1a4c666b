"""What passes for the same outputs as those of what a build was made of."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phoneproof.protocol.tensors import TensorSpec
from phoneproof.toolchains.build_fault import fault_of

SPEC = TensorSpec("output", "float32", (1, 1000))
DRAW = np.random.default_rng(0)
REFERENCE = DRAW.standard_normal(1000).astype(np.float32)


def noisy(db: float) -> list[NDArray[np.float32]]:
    """The reference's output with noise at this signal to noise ratio, as of one sample."""
    noise = DRAW.standard_normal(REFERENCE.shape) * 10 ** (-db / 20)
    return [(REFERENCE + noise).astype(np.float32)[None]]


def test_a_build_is_held_to_what_rounding_makes() -> None:
    assert fault_of(SPEC, noisy(9.0), REFERENCE, 8.0) is None
    fault = fault_of(SPEC, noisy(25.0), REFERENCE, 32.0)
    assert fault is not None
    assert fault.startswith("25.")
    assert fault.endswith("where rounding leaves 32.0 dB")


def test_other_dtypes_shapes_and_lost_finiteness_are_faults() -> None:
    spoiled = REFERENCE.copy()
    spoiled[3] = np.nan
    wrong: list[tuple[NDArray[Any], str]] = [
        (REFERENCE[None].astype(np.float64), "float64"),
        (REFERENCE, "instead"),
        (spoiled[None], "not finite"),
    ]
    for value, text in wrong:
        fault = fault_of(SPEC, [value], REFERENCE, 8.0)
        assert fault is not None
        assert text in fault
    assert fault_of(SPEC, [spoiled[None]], spoiled, 100.0) is None
    # What the program leaves undefined, a fully masked row, the runtime may fill as it likes.
    assert fault_of(SPEC, [REFERENCE[None]], spoiled, 100.0) is None


def test_whole_numbers_and_nothing_but_rounding_are_not_compared() -> None:
    classes = TensorSpec("class", "int64", (1, 1))
    assert fault_of(classes, [np.array([[3]])], np.array([4]), 30.0) is None
    nothing = TensorSpec("zero", "float32", (1, 2))
    assert fault_of(nothing, [np.full((1, 2), 1e-8, np.float32)], np.zeros(2, np.float32), 30.0) is None
