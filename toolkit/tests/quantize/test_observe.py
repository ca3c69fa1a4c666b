"""The calibration pass over real graphs."""

from pathlib import Path

import numpy as np
import pytest

from phoneproof.errors import DataError
from phoneproof.quantize import observe as observe_module
from phoneproof.quantize.observe import float_tensors, observe, parts
from phoneproof.quantize.onnx_graph import prepare
from phoneproof.sources.onnx_model import load_onnx
from tests.models.onnx_networks import NetworkBuilder, classifier, saved, two_inputs
from tests.toolchains.built import outputs_of, samples_for


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
