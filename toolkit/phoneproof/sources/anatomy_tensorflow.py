"""What a frozen TensorFlow graph is made of."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from phoneproof.builds.source_facts import Anatomy
from phoneproof.sources.anatomy import GraphNode, Shape, anatomy, convolution_word, pooling_traits
from phoneproof.sources.tensorflow_graph import TensorflowSource, without_calls

_RECURRENT: Final = frozenset({"LSTM", "GRU", "SimpleRNN"})
_CONSTANTS: Final = ("Const", "Placeholder")


def anatomy_tensorflow(source: TensorflowSource) -> Anatomy:
    """What the frozen function is made of. A recurrent Keras layer is one operator, as converters have it,
    and not the loop that TensorFlow makes of it.
    """
    operations = source.function.graph.get_operations()
    weights = {one.outputs[0].name: _shape(one.outputs[0]) for one in operations if one.type == "Const"}
    recurrent = {layer.scope: layer.kind for layer in source.layers if layer.kind in _RECURRENT}
    return anatomy(_nodes(operations, recurrent), weights, "tensorflow")


def _nodes(operations: Sequence[Any], recurrent: Mapping[str, str]) -> Iterator[GraphNode]:
    layers: dict[str, list[Any]] = {scope: [] for scope in recurrent}
    for one in operations:
        scope = _scope_of(one, recurrent)
        if scope is not None:
            layers[scope].append(one)
    for scope, kind in recurrent.items():
        yield _layer(kind, layers[scope])
    for one in operations:
        if one.type not in _CONSTANTS and _scope_of(one, recurrent) is None:
            yield _node(one)


def _scope_of(one: Any, scopes: Mapping[str, str]) -> str | None:
    name = f"{without_calls(one.name)}/"
    return next((scope for scope in scopes if name.startswith(f"{scope}/")), None)


def _layer(kind: str, operations: Sequence[Any]) -> GraphNode:
    """A recurrent layer: what goes into its operators from outside, constants included."""
    computing = [one for one in operations if one.type not in _CONSTANTS]
    inside = {value.name for one in computing for value in one.outputs}
    values = {value.name: value for one in computing for value in one.inputs}
    taken = {name: _shape(value) for name, value in values.items() if name not in inside}
    steps = max((math.prod(shape[:-1]) for shape in taken.values() if len(shape) == 3), default=1)
    matrices = sum(math.prod(shape) for shape in taken.values() if len(shape) == 2 and shape[0] > 1)
    return GraphNode(kind, tuple(taken), tuple(inside), rank=3, multiplications=steps * matrices)


def _node(one: Any) -> GraphNode:
    word, traits = _way(one)
    if one.inputs and one.inputs[0].dtype.name in ("int32", "int64"):
        traits |= {"integer"}
    return GraphNode(
        one.type,
        _names(one.inputs),
        _names(one.outputs),
        word,
        len(_shape(one.inputs[0])) if one.inputs else None,
        traits,
        _multiplications(one),
    )


def _names(values: Any) -> tuple[str, ...]:
    return tuple(value.name for value in values)


def _shape(value: Any) -> Shape:
    """A length that is not known counts as 1."""
    return () if value.shape.rank is None else tuple(int(length or 1) for length in value.shape.as_list())


def _way(one: Any) -> tuple[str | None, frozenset[str]]:
    if one.type == "Conv2D":
        height, width, inputs, outputs = _shape(one.inputs[1])
        channels = _shape(one.inputs[0])[-1]
        return convolution_word((outputs, inputs, height, width), channels // inputs, False, channels)
    if one.type == "DepthwiseConv2dNative":
        _, _, channels, multiplier = _shape(one.inputs[1])
        several = multiplier > 1 and channels > 1
        return None, frozenset({"depth_multiplier"} if several else ())
    if one.type in ("MaxPool", "AvgPool"):
        kernel, stride = one.get_attr("ksize"), one.get_attr("strides")
        return None, pooling_traits(kernel, stride, (), False, False)
    if one.type == "Mean":
        result, given = _shape(one.outputs[0]), _shape(one.inputs[0])
        # Channels come last: what is left of a mean over the space is the batch and the channels.
        spatial = len(given) == 4 and len(result) == 4 and result[1:3] == (1, 1)
        return None, frozenset() if spatial and result[3] == given[3] else frozenset({"not_spatial"})
    if one.type in ("ConcatV2", "Split", "SplitV"):
        many = len(one.inputs) - 1 > 5 or len(one.outputs) > 4
        return None, frozenset({"many"} if many else ())
    if one.type in ("SelectV2", "Select"):
        return None, frozenset({"broadcast"} if len({_shape(v) for v in one.inputs}) > 1 else ())
    return None, frozenset()


def _multiplications(one: Any) -> int:
    if one.type in ("Conv2D", "Conv3D"):
        return math.prod(_shape(one.outputs[0])) * math.prod(_shape(one.inputs[1])[:-1])
    if one.type == "DepthwiseConv2dNative":
        return math.prod(_shape(one.outputs[0])) * math.prod(_shape(one.inputs[1])[:2])
    if one.type == "Conv2DBackpropInput":
        height, width, outputs, _ = _shape(one.inputs[1])
        return math.prod(_shape(one.inputs[2])) * height * width * outputs
    if one.type == "MatMul":
        first = _shape(one.inputs[0])
        return math.prod(_shape(one.outputs[0])) * first[0 if one.get_attr("transpose_a") else -1]
    if one.type.startswith("BatchMatMul"):
        first = _shape(one.inputs[0])
        return math.prod(_shape(one.outputs[0])) * first[-2 if one.get_attr("adj_x") else -1]
    return 0
