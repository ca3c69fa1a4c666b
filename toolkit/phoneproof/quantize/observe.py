"""One pass of the calibration set through the float graph, collecting statistics of every tensor."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray

from phoneproof.errors import DataError, ToolchainError
from phoneproof.quantize.onnx_graph import PreparedGraph
from phoneproof.quantize.statistics import Derivation, Histogram, Scratch, TensorStatistics

Sample = Mapping[str, NDArray[Any]]
"""One sample: input name to an array of the input's dtype and shape, batch of 1 included."""

FETCH_BYTES: Final = 32 * 2**20
"""Most bytes of tensors fetched by one run; there are two sets of buffers of this size. A graph with more is
run several times per sample: time is paid so that memory stays bounded, whatever the model."""

Fetches = list[tuple[str, NDArray[Any]]]
"""Name and values of each tensor that a run fetched."""

_Turn = tuple[int, int, Sample]
"""Number of the sample from one, index of the part, the sample."""

SAME_VALUES: Final = frozenset({"Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity"})
"""Operators whose output holds the values of their input, so that one histogram serves both."""

_FLOAT_TYPES: Final = frozenset({onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16})


def observe(
    graph: PreparedGraph,
    samples: Iterable[Sample],
    threads: int,
    seen: Callable[[int], None] = lambda _: None,
) -> dict[str, Histogram]:
    """Histograms of all float tensors of the graph over all samples, by tensor name, in the graph's order.

    seen: called with the number of samples done. The result does not depend on the order of the samples.
    Raises DataError (no sample; a value that is not finite, naming tensor and sample) and ToolchainError.
    """
    tensors = float_tensors(graph.model)
    derived = derivations(graph.model, tensors)
    statistics = {name: TensorStatistics(name) for name in tensors if name not in derived}
    inputs = {value.name for value in graph.model.graph.input}
    fetched = [name for name in statistics if name not in inputs]
    runs = FetchingRuns(graph.model, list(parts(fetched, tensors)), threads)
    scratch = Scratch()
    count = 0
    for count, sample, fetches in runs.over(samples):
        for name, value in (*sample.items(), *fetches):
            if name in statistics:
                statistics[name].add(value, count - 1, scratch)
        seen(count)
    if not count:
        raise DataError(
            "The calibration set has no samples.", where="calibration", next_step="Add samples to the set."
        )
    for name in tensors:
        if name in derived:
            rule = derived[name]
            statistics[name] = statistics[rule.source].clipped(name, rule.low, rule.high)
    return {name: statistics[name].histogram() for name in tensors}


