"""Which operators of a quantized program compute in float, and why."""

from collections.abc import Iterator, Set
from typing import Final

from torch.fx import Node

from phoneproof.builds.manifest import FloatOperator, FloatReason
from phoneproof.quantize.pt2e import Quantized
from phoneproof.quantize.torch_graph import (
    ARITHMETIC,
    QUANTIZABLE,
    SAME_VALUES,
    PreparedProgram,
    aten_name,
    is_constant,
    is_float,
    is_operator,
)
from phoneproof.recipes.table import Mode, Recipe

_MOVERS: Final = (SAME_VALUES - {"dropout", "dropout_"}) | {
    *("cat", "stack", "slice", "slice_copy", "select", "expand", "repeat", "index", "index_select", "gather"),
    *("embedding", "split", "split_with_sizes", "chunk", "constant_pad_nd", "pad"),
}
"""Operators that only move values."""

_NOTHING: Final = frozenset({"dropout", "dropout_", "detach", "alias"})
"""Operators that are not there when the program runs."""


def left_in_float(
    prepared: PreparedProgram, result: Quantized, kept: Set[str], recipe: Recipe
) -> tuple[FloatOperator, ...]:
    """The operators that take or give floats and that no quantizer gave integers, in the graph's order.

    kept: names of nodes that the plan keeps in float.
    """
    nodes = (node for node in result.graph.graph.nodes if node.name in prepared.origins)
    return tuple(
        FloatOperator(node.name, aten_name(node), _reason(node, result, kept, recipe))
        for node in _computing(nodes)
        if node.name not in result.integer
    )


def _computing(nodes: Iterator[Node]) -> Iterator[Node]:
    for node in nodes:
        if not is_operator(node) or is_constant(node) or aten_name(node) in _NOTHING:
            continue
        if is_float(node) or any(is_float(before) for before in node.all_input_nodes):
            yield node


def _reason(node: Node, result: Quantized, kept: Set[str], recipe: Recipe) -> FloatReason:
    name = aten_name(node)
    if node.name in kept:
        return "kept_by_plan"
    if node.name in result.unsafe:
        return "unsafe_to_quantize"
    if name in _MOVERS:
        return "data_movement"
    if node.name in result.computed_weights or name not in QUANTIZABLE:
        return "not_quantizable"
    if recipe.mode is Mode.DYNAMIC:
        return "unsupported_by_recipe"
    return "not_quantizable" if name in ARITHMETIC else "inputs_not_quantized"
