"""Ranges out of histograms, against a slow reference, ONNX Runtime's calibrators and known truths."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnxruntime.quantization.calibrate import HistogramCollector

from phoneproof.errors import ProtocolError
from phoneproof.quantize.ranges import (
    LEVELS,
    OUTLIER_SHARE,
    Ranges,
    candidate_thresholds,
    entropy_threshold,
    percentile_threshold,
    range_of,
    read_ranges,
    write_ranges,
)
from phoneproof.quantize.statistics import HALF_BINS, Histogram, Scratch, TensorStatistics
from phoneproof.recipes.table import Method

Values = NDArray[np.float32]


def histogram_of(values: Values) -> Histogram:
    statistics = TensorStatistics("t")
    statistics.add(values, 0, Scratch())
    return statistics.histogram()


def slow_squared_error(counts: list[float], start: int, end: int) -> float:
    low, high = start - HALF_BINS, end - HALF_BINS
    error = 0.0
    for k, count in enumerate(counts):
        centre = k - HALF_BINS + 0.5
        inside = start <= k < end
        edge = low if k < start else high
        error += count * (((high - low) / (LEVELS - 1)) ** 2 / 12 if inside else (centre - edge) ** 2)
    return error


def slow_entropy_threshold(histogram: Histogram) -> float:
    """The method as its docstring says, one candidate, one level and one bin at a time."""
    counts = [float(c) for c in histogram.counts]
    counts[HALF_BINS] = min(counts[HALF_BINS], counts[HALF_BINS + 1])
    filled = np.flatnonzero(histogram.counts)
    first, last = int(filled[0]), int(filled[-1]) + 1
    best, best_reach = np.inf, 0
    unclipped: float | None = None
    for reach in candidate_thresholds(first, last).tolist():
        start = max(HALF_BINS - reach, min(first, HALF_BINS))
        end = min(HALF_BINS + reach, max(last, HALF_BINS))
        p = counts[start:end]
        p[0] += sum(counts[:start])
        p[-1] += sum(counts[end:])
        q = [0.0] * len(p)
        for level in range(LEVELS):
            bins = range(level * len(p) // LEVELS, (level + 1) * len(p) // LEVELS)
            held = sum(counts[start + k] for k in bins)
            users = [k for k in bins if p[k] > 0]
            for k in users:
                q[k] = (held if held > 0 else 1e-4) / len(users)
        inside = sum(counts[start:end])
        total = sum(p)
        error = slow_squared_error(counts, start, end)
        unclipped = error if unclipped is None else unclipped
        if not inside or (total - inside > OUTLIER_SHARE * total and error > unclipped):
            continue
        divergence = sum(
            x / total * np.log((x / total) / (y / inside)) for x, y in zip(p, q, strict=True) if x > 0
        )
        if divergence < best - 1e-12:
            best, best_reach = divergence, reach
    return best_reach * histogram.width


def draw(kind: str, seed: int, size: int = 40_000) -> Values:
    random = np.random.default_rng(seed)
    normal = random.standard_normal(size)
    values: dict[str, NDArray[np.float64]] = {
        "normal": normal,
        "laplace": random.laplace(size=size),
        "relu": np.maximum(normal, 0),
        "silu": normal * 3 / (1 + np.exp(-normal * 3)),
        "negative": -np.abs(normal),
        "outliers": np.concatenate([normal, random.uniform(30, 60, 20)]),
        "uniform": random.uniform(-1, 1, size),
    }
    return values[kind].astype(np.float32)


KINDS = ["normal", "laplace", "relu", "silu", "negative", "outliers", "uniform"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_entropy_search_equals_the_slow_reference(kind: str) -> None:
    histogram = histogram_of(draw(kind, seed=4, size=3000))
    assert entropy_threshold(histogram) == pytest.approx(slow_entropy_threshold(histogram), rel=1e-12)


@pytest.mark.parametrize("kind", ["normal", "laplace"])
def test_entropy_is_close_to_onnxruntimes_where_that_searches(kind: str) -> None:
    """Within 10 % of its threshold: it has steps of 0.4 % of the range, and floors Q to whole counts."""
    values = draw(kind, seed=5)
    # With its default of 128 bins for 128 levels, ONNX Runtime has one candidate and finds the maximum.
    theirs = HistogramCollector(
        method="entropy",
        symmetric=True,
        num_bins=1024,
        num_quantized_bins=LEVELS,
        percentile=0,
        scenario="same",
    )
    theirs.collect({"t": [values]})
    low, high = (float(v) for v in theirs.compute_collection_result()["t"][:2])
    ours = range_of(histogram_of(values), Method.ENTROPY, 100.0)
    assert ours == pytest.approx((low, high), rel=0.10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("percentile", [99.0, 99.99])
def test_percentile_is_within_a_bin_of_onnxruntimes(kind: str, percentile: float) -> None:
    values = draw(kind, seed=6)
    theirs = HistogramCollector(
        method="percentile", symmetric=True, num_bins=4096, num_quantized_bins=0, percentile=percentile,
        scenario="same",
    )  # fmt: skip
    theirs.collect({"t": [values]})
    low, high = (float(v) for v in theirs.compute_collection_result()["t"][:2])
    ours = range_of(histogram_of(values), Method.PERCENTILE, percentile)
    bin_width = 2 * float(np.abs(values).max()) / 2048
    assert ours == pytest.approx((min(low, 0), max(high, 0)), abs=bin_width)


@given(seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS), percentile=st.floats(90, 100))
def test_percentile_keeps_that_share_inside_and_no_bin_more(seed: int, kind: str, percentile: float) -> None:
    values = draw(kind, seed, 2000)
    histogram = histogram_of(values)
    limit = percentile_threshold(histogram, percentile)
    inside = np.count_nonzero((values >= -limit) & (values < limit))
    fewer = limit - histogram.width
    assert inside >= percentile / 100 * values.size - 1e-6
    assert np.count_nonzero((values >= -fewer) & (values < fewer)) < percentile / 100 * values.size + 1e-6


@given(seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS), method=st.sampled_from(Method))
def test_a_range_holds_zero_and_nothing_that_was_not_reached(seed: int, kind: str, method: Method) -> None:
    histogram = histogram_of(draw(kind, seed, 500))
    low, high = range_of(histogram, method, 99.9)
    assert min(histogram.lowest, 0.0) <= low <= 0.0 <= high <= max(histogram.highest, 0.0)


def test_min_max_is_exact() -> None:
    values = np.array([-0.1, 0.3, 7.123], np.float32)
    assert range_of(histogram_of(values), Method.MINMAX, 100.0) == (float(values[0]), float(values[2]))


def test_entropy_cuts_rare_outliers_and_keeps_what_is_evenly_spread() -> None:
    cut = range_of(histogram_of(draw("outliers", seed=7)), Method.ENTROPY, 100.0)
    assert cut[1] < 15
    kept = range_of(histogram_of(draw("uniform", seed=7)), Method.ENTROPY, 100.0)
    assert kept == pytest.approx((-1, 1), rel=0.01)


def test_a_flat_background_does_not_make_the_entropy_method_clip_the_rest() -> None:
    """Nine tenths of the values are one constant, as in scans and letterboxed images; 2 % lie far out."""
    random = np.random.default_rng(9)
    values = np.concatenate(
        [np.full(90_000, -1.2), random.normal(0, 1, 8_000), random.uniform(3, 9, 2_000)]
    ).astype(np.float32)
    _, high = range_of(histogram_of(values), Method.ENTROPY, 100.0)
    clipped = float(np.square(np.maximum(values - high, 0)).sum())
    spared = len(values) * ((9 - values.min()) / 255) ** 2 / 12
    assert clipped <= spared


def test_zeros_after_a_relu_do_not_move_the_entropy_threshold() -> None:
    positive = np.abs(draw("normal", seed=8))
    sparse = np.concatenate([positive, np.zeros(10 * positive.size, np.float32)])
    assert entropy_threshold(histogram_of(sparse)) == entropy_threshold(histogram_of(positive))


@pytest.mark.parametrize("values", [[0.0], [5.0], [-5.0], [1e-30, 1e30]])
@pytest.mark.parametrize("method", list(Method))
def test_the_smallest_sets_have_a_range(values: list[float], method: Method) -> None:
    low, high = range_of(histogram_of(np.array(values, np.float32)), method, 99.0)
    assert low <= 0.0 <= high


RANGES = Ranges(1, Method.PERCENTILE, 99.9, "c" * 64, 12, {"x": (-1.5, 2.0), "y": (0.0, 0.1)})


def test_the_ranges_file_comes_back_as_it_was(tmp_path: Path) -> None:
    write_ranges(tmp_path / "ranges.json", RANGES)
    assert read_ranges(tmp_path / "ranges.json") == RANGES


@pytest.mark.parametrize(
    "change",
    [{"version": 2}, {"tensors": {"x": [0.5, 1.0]}}, {"tensors": {"x": [0.0, float("inf")]}}, {"more": 1}],
)
def test_a_wrong_ranges_file_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "ranges.json"
    write_ranges(path, RANGES)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ProtocolError):
        read_ranges(path)


def test_a_missing_ranges_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProtocolError, match="cannot be read"):
        read_ranges(tmp_path / "ranges.json")
