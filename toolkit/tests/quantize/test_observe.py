"""The calibration pass over real graphs."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psutil
import pytest

from phoneproof.errors import DataError
from phoneproof.quantize import observe as observe_module
from phoneproof.quantize.observe import float_tensors, observe, parts
from phoneproof.quantize.onnx_graph import PreparedGraph, prepare
from phoneproof.quantize.statistics import HALF_BINS, Histogram, Scratch, TensorStatistics
from phoneproof.sources.onnx_model import load_onnx
from tests.models.onnx_networks import NetworkBuilder, classifier, saved, two_inputs
from tests.toolchains.built import Sample, outputs_of, samples_for


def test_every_float_tensor_is_observed_with_its_true_extremes(tmp_path: Path) -> None:
    path = saved(two_inputs(), tmp_path / "m.onnx")
    graph, samples = prepare(load_onnx(path)), samples_for(path, 8)
    histograms = observe(graph, samples, threads=1)
    assert list(histograms) == list(float_tensors(graph.model))
    outputs = [np.stack(values) for values in zip(*outputs_of(graph.model, samples), strict=True)]
    for value, name in zip(outputs, ("scores_out", "box_out"), strict=True):
        assert histograms[name].lowest == pytest.approx(float(value.min()), rel=1e-5)
        assert histograms[name].highest == pytest.approx(float(value.max()), rel=1e-5)
        assert histograms[name].total == value.size
    numbers = np.stack([sample["numbers"] for sample in samples])
    assert (histograms["numbers"].lowest, histograms["numbers"].highest) == (numbers.min(), numbers.max())


def test_the_order_of_samples_does_not_matter(tmp_path: Path) -> None:
    path = saved(classifier(), tmp_path / "m.onnx")
    graph, samples = prepare(load_onnx(path)), samples_for(path, 12)
    forward, backward = observe(graph, samples, 1), observe(graph, samples[::-1], 1)
    for name, histogram in forward.items():
        np.testing.assert_array_equal(histogram.counts, backward[name].counts)
        assert histogram.width == backward[name].width


def test_a_graph_too_large_for_one_run_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(classifier(), tmp_path / "m.onnx")
    graph, samples = prepare(load_onnx(path)), samples_for(path, 3)
    whole = observe(graph, samples, 1)
    monkeypatch.setattr(observe_module, "FETCH_BYTES", 3000)
    assert len(list(parts(list(whole), float_tensors(graph.model)))) > 3
    pieces = observe(graph, samples, 1)
    for name, histogram in whole.items():
        np.testing.assert_array_equal(histogram.counts, pieces[name].counts)


@pytest.mark.parametrize("threads", [1, 3])
def test_what_follows_from_another_tensor_equals_what_is_observed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    build = NetworkBuilder()
    bounds = [build.weight(n, np.array(v, np.float32)) for n, v in (("low", -0.7), ("high", 1.3))]
    x = build.op("Relu", [build.conv("image", "conv", 3, 4)], "relu")
    x = build.op("Clip", [build.conv(x, "second", 4, 4), *bounds], "clip")
    x = build.op("Clip", [build.conv(x, "third", 4, 4), build.weights[-1].name], "flat")
    build.nodes[-1].input[1] = build.weight("nought", np.array(0.0, np.float32))
    x = build.op("Reshape", [x, build.weight("shape", np.array([1, -1], np.int64))], "reshape")
    path = saved(build.model({"image": [1, 3, 8, 8]}, {x: [1, 256]}), tmp_path / "m.onnx")
    graph, samples = prepare(load_onnx(path)), samples_for(path, 6)
    derived = observe(graph, samples, threads)
    monkeypatch.setattr(observe_module, "derivations", lambda model, tensors: {})
    for name, truth in observe(graph, samples, threads).items():
        assert (derived[name].lowest, derived[name].highest) == (truth.lowest, truth.highest)
        assert derived[name].total == truth.total
        for value in (truth.width, 10 * truth.width, 0.3, 0.7, 1.0):
            # The share beyond a magnitude, which is what decides ranges, to the width of a derived bin.
            assert beyond(derived[name], value + derived[name].width) <= beyond(truth, value)
            assert beyond(truth, value + derived[name].width) <= beyond(derived[name], value)
    np.testing.assert_array_equal(derived["relu_out"].counts, truth_of(graph, samples, "relu_out").counts)


def beyond(histogram: Histogram, magnitude: float) -> int:
    """Number of values in bins that lie beyond the magnitude on either side."""
    first = int(np.ceil(magnitude / histogram.width))
    return int(
        histogram.counts[HALF_BINS + first :].sum() + histogram.counts[: max(HALF_BINS - first, 0)].sum()
    )


def truth_of(graph: PreparedGraph, samples: Sequence[Sample], name: str) -> Histogram:
    """The histogram of one tensor, its values fetched by a plain session."""
    model = type(graph.model).FromString(graph.model.SerializeToString())
    model.graph.output.append(next(v for v in model.graph.value_info if v.name == name))
    statistics = TensorStatistics(name)
    for index, outputs in enumerate(outputs_of(model, samples)):
        statistics.add(outputs[-1], index, Scratch())
    return statistics.histogram()


def test_progress_is_told_per_sample(tmp_path: Path) -> None:
    path = saved(two_inputs(), tmp_path / "m.onnx")
    seen: list[int] = []
    observe(prepare(load_onnx(path)), samples_for(path, 4), 1, seen.append)
    assert seen == [1, 2, 3, 4]


def test_no_sample_is_an_error(tmp_path: Path) -> None:
    graph = prepare(load_onnx(saved(two_inputs(), tmp_path / "m.onnx")))
    with pytest.raises(DataError, match="no samples"):
        observe(graph, [], 1)


def test_an_inner_tensor_that_is_not_finite_is_named_with_its_sample(tmp_path: Path) -> None:
    build = NetworkBuilder()
    x = build.op("Log", [build.conv("image", "conv", 3, 2)], "log")
    path = saved(build.model({"image": [1, 3, 6, 6]}, {x: [1, 2, 6, 6]}), tmp_path / "m.onnx")
    with pytest.raises(DataError, match=r"'log_out'.*sample 0"):
        observe(prepare(load_onnx(path)), samples_for(path, 2), 1)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_samples(tmp_path: Path) -> None:
    path = saved(classifier(side=96), tmp_path / "m.onnx")
    graph, samples = prepare(load_onnx(path)), samples_for(path, 20)
    used: dict[int, int] = {}
    process = psutil.Process()

    def seen(count: int) -> None:
        if count in {100, 10_000}:
            used[count] = process.memory_info().rss

    observe(graph, itertools.islice(itertools.cycle(samples), 10_000), 2, seen)
    assert used[10_000] - used[100] < 5 * 2**20
