"""The ONNX export worker for Keras models and SavedModels, for recipes of ONNX.

`python -m phoneproof.sources.export_onnx_tensorflow REQUEST.json`: {source: a KerasSourceRequest or
SavedModelRequest, out}; result: {file, sha256, size_bytes}. The model takes and gives what the source does,
by the same names and in the same layout; its operators are named after the layers they stand in. The same
request with the same tool versions gives the same bytes.
"""

import re
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from phoneproof.errors import ToolchainError, said
from phoneproof.protocol.codec import from_dict
from phoneproof.protocol.work import Progress, run_worker
from phoneproof.sources.inspect_tensorflow import load_tensorflow
from phoneproof.sources.onnx_export import EXPORT_YOURSELF, Exported, free_name, refuse_wrong, write_export
from phoneproof.sources.onnx_versions import GREATEST_IR
from phoneproof.sources.request import KerasSourceRequest, SavedModelRequest
from phoneproof.sources.tensorflow_graph import TensorflowSource, source_network, without_calls

OPSET: Final = 18
"""The newest that tf2onnx writes and every runtime on phones loads."""

_COUNTER: Final = re.compile(r"__\d+|:\d+$")
_MOVING: Final = frozenset({"Transpose", "Cast"})
"""What the converter puts between layers; none of them is the layer."""


@dataclass(frozen=True)
class TensorflowExportRequest:
    """out: name of the file in the work folder."""

    source: KerasSourceRequest | SavedModelRequest
    out: str = "model.onnx"


def export(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Export the model.

    SourceModelError as its loader; ToolchainError where tf2onnx fails, or what it writes does not compute
    what the source does.
    """
    wanted = from_dict(TensorflowExportRequest, request)
    progress.say("load")
    source = load_tensorflow(wanted.source)
    progress.say("export")
    content: bytes = onnx_of(source).SerializeToString(deterministic=True)
    progress.say("check")
    network = source_network(source)
    refuse_wrong(content, Exported("source", str(source.path), network, source.inputs, source.outputs))
    return write_export(content, folder, wanted.out)


def onnx_of(source: TensorflowSource) -> Any:
    """The source as an onnx.ModelProto with its weights inside."""
    import tf2onnx

    function = source.function
    try:
        model, _ = tf2onnx.convert.from_graph_def(
            function.graph.as_graph_def(),
            name="model",
            input_names=[tensor.name for tensor in function.inputs],
            output_names=[tensor.name for tensor in function.outputs],
            opset=OPSET,
        )
    except Exception as error:  # tf2onnx raises all kinds
        raise ToolchainError(
            f"tf2onnx cannot export the model: {type(error).__name__}: {said(error, 400)}.",
            where=str(source.path),
            next_step=f"Replace the operator it names. {EXPORT_YOURSELF}",
        ) from error
    model.ir_version = min(model.ir_version, GREATEST_IR)
    unknown = sorted({node.domain for node in model.graph.node} - {"", "ai.onnx"})
    if unknown:
        raise ToolchainError(
            f"tf2onnx left operators that are not ONNX's: {', '.join(unknown)}.",
            where=str(source.path),
            next_step=EXPORT_YOURSELF,
        )
    del model.opset_import[:]
    model.opset_import.add(domain="", version=OPSET)
    _order(model.graph)
    _Names(source).give(model.graph, [t.name for t in function.inputs], [t.name for t in function.outputs])
    return model


def _order(graph: Any) -> None:
    """Operators and weights in an order that follows from the graph alone: tf2onnx walks through sets."""
    producer = {name: node for node in graph.node for name in node.output}
    nodes, seen = [], set()
    waiting = [(producer[value.name], False) for value in reversed(graph.output) if value.name in producer]
    while waiting:
        node, is_ready = waiting.pop()
        if is_ready:
            nodes.append(node)
        elif node.output[0] not in seen:
            seen.add(node.output[0])
            waiting.append((node, True))
            waiting.extend((producer[name], False) for name in reversed(node.input) if name in producer)
    used = dict.fromkeys(name for node in nodes for name in node.input)
    weights = {tensor.name: tensor for tensor in graph.initializer}
    kept = [_copied(weights[name]) for name in used if name in weights]
    ordered = [_copied(node) for node in nodes]
    del graph.node[:], graph.initializer[:], graph.value_info[:]
    graph.node.extend(ordered)
    graph.initializer.extend(kept)


def _copied(message: Any) -> Any:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


class _Names:
    """Names that a user of the source knows: `conv`, or `hidden/MatMul` of one operator among several.

    Values and weights are named after the operators, since tf2onnx's own names follow its sets.
    """

    def __init__(self, source: TensorflowSource) -> None:
        self._source = source
        self._layers = sorted(source.layers, key=lambda layer: -len(layer.scope))

    def give(self, graph: Any, inputs: list[str], outputs: list[str]) -> None:
        """Rename operators, weights and values. inputs, outputs: what those of the source are called now."""
        values = dict(zip(inputs, (spec.name for spec in self._source.inputs), strict=True))
        values |= dict(zip(outputs, (spec.name for spec in self._source.outputs), strict=True))
        taken, names = set(values.values()), set[str]()
        weights = {tensor.name for tensor in graph.initializer}
        operators = [self._operator(node, weights) for node in graph.node]
        alone = Counter(layer for layer, step in operators if step not in _MOVING)
        for node, (layer, step) in zip(graph.node, operators, strict=True):
            is_layer = layer and alone[layer] == 1 and step not in _MOVING
            node.name = free_name(layer if is_layer else f"{layer}/{step}".strip("/"), names)
            for role, listed in (("input", node.input), ("output", node.output)):
                for index, value in enumerate(listed):
                    if value and value not in values and (role == "output" or value in weights):
                        values[value] = free_name(f"{node.name}.{role}_{index}", taken)
        for node in graph.node:
            node.input[:] = [values.get(name, name) for name in node.input]
            node.output[:] = [values.get(name, name) for name in node.output]
        for one in (*graph.initializer, *graph.input, *graph.output):
            one.name = values.get(one.name, one.name)

    def _operator(self, node: Any, weights: set[str]) -> tuple[str, str]:
        """Layer and step of an operator. A merged one has lost its name and has the layer of its weights."""
        own = [name for name in node.input if name in weights]
        layers = (self._layer(name) for name in (node.name, *own, *node.input))
        layer = next((found for found in layers if found), "")
        path = without_calls(_COUNTER.sub("", node.name))
        if node.op_type in _MOVING:
            return layer or path.rpartition("/")[0], node.op_type
        return layer, path.rpartition("/")[2] if layer else path

    def _layer(self, name: str) -> str:
        return next((one.name for one in self._layers if name.startswith(f"{one.scope}/")), "")


if __name__ == "__main__":
    sys.exit(run_worker(export))
