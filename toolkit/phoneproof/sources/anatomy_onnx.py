"""What an ONNX graph is made of."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import onnx

from phoneproof.builds.source_facts import Anatomy
from phoneproof.sources.anatomy import (
    GraphNode,
    Shape,
    anatomy,
    convolution_word,
    pooling_traits,
    pooling_word,
)

_RESIZE: Final = {
    "nearest": "resize_nearest",
    "linear": "resize_bilinear",
    "bilinear": "resize_bilinear",
    "cubic": "resize_cubic",
}
_LARGEST_READ: Final = 8
"""Constants of more elements are no axes, steps or exponents."""


@dataclass(frozen=True)
class _Values:
    """What is known of the values of a graph: shape and whether they are integers, small constants."""

    shapes: Mapping[str, Shape]
    integers: frozenset[str]
    constants: Mapping[str, tuple[float, ...]]


def anatomy_onnx(model: Any) -> Anatomy:
    """What an onnx.ModelProto with fixed axes and inferred shapes is made of; subgraphs are left out."""
    graph = model.graph
    weights = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    constants = {t.name: t for t in graph.initializer}
    for node in graph.node:
        for attribute in node.attribute if node.op_type == "Constant" else ():
            if attribute.HasField("t"):
                weights[node.output[0]] = tuple(attribute.t.dims)
                constants[node.output[0]] = attribute.t
    values = _values(graph, weights, constants)
    return anatomy((_node(node, values) for node in graph.node), weights, "onnx")


def _values(graph: Any, weights: Mapping[str, Shape], constants: Mapping[str, Any]) -> _Values:
    shapes = dict(weights)
    integers = {name for name, tensor in constants.items() if _is_integer(tensor.data_type)}
    for value in (*graph.input, *graph.output, *graph.value_info):
        tensor = value.type.tensor_type
        if _is_integer(tensor.elem_type):
            integers.add(value.name)
        if tensor.HasField("shape") and all(axis.HasField("dim_value") for axis in tensor.shape.dim):
            shapes[value.name] = tuple(axis.dim_value for axis in tensor.shape.dim)
    small = {
        name: tuple(float(one) for one in onnx.numpy_helper.to_array(tensor).ravel())
        for name, tensor in constants.items()
        if math.prod(tensor.dims) <= _LARGEST_READ and tensor.data_type != onnx.TensorProto.STRING
    }
    return _Values(shapes, frozenset(integers), small)


def _is_integer(elem_type: int) -> bool:
    return elem_type in (onnx.TensorProto.INT32, onnx.TensorProto.INT64)


def _node(node: Any, values: _Values) -> GraphNode:
    inputs = tuple(name for name in node.input if name)
    first = values.shapes.get(inputs[0]) if inputs else None
    rank = None if first is None else len(first)
    attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    word, traits = _WAYS.get(node.op_type, _plain)(node, attributes, values, rank)
    if inputs and inputs[0] in values.integers:
        traits |= {"integer"}
    return GraphNode(
        node.op_type,
        inputs,
        tuple(node.output),
        word,
        rank,
        frozenset(traits),
        _multiplications(node, values),
    )


Way = tuple[str | None, frozenset[str]]


def _plain(node: Any, attributes: Mapping[str, Any], values: _Values, rank: int | None) -> Way:
    return None, frozenset()


def _convolution(node: Any, attributes: Mapping[str, Any], values: _Values, rank: int | None) -> Way:
    weight = values.shapes.get(node.input[1])
    data = values.shapes.get(node.input[0])
    if weight is None or data is None:
        return None, frozenset()
    transposed = node.op_type == "ConvTranspose"
    return convolution_word(weight, attributes.get("group", 1), transposed, data[1])


def _pooling(node: Any, attributes: Mapping[str, Any], values: _Values, rank: int | None) -> Way:
    name = "max_pool2d" if node.op_type == "MaxPool" else "avg_pool2d"
    kernel = attributes.get("kernel_shape", ())
    traits = pooling_traits(
        kernel,
        attributes.get("strides", [1] * len(kernel)),
        attributes.get("pads", ()),
        bool(attributes.get("ceil_mode", 0)),
        bool(attributes.get("count_include_pad", 0)),
    )
    return pooling_word(name, rank), traits


def _resize(node: Any, attributes: Mapping[str, Any], values: _Values, rank: int | None) -> Way:
    mode = attributes.get("mode", b"nearest")
    return _RESIZE.get(mode.decode() if isinstance(mode, bytes) else str(mode)), frozenset()


def _softmax(node: Any, attributes: Mapping[str, Any], values: _Values, rank: int | None) -> Way:
    axis = attributes.get("axis", -1)
    last = axis == -1 or rank is None or axis == rank - 1
    return None, frozenset() if last else frozenset({"other_axis"})


def _mean(node: Any, attributes: Mapping[str, Any], values: _Values, rank: int | None) -> Way:
    axes = attributes.get("axes") or values.constants.get(node.input[1] if len(node.input) > 1 else "", ())
    spatial = rank == 4 and sorted(int(axis) % 4 for axis in axes) == [2, 3]
    kept = bool(attributes.get("keepdims", 1))
    return None, frozenset() if spatial and kept else frozenset({"not_spatial"})


def _slice(node: Any, attributes: Mapping[str, Any], values: _Values, rank: int | None) -> Way:
    steps = values.constants.get(node.input[4], (1.0,)) if len(node.input) > 4 else (1.0,)
    return None, frozenset({"strided"} if any(step != 1 for step in steps) else ())


def _pow(node: Any, attributes: Mapping[str, Any], values: _Values, rank: int | None) -> Way:
    return None, frozenset() if values.constants.get(node.input[1]) == (2.0,) else frozenset({"not_square"})


def _many(node: Any, attributes: Mapping[str, Any], values: _Values, rank: int | None) -> Way:
    return None, frozenset({"many"} if len(node.input) > 5 or len(node.output) > 4 else ())


def _where(node: Any, attributes: Mapping[str, Any], values: _Values, rank: int | None) -> Way:
    shapes = {values.shapes.get(name) for name in node.input}
    return None, frozenset({"broadcast"} if len(shapes) > 1 else ())


_WAYS: Final[Mapping[str, Callable[[Any, Mapping[str, Any], _Values, int | None], Way]]] = {
    "Conv": _convolution,
    "ConvTranspose": _convolution,
    "MaxPool": _pooling,
    "AveragePool": _pooling,
    "Resize": _resize,
    "Upsample": _resize,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "ReduceMean": _mean,
    "Slice": _slice,
    "Pow": _pow,
    "Concat": _many,
    "Split": _many,
    "Where": _where,
}


def _multiplications(node: Any, values: _Values) -> int:
    """Of one node; 0 where its shapes are not known."""
    shapes = [values.shapes.get(name) for name in (*node.input[:2], node.output[0] if node.output else "")]
    if len(shapes) < 3 or any(shape is None for shape in shapes):
        return 0
    first, second, result = (shape or () for shape in shapes)
    if node.op_type == "Conv":
        return math.prod(result) * math.prod(second[1:])
    if node.op_type == "ConvTranspose":
        return math.prod(first) * math.prod(second[1:])
    if node.op_type in ("MatMul", "Gemm"):
        inner = first[0] if _is_transposed(node) else first[-1]
        return math.prod(result) * inner
    if node.op_type in ("LSTM", "GRU", "RNN"):
        recurrent = values.shapes.get(node.input[2], ())
        return math.prod(first[:-1]) * (math.prod(second) + math.prod(recurrent))
    return 0


def _is_transposed(node: Any) -> bool:
    return any(attribute.name == "transA" and attribute.i for attribute in node.attribute)
