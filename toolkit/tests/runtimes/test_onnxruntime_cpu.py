"""ONNX Runtime behind the seam: nothing that is asked for is quietly replaced."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from phoneproof.errors import RuntimeUnavailableError
from phoneproof.runtimes import onnxruntime_cpu, source
from phoneproof.runtimes.registry import RUNTIME_MODULES, installed_version, open_runtime
from phoneproof.runtimes.runtime import LoadRequest, Session
from tests.models.small_convolution import convolution, images

Load = Callable[[LoadRequest], Session]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(convolution())
    return path


def request(
    model: Path, accelerator: str = "cpu", threads: int = 1, options: Mapping[str, str] | None = None
) -> LoadRequest:
    return LoadRequest(model, accelerator, False, threads, options or {})


@pytest.mark.parametrize("load", [onnxruntime_cpu.load, source.load])
def test_inputs_are_held_against_the_build(load: Load, model: Path) -> None:
    session = load(request(model))
    inputs = {"image": images(1)[0]}
    (output,) = session.prepare(inputs)()
    assert output.shape == (1, 4, 8, 8)
    with pytest.raises(ValueError, match="the build has"):
        session.prepare({})
    with pytest.raises(ValueError, match="the build has"):
        session.prepare({**inputs, "more": inputs["image"]})
    session.close()
    session.close()
    with pytest.raises(ValueError, match="closed"):
        session.prepare(inputs)


@pytest.mark.parametrize("load", [onnxruntime_cpu.load, source.load])
@pytest.mark.parametrize("accelerator", ["npu", "xnnpack", "coreml", "CPUExecutionProvider"])
def test_an_accelerator_that_is_not_there(load: Load, accelerator: str, model: Path) -> None:
    with pytest.raises(RuntimeUnavailableError):
        load(request(model, accelerator))


@pytest.mark.parametrize("load", [onnxruntime_cpu.load, source.load])
@pytest.mark.parametrize("options", [{"x64quantprecison": "1"}, {"x64quantprecision": "yes"}, {"a": "b"}])
def test_an_option_that_is_not_known(load: Load, options: dict[str, str], model: Path) -> None:
    with pytest.raises(ValueError, match="option"):
        load(request(model, options=options))


def test_known_options_reach_the_session(model: Path) -> None:
    options = onnxruntime_cpu.session_options(
        request(model, threads=2, options={"x64quantprecision": "1"}),
        ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
    )
    assert options.get_session_config_entry("session.x64quantprecision") == "1"
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (2, 1)


def test_what_the_runtime_reports_of_its_operators(model: Path) -> None:
    session = onnxruntime_cpu.load(request(model))
    assert session.operators == {"cpu": 2}
    assert session.accelerator_actual == "cpu"


def test_a_graph_without_operators_tells_nothing(tmp_path: Path) -> None:
    """Unknown is None, and None never passes for the accelerator that was asked for."""
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    graph = helper.make_graph([], "empty", [value], [value])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "empty.onnx"
    path.write_bytes(model.SerializeToString())
    session = onnxruntime_cpu.load(request(path))
    assert session.operators is None
    assert session.accelerator_actual is None
    (output,) = session.prepare({"x": np.ones(1, np.float32)})()
    assert output.tolist() == [1.0]


def test_every_runtime_has_a_version_without_being_imported() -> None:
    for name in RUNTIME_MODULES:
        assert installed_version(name) == open_runtime(name).version
    assert installed_version("no-such-runtime") is None


def test_a_runtime_that_is_not_there() -> None:
    with pytest.raises(RuntimeUnavailableError):
        open_runtime("tflite")
    with pytest.raises(RuntimeUnavailableError):
        open_runtime("broken", {"broken": "no_such_module:runtime"})
