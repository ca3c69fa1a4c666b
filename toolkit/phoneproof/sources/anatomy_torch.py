"""What an exported program is made of."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from phoneproof.builds.source_facts import Anatomy
from phoneproof.sources.anatomy import (
    GraphNode,
    Shape,
    anatomy,
    convolution_word,
    pooling_traits,
    pooling_word,
)

Arguments = Mapping[str, Any]
Way = tuple[str | None, frozenset[str]]

_INTEGERS: Final = (torch.int32, torch.int64)


def anatomy_torch(program: ExportedProgram) -> Anatomy:
    """What a program with fixed axes is made of."""
    given = {
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT and hasattr(spec.arg, "name")
    }
    weights = {
        node.name: _shape(node)
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name not in given
    }
    return anatomy(_nodes(program), weights, "aten")


def operator_name(target: Any) -> str:
    """The name of an operator without namespace, overload and the `_` of those that work in place."""
    schema = getattr(target, "_schema", None)
    if schema is None:
        return str(getattr(target, "__name__", target))
    name = str(schema.name).rpartition("::")[2]
    return name.removesuffix("_") if name.endswith("_") and not name.endswith("__") else name


def _nodes(program: ExportedProgram) -> Iterator[GraphNode]:
    for node in program.graph.nodes:
        if node.op == "call_function":
            yield _node(node)


def _node(node: Any) -> GraphNode:
    name = operator_name(node.target)
    arguments = _arguments(node)
    inputs = node.all_input_nodes
    first = inputs[0] if inputs else None
    word, traits = _WAYS.get(name, _plain)(node, name, arguments)
    if first is not None and _dtype(first) in _INTEGERS and name != "embedding":
        traits |= {"integer"}
    return GraphNode(
        name,
        tuple(one.name for one in inputs),
        (node.name,),
        word,
        None if first is None or _value(first) is None else len(_shape(first)),
        frozenset(traits),
        _multiplications(node, name, arguments),
        name == "scaled_dot_product_attention" and bool(arguments.get("is_causal")),
    )


def _arguments(node: Any) -> dict[str, Any]:
    """Arguments by name, those left out with their defaults."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return {}
    found = {one.name: one.default_value for one in schema.arguments if one.has_default_value()}
    for one, value in zip(schema.arguments, node.args, strict=False):
        found[one.name] = value
    return {**found, **node.kwargs}


def _value(node: Any) -> torch.Tensor | None:
    value = node.meta.get("val")
    if isinstance(value, (tuple, list)):
        value = value[0] if value else None
    return value if isinstance(value, torch.Tensor) else None


def _shape(node: Any) -> Shape:
    value = _value(node) if isinstance(node, torch.fx.Node) else None
    return () if value is None else tuple(int(length) for length in value.shape)


def _dtype(node: Any) -> torch.dtype | None:
    value = _value(node)
    return None if value is None else value.dtype


def _plain(node: Any, name: str, arguments: Arguments) -> Way:
    return None, frozenset()


def _convolution(node: Any, name: str, arguments: Arguments) -> Way:
    weight, data = _shape(arguments["weight"]), _shape(arguments["input"])
    transposed = "transpose" in name or bool(arguments.get("transposed"))
    return convolution_word(weight, int(arguments.get("groups", 1)), transposed, data[1])


def _pooling(node: Any, name: str, arguments: Arguments) -> Way:
    kernel = _listed(arguments["kernel_size"])
    traits = pooling_traits(
        kernel,
        _listed(arguments.get("stride") or kernel),
        _listed(arguments.get("padding", 0)),
        bool(arguments.get("ceil_mode")),
        name.startswith("avg") and bool(arguments.get("count_include_pad", True)),
    )
    rank = len(_shape(arguments["self"]))
    return pooling_word("avg_pool2d" if name.startswith("avg") else "max_pool2d", rank), traits


def _adaptive(node: Any, name: str, arguments: Arguments) -> Way:
    """A pooling to one value is a mean; to more it is an average pooling where the sizes divide."""
    one = all(length == 1 for length in _listed(arguments["output_size"]))
    return ("global_avg_pool", frozenset()) if one else ("avg_pool2d", frozenset({"adaptive"}))


def _listed(value: Any) -> Sequence[int]:
    return [value] if isinstance(value, int) else list(value)


