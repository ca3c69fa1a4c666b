"""What passes for the same outputs as those that were lowered."""

import numpy as np
import pytest
from numpy.typing import NDArray

from phoneproof.protocol.tensors import TensorSpec

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own

SPEC = TensorSpec("output", "float32", (1, 1000))
DRAW = np.random.default_rng(0)
SOURCE = DRAW.standard_normal((1, 1000)).astype(np.float32)


def noisy(db: float) -> NDArray[np.float32]:
    """The source's output with noise at this signal to noise ratio."""
    noise = DRAW.standard_normal(SOURCE.shape) * 10 ** (-db / 20)
    return (SOURCE + noise).astype(np.float32)


def test_an_int8_build_as_near_to_the_source_as_what_was_lowered_passes() -> None:
    from phoneproof.toolchains.executorch_check import INT8_LEAST_DB, fault_of

    assert fault_of(SPEC, noisy(8.0), noisy(8.0), SOURCE, INT8_LEAST_DB) is None
    assert fault_of(SPEC, noisy(30.0), noisy(35.0), SOURCE, INT8_LEAST_DB) is None


def test_an_int8_build_further_from_both_does_not() -> None:
    from phoneproof.toolchains.executorch_check import INT8_LEAST_DB, fault_of

    fault = fault_of(SPEC, noisy(12.0), noisy(35.0), SOURCE, INT8_LEAST_DB)
    assert fault is not None
    assert "less than 20 dB" in fault


def test_a_float_build_has_no_such_slack() -> None:
    from phoneproof.toolchains.executorch_check import FLOAT_LEAST_DB, fault_of

    assert fault_of(SPEC, noisy(40.0), SOURCE, SOURCE, FLOAT_LEAST_DB) is not None
    assert fault_of(SPEC, noisy(90.0), SOURCE, SOURCE, FLOAT_LEAST_DB) is None


def test_other_dtypes_shapes_and_lost_finiteness_are_faults() -> None:
    from phoneproof.toolchains.executorch_check import FLOAT_LEAST_DB, fault_of

    spoiled = SOURCE.copy()
    spoiled[0, 3] = np.nan
    wrong = [
        (SOURCE.astype(np.float64), "float64"),
        (SOURCE[0], "instead"),
        (spoiled, "not finite"),
    ]
    for value, text in wrong:
        fault = fault_of(SPEC, value, SOURCE, SOURCE, FLOAT_LEAST_DB)
        assert fault is not None
        assert text in fault
    assert fault_of(SPEC, spoiled, spoiled, spoiled, FLOAT_LEAST_DB) is None
