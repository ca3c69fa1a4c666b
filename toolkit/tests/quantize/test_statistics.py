"""Histograms that grow: exact counts, whatever the order and the sizes of the values."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from phoneproof.errors import DataError
from phoneproof.quantize.statistics import HALF_BINS, Histogram, Scratch, TensorStatistics

SCRATCH = Scratch()

# Division by a width of 2^30 or so would take smaller values to zero.
elements = st.floats(-1, 1, width=32).map(lambda value: value if abs(value) > 1e-20 else 0.0)
batches = st.lists(
    st.tuples(hnp.arrays(np.float32, st.integers(1, 40), elements=elements), st.integers(-30, 30)).map(
        lambda pair: pair[0] * np.float32(2.0 ** pair[1])
    ),
    min_size=1,
    max_size=6,
)


def collected(values: list[NDArray[np.float32]]) -> Histogram:
    statistics = TensorStatistics("t")
    for index, value in enumerate(values):
        statistics.add(value, index, SCRATCH)
    return statistics.histogram()


@given(values=batches, order=st.randoms())
def test_the_order_of_samples_does_not_matter(values: list[NDArray[np.float32]], order: object) -> None:
    shuffled = list(values)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    first, second = collected(values), collected(shuffled)
    np.testing.assert_array_equal(first.counts, second.counts)
    assert (first.width, first.lowest, first.highest) == (second.width, second.lowest, second.highest)


@given(values=batches)
def test_counts_equal_those_of_numpy_over_all_values_at_once(values: list[NDArray[np.float32]]) -> None:
    histogram = collected(values)
    joined = np.concatenate(values).astype(np.float64)
    edges = np.arange(-HALF_BINS, HALF_BINS + 1) * histogram.width
    expected, _ = np.histogram(joined, edges)
    np.testing.assert_array_equal(histogram.counts, expected)
    assert histogram.total == joined.size == histogram.counts.sum()
    assert (histogram.lowest, histogram.highest) == (joined.min(), joined.max())


@given(values=batches)
def test_at_least_half_of_one_side_resolves_the_values(values: list[NDArray[np.float32]]) -> None:
    histogram = collected(values)
    greatest = max(-histogram.lowest, histogram.highest)
    if greatest > 2.0**-100:
        assert HALF_BINS / 2 <= greatest / histogram.width < HALF_BINS


def test_a_tensor_larger_than_one_block_is_counted_whole() -> None:
    values = np.random.default_rng(0).standard_normal(200_001).astype(np.float32)
    whole = collected([values])
    pieces = collected(list(np.array_split(values, 7)))
    np.testing.assert_array_equal(whole.counts, pieces.counts)


def test_only_zeros_leave_a_range_of_zero() -> None:
    histogram = collected([np.zeros(5, np.float32), np.zeros((2, 3), np.float32)])
    assert (histogram.lowest, histogram.highest, histogram.total) == (0.0, 0.0, 11)
    assert histogram.counts[HALF_BINS] == 11


def test_zeros_before_the_first_value_stay_in_the_bin_of_zero() -> None:
    histogram = collected([np.zeros(4, np.float32), np.array([-3.0, 5.0], np.float32)])
    assert histogram.counts[HALF_BINS] == 4


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_names_tensor_and_sample(bad: float) -> None:
    statistics = TensorStatistics("layer4/relu")
    statistics.add(np.ones(3, np.float32), 0, SCRATCH)
    with pytest.raises(DataError, match=r"'layer4/relu'.*sample 7") as caught:
        statistics.add(np.array([0.0, bad, bad], np.float32), 7, SCRATCH)
    assert dict(caught.value.facts) == {"tensor": "layer4/relu", "sample": 7, "not_finite": 2}


def test_nothing_collected_is_no_histogram() -> None:
    statistics = TensorStatistics("empty")
    statistics.add(np.empty((0, 4), np.float32), 0, SCRATCH)
    with pytest.raises(ValueError, match="no values"):
        statistics.histogram()
