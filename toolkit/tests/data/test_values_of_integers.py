"""Integers of data in the integer dtype of a build, and inputs without a batch."""

import numpy as np
import pytest

from phoneproof.data.values import as_input, input_array
from phoneproof.errors import DataError
from phoneproof.protocol.tensors import TensorSpec

TOKENS = TensorSpec("tokens", "int32", (1, 3))
STATE = TensorSpec("state", "float32", (2, 1, 4))


def test_integers_take_the_dtype_of_the_build_where_it_holds_them() -> None:
    taken = input_array(np.array([7, 0, 2**31 - 1], np.int64), TOKENS)
    assert taken.dtype == np.int32
    assert taken.tolist() == [7, 0, 2**31 - 1]


def test_truths_become_0_and_1_and_half_floats_are_widened() -> None:
    assert input_array(np.array([True, False, True]), TOKENS).tolist() == [1, 0, 1]
    halves = np.array([0.1, -2.0, 65504.0], np.float16)
    widened = input_array(halves, TensorSpec("x", "float32", (1, 3)))
    assert widened.dtype == np.float32
    np.testing.assert_array_equal(widened, halves.astype(np.float32))


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_an_integer_that_does_not_fit_is_refused(value: int) -> None:
    with pytest.raises(DataError, match="int32 cannot hold") as caught:
        input_array(np.array([1, value, 2], np.int64), TOKENS)
    assert "tokens" in (caught.value.where or "")


def test_integers_never_become_floats_and_floats_never_integers() -> None:
    with pytest.raises(DataError, match="float32"):
        input_array(np.array([1, 2, 3], np.int64), TensorSpec("x", "float32", (1, 3)))
    with pytest.raises(DataError, match="int32"):
        input_array(np.array([1.0, 2.0, 3.0], np.float32), TOKENS)


def test_a_sample_of_an_input_without_a_batch_is_all_of_it() -> None:
    state = np.arange(8, dtype=np.float32).reshape(2, 1, 4)
    np.testing.assert_array_equal(input_array(state, STATE), state)
    np.testing.assert_array_equal(as_input(state[None], STATE), state[None])
    with pytest.raises(DataError, match=r"\[2, 1, 4\]"):
        input_array(state[:1], STATE)
