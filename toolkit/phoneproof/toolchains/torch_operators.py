"""Which operators of a quantized program compute in float, and why."""

from collections.abc import Iterator, Set
from typing import Final

from torch.fx import Node

from phoneproof.builds.manifest import FloatOperator, FloatReason
from phoneproof.quantize.pt2e import Quantized
from phoneproof.quantize.torch_graph import (
    ARITHMETIC,
    CLAMPS,
    QUANTIZABLE,
    SAME_VALUES,
    PreparedProgram,
    is_constant,
    is_float,
)
from phoneproof.recipes.table import Mode, Recipe
from phoneproof.sources.program_operators import aten_name

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

    kept: names of nodes that the plan keeps in float. Named as in the exported program.
    """
    found: dict[str, FloatOperator] = {}
    integer = result.integer | computed_in_int8(prepared, result, kept)
    for node in _computing(prepared, result):
        if node.name not in integer:
            name = _named(prepared, node.name)
            kind = prepared.operators[name].aten
            found.setdefault(name, FloatOperator(name, kind, _reason(node, result, kept, recipe)))
    return tuple(found.values())


def computed_in_int8(prepared: PreparedProgram, result: Quantized, kept: Set[str]) -> frozenset[str]:
    """Nodes that the plan keeps in float between operators in int8, which XNNPACK computes in int8 with them.

    It takes an operator for quantized if all that it takes is dequantized and all that it gives quantized
    again. The values are those of float arithmetic between the two. A weight is not dequantized.
    """
    return frozenset(
        node.name
        for node in _computing(prepared, result)
        if node.name in kept and node.name not in result.integer and _is_between(node)
    )


def kept_in_int8(prepared: PreparedProgram, nodes: Set[str]) -> tuple[str, ...]:
    """The exported program's names of nodes, sorted."""
    return tuple(sorted({_named(prepared, name) for name in nodes}))


def _named(prepared: PreparedProgram, name: str) -> str:
    return name if name in prepared.operators else min(prepared.origins[name])


def _is_between(node: Node) -> bool:
    if aten_name(node) not in QUANTIZABLE:
        return False
    users = list(node.users)
    if len(users) == 1 and aten_name(node) in ARITHMETIC and aten_name(users[0]) in CLAMPS:
        users = list(users[0].users)
    before = [one for one in node.all_input_nodes if is_float(one)]
    if len(before) == 1 and aten_name(node) in CLAMPS and aten_name(before[0]) in ARITHMETIC:
        before = [one for one in before[0].all_input_nodes if is_float(one)]
    is_fed = all(aten_name(one).startswith("dequantize") for one in before)
    return is_fed and bool(users) and all(aten_name(one).startswith("quantize") for one in users)


def _computing(prepared: PreparedProgram, result: Quantized) -> Iterator[Node]:
    for node in result.graph.graph.nodes:
        if node.name not in prepared.origins or is_constant(node) or aten_name(node) in _NOTHING:
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