def _softmax(node: Any, name: str, arguments: Arguments) -> Way:
    axis = int(arguments.get("dim", -1))
    last = axis in (-1, len(_shape(node)) - 1)
    return None, frozenset() if last else frozenset({"other_axis"})


def _mean(node: Any, name: str, arguments: Arguments) -> Way:
    rank = len(_shape(arguments["self"]))
    axes = arguments.get("dim")
    spatial = rank == 4 and axes is not None and sorted(axis % 4 for axis in _listed(axes)) == [2, 3]
    kept = bool(arguments.get("keepdim"))
    return None, frozenset() if spatial and kept else frozenset({"not_spatial"})


def _unsqueeze(node: Any, name: str, arguments: Arguments) -> Way:
    last = arguments.get("dim") in (-1, len(_shape(node)) - 1)
    return None, frozenset() if last else frozenset({"other_axis"})


def _slice(node: Any, name: str, arguments: Arguments) -> Way:
    return None, frozenset({"strided"} if arguments.get("step", 1) != 1 else ())


def _pow(node: Any, name: str, arguments: Arguments) -> Way:
    return None, frozenset() if arguments.get("exponent") == 2 else frozenset({"not_square"})


def _maximum(node: Any, name: str, arguments: Arguments) -> Way:
    """`max` of all, along one axis with the indices, or of two tensors."""
    if "other" in arguments:
        return ("maximum" if name == "max" else "minimum"), frozenset()
    if name == "min":
        return "reduce_min", frozenset()
    return ("max_with_index" if "dim" in arguments else "reduce_max"), frozenset()


def _many(node: Any, name: str, arguments: Arguments) -> Way:
    value = node.meta.get("val")
    outputs = len(value) if isinstance(value, (tuple, list)) else 1
    return None, frozenset({"many"} if len(node.all_input_nodes) > 5 or outputs > 4 else ())


def _where(node: Any, name: str, arguments: Arguments) -> Way:
    shapes = {_shape(one) for one in node.all_input_nodes}
    return None, frozenset({"broadcast"} if len(shapes) > 1 else ())


_CONVOLUTIONS: Final = (
    "conv1d",
    "conv2d",
    "conv3d",
    "convolution",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
)
_WAYS: Final[Mapping[str, Callable[[Any, str, Arguments], Way]]] = {
    **dict.fromkeys(_CONVOLUTIONS, _convolution),
    **dict.fromkeys(
        ("max_pool1d", "max_pool2d", "max_pool2d_with_indices", "avg_pool1d", "avg_pool2d"), _pooling
    ),
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d"), _adaptive),
    **dict.fromkeys(("softmax", "_softmax", "_safe_softmax", "log_softmax", "_log_softmax"), _softmax),
    "mean": _mean,
    **dict.fromkeys(("unsqueeze", "unsqueeze_copy"), _unsqueeze),
    **dict.fromkeys(("slice", "slice_copy"), _slice),
    "pow": _pow,
    **dict.fromkeys(("max", "min"), _maximum),
    **dict.fromkeys(("cat", "concat", "split", "chunk", "split_with_sizes"), _many),
    "where": _where,
}


def _multiplications(node: Any, name: str, arguments: Arguments) -> int:
    if name in _CONVOLUTIONS:
        weight = _shape(arguments["weight"])
        transposed = "transpose" in name or bool(arguments.get("transposed"))
        over = _shape(arguments["input"]) if transposed else _shape(node)
        return math.prod(over) * math.prod(weight[1:])
    if name == "linear":
        return math.prod(_shape(node)) * _shape(arguments["weight"])[-1]
    if name in ("matmul", "mm", "bmm", "addmm", "baddbmm"):
        tensors = [one for one in node.all_input_nodes if len(_shape(one)) > 1]
        return math.prod(_shape(node)) * _shape(tensors[-2])[-1] if len(tensors) > 1 else 0
    if name == "scaled_dot_product_attention":
        query, key = _shape(arguments["query"]), _shape(arguments["key"])
        return 2 * math.prod(query) * key[-2]
    if name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        weights = [one for one in node.all_input_nodes[1:] if len(_shape(one)) == 2]
        return math.prod(_shape(node)[:-1]) * sum(math.prod(_shape(one)) for one in weights)
    return 0
