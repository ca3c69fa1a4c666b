"""Which layers of a TensorFlow source an operation of an ML program computes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from phoneproof.recipes.selection import refuse_unknown, wish
from phoneproof.recipes.table import RecipeOptions
from phoneproof.sources.tensorflow_graph import (
    Layer,
    TensorflowSource,
    names_and_types,
    scopes,
    without_calls,
)
from phoneproof.toolchains.coreml_converted import Converted, Origin, identifier

_WEIGHTED: Final = frozenset(
    {"Conv1D", "Conv2D", "Conv3D", "DepthwiseConv2dNative", "Conv2DBackpropInput", "Conv3DBackpropInputV2"}
    | {"MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "GatherV2", "ResourceGather"}
)
"""Operators of TensorFlow that have weights."""


@dataclass(frozen=True)
class Named:
    """origins: of the operations that can be told. kept: names of those that the plan keeps in float."""

    origins: dict[str, Origin]
    kept: frozenset[str]


def named_operations(converted: Converted, source: TensorflowSource, options: RecipeOptions) -> Named:
    """The source's layer, or its operator where it has no layers, for each operation of the program.

    An operation may compute several: what is fused with a convolution has the name of the last, such as a
    batch norm, and the graph is walked back to the convolution. One that the plan keeps in float keeps all.
    RecipeError for a name or type that the source does not have: the vendor's quantizer ignores both.
    """
    names, types = names_and_types(source)
    refuse_unknown(names, types, options)
    graph = _Graph(source)
    origins: dict[str, Origin] = {}
    kept: set[str] = set()
    for operation in converted.operations:
        parts = graph.parts(operation.name)
        if not parts:
            continue
        origin = graph.origin(parts[-1])
        origins[operation.outputs[0].name] = origin
        wanted = wish(
            [name for part in parts for name in graph.names(part)],
            [kind for part in parts for kind in graph.types(part)],
            options,
        )
        if options.keep_float if wanted is None else wanted:
            kept.add(origin.name)
    return Named(origins, frozenset(kept))


class _Graph:
    """The source's graph, by the names that coremltools makes of its operators' names."""

    def __init__(self, source: TensorflowSource) -> None:
        self._graph = source.function.graph
        self._nodes = source.nodes
        self._layers = sorted(source.layers, key=lambda layer: -len(layer.scope))
        self._by_name = {identifier(node): node for node in source.nodes}

    def parts(self, operation: str) -> list[str]:
        """Names of the operators that an operation computes, the last first, back to the one with weights."""
        fitting = [name for name in self._by_name if operation.startswith(name)]
        if not fitting:
            return []
        node = self._graph.get_operation_by_name(self._by_name[max(fitting, key=len)])
        parts = [node.name]
        while node.type not in _WEIGHTED:
            before = [one.op for one in node.inputs if not _is_constant(one.op)]
            if len({one.name for one in before}) != 1:
                return parts[:1]
            node = before[0]
            if node.name not in self._nodes:
                return parts[:1]
            parts.append(node.name)
        return parts

    def origin(self, part: str) -> Origin:
        """The innermost layer that the operator is of; without one, the operator itself."""
        layers = self._enclosing(part)
        if layers:
            return Origin(layers[0].name, layers[0].kind)
        return Origin(without_calls(part), self._nodes[part])

    def names(self, part: str) -> list[str]:
        """All that a plan can name the operator by, the nearest first."""
        return [*(layer.name for layer in self._enclosing(part)), *scopes(without_calls(part))]

    def types(self, part: str) -> list[str]:
        """All types that a plan can name it by."""
        return [*(layer.kind for layer in self._enclosing(part)), self._nodes[part]]

    def _enclosing(self, part: str) -> Sequence[Layer]:
        return [one for one in self._layers if part == one.scope or part.startswith(f"{one.scope}/")]


def _is_constant(operation: Any) -> bool:
    if operation.type == "Placeholder":
        return False
    return all(_is_constant(one.op) for one in operation.inputs)