def derivations(model: Any, tensors: Mapping[str, int]) -> dict[str, Derivation]:
    """Tensors that need no look of their own: moved values, and what a ReLU or a clip around zero leaves."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    outer = {value.name for value in model.graph.input}
    derived: dict[str, Derivation] = {}
    for node in model.graph.node:
        bounds = _bounds(node, constants)
        is_held = node.output[0] in tensors and node.input and node.input[0] in tensors
        if bounds is not None and is_held and node.output[0] not in outer:
            derived[node.output[0]] = Derivation(node.input[0], *bounds)
    return derived


def _bounds(node: Any, constants: Mapping[str, Any]) -> tuple[float, float] | None:
    """(low, high) that the operator clips its input to, low ≤ 0 ≤ high; None if it does not just that."""
    if node.domain:
        return None
    if node.op_type in SAME_VALUES:
        return -math.inf, math.inf
    if node.op_type == "Relu":
        return 0.0, math.inf
    if node.op_type != "Clip":
        return None
    bounds = []
    for index, unbounded in ((1, -math.inf), (2, math.inf)):
        name = node.input[index] if len(node.input) > index else ""
        if name and name not in constants:
            return None
        bounds.append(float(onnx.numpy_helper.to_array(constants[name])) if name else unbounded)
    return (bounds[0], bounds[1]) if bounds[0] <= 0.0 <= bounds[1] else None


def float_tensors(model: Any) -> dict[str, int]:
    """Name to size in bytes of each float tensor that inputs and operators of the main graph hold."""
    values = {v.name: v for v in (*model.graph.value_info, *model.graph.output, *model.graph.input)}
    names = [v.name for v in model.graph.input] + [o for node in model.graph.node for o in node.output if o]
    result: dict[str, int] = {}
    for name in names:
        tensor = values[name].type.tensor_type if name in values else None
        if tensor is None or tensor.elem_type not in _FLOAT_TYPES:
            continue
        axes = [axis.dim_value for axis in tensor.shape.dim]
        size = int(np.prod(axes, dtype=np.int64)) * 4
        # An inner tensor of unknown shape has zeros here; a part is then only smaller than it might be.
        if size > 0 or any(not axis.HasField("dim_value") for axis in tensor.shape.dim):
            result[name] = size
    return result


def parts(names: Sequence[str], sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """The names in runs of at most FETCH_BYTES each, or of one tensor larger than that."""
    part: list[str] = []
    total = 0
    for name in names:
        if part and total + sizes[name] > FETCH_BYTES:
            yield part
            part, total = [], 0
        part.append(name)
        total += sizes[name]
    if part:
        yield part


class FetchingRuns:
    """Runs the graph and fetches inner tensors, in one run per part, into buffers made once.

    Without buffers of its own, every run would have new memory for every tensor from the system: on
    MobileNetV2 the page faults alone took 3 times the inference. Given two threads or more, one computes the
    next run into a second set of buffers while the caller counts the values of the last.
    """

    def __init__(self, model: Any, fetched: Sequence[Sequence[str]], threads: int) -> None:
        names = [name for part in fetched for name in part]
        self._ahead = threads > 1
        self._session = _session(model, names, max(threads - 1, 1))
        shapes = _shapes(model)
        # The parts run one after the other, so they share the memory of the largest.
        room = [
            sum(_padded(math.prod(shapes[name]) * 4) for name in part if name in shapes) for part in fetched
        ]
        self._buffers = []
        for _ in range(1 + self._ahead):
            memory = np.empty(max(room, default=0), np.uint8)
            self._buffers.append([(list(part), _views(part, shapes, memory)) for part in fetched])

    def over(self, samples: Iterable[Sample]) -> Iterator[tuple[int, Sample, Fetches]]:
        """For each part of each sample: samples done with it, the sample, and what was fetched.

        The sample is given with its first part and empty with the others. Fetched values last until the
        iterator goes on.
        """
        turns = (
            (number, part, sample)
            for number, sample in enumerate(samples, start=1)
            for part in range(max(len(self._buffers[0]), 1))
        )
        if not self._ahead:
            yield from (self._result(turn, self._run(turn, 0)) for turn in turns)
            return
        with ThreadPoolExecutor(1) as pool:
            last: tuple[_Turn, Future[Fetches]] | None = None
            for index, turn in enumerate(turns):
                running = pool.submit(self._run, turn, index % 2)
                if last is not None:
                    yield self._result(last[0], last[1].result())
                # Only now has the caller let go of the buffers that the next run writes into.
                last = (turn, running)
            if last is not None:
                yield self._result(last[0], last[1].result())

    @staticmethod
    def _result(turn: _Turn, fetches: Fetches) -> tuple[int, Sample, Fetches]:
        number, part, sample = turn
        return number, sample if part == 0 else {}, fetches

    def _run(self, turn: _Turn, buffer: int) -> Fetches:
        _, part, sample = turn
        if not self._buffers[buffer]:
            return []
        names, views = self._buffers[buffer][part]
        binding = self._session.io_binding()
        for name, value in sample.items():
            binding.bind_cpu_input(name, np.ascontiguousarray(value))
        for name in names:
            view = views.get(name)
            if view is None:
                binding.bind_output(name, "cpu")
            else:
                binding.bind_output(name, "cpu", 0, view.dtype, view.shape, view.ctypes.data)
        self._session.run_with_iobinding(binding)
        values = binding.get_outputs()
        return [
            (name, views[name] if name in views else value.numpy())
            for name, value in zip(names, values, strict=True)
        ]


def _padded(size: int) -> int:
    return -(-size // 64) * 64


def _views(
    names: Sequence[str], shapes: Mapping[str, tuple[int, ...]], memory: NDArray[np.uint8]
) -> dict[str, NDArray[np.float32]]:
    views: dict[str, NDArray[np.float32]] = {}
    start = 0
    for name in names:
        if name in shapes:
            size = math.prod(shapes[name]) * 4
            views[name] = memory[start : start + size].view(np.float32).reshape(shapes[name])
            start += _padded(size)
    return views


def _shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """Shapes of the float32 tensors that are known in full."""
    shapes: dict[str, tuple[int, ...]] = {}
    for value in (*model.graph.value_info, *model.graph.output):
        tensor = value.type.tensor_type
        if tensor.elem_type == onnx.TensorProto.FLOAT and tensor.HasField("shape"):
            axes = [axis.dim_value for axis in tensor.shape.dim]
            if all(axis.HasField("dim_value") and axis.dim_value > 0 for axis in tensor.shape.dim):
                shapes[value.name] = tuple(axes)
    return shapes


def _session(model: Any, fetched: Sequence[str], threads: int) -> Any:
    import onnxruntime

    present = [value.name for value in model.graph.output]
    values = {value.name: value for value in model.graph.value_info}
    # Put in and taken out again: a copy of the model would hold its weights once more.
    model.graph.output.extend(values[name] for name in fetched if name not in present)
    content = model.SerializeToString()
    del model.graph.output[len(present) :]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    # A thread that waits by spinning takes the core from the one that counts.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions have no base class of their own
        raise ToolchainError(
            "ONNX Runtime cannot load the model for calibration.",
            next_step="Check that the model runs in ONNX Runtime on this machine.",
            cause=str(error).strip()[:400],
        ) from error
