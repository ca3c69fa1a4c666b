"""One pass of the calibration set through the float graph, collecting statistics of every tensor."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray

from phoneproof.errors import DataError, ToolchainError
from phoneproof.quantize.onnx_graph import PreparedGraph
from phoneproof.quantize.statistics import Histogram, Scratch, TensorStatistics

Sample = Mapping[str, NDArray[Any]]
"""One sample: input name to an array of the input's dtype and shape, batch of 1 included."""

FETCH_BYTES: Final = 48 * 2**20
"""Most bytes of tensors fetched by one run. A graph with more is run several times per sample: time is paid
so that memory stays bounded, whatever the model."""

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
    sources = _value_sources(graph.model, tensors)
    observed = sorted(set(sources.values()), key=list(tensors).index)
    inputs = {value.name for value in graph.model.graph.input}
    fetched = [name for name in observed if name not in inputs]
    session = _session(graph.model, fetched, threads)
    statistics = {name: TensorStatistics(name) for name in observed}
    scratch = Scratch()
    count = 0
    for count, sample in enumerate(samples, start=1):
        for name, value in sample.items():
            if name in statistics:
                statistics[name].add(value, count - 1, scratch)
        for part in parts(fetched, tensors):
            # No list of values outlives its run: zip frees the one before only when the next is made.
            for name, value in zip(part, session.run(part, dict(sample)), strict=True):
                statistics[name].add(value, count - 1, scratch)
        seen(count)
    if not count:
        raise DataError(
            "The calibration set has no samples.", where="calibration", next_step="Add samples to the set."
        )
    return {name: statistics[source].histogram() for name, source in sources.items()}


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


def _value_sources(model: Any, tensors: Mapping[str, int]) -> dict[str, str]:
    """Each tensor to the one whose histogram it shares."""
    sources = {name: name for name in tensors}
    for node in model.graph.node:
        if node.op_type in SAME_VALUES and node.input[0] in sources and node.output[0] in sources:
            sources[node.output[0]] = sources[node.input[0]]
    return sources


def _session(model: Any, fetched: Sequence[str], threads: int) -> Any:
    import onnxruntime

    augmented = onnx.ModelProto()
    augmented.CopyFrom(model)
    present = {value.name for value in model.graph.output}
    values = {value.name: value for value in model.graph.value_info}
    augmented.graph.output.extend(values[name] for name in fetched if name not in present)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    # Every fetched tensor belongs to the caller and is freed after use. An arena would keep its peak instead.
    options.enable_cpu_mem_arena = False
    try:
        return onnxruntime.InferenceSession(
            augmented.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # ONNX Runtime's exceptions have no base class of their own
        raise ToolchainError(
            "ONNX Runtime cannot load the model for calibration.",
            next_step="Check that the model runs in ONNX Runtime on this machine.",
            cause=str(error).strip()[:400],
        ) from error
