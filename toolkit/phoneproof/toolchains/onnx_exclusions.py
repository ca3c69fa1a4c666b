"""Which operators of the prepared graph stay in float: those the plan names, and those unsafe to quantize."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import onnx

from phoneproof.errors import RecipeError
from phoneproof.quantize.onnx_graph import PreparedGraph
from phoneproof.recipes.selection import kept_in_float
from phoneproof.recipes.table import Recipe, RecipeOptions, Representation


@dataclass(frozen=True)
class Exclusions:
    """Names of prepared nodes that stay in float.

    kept: by the plan. unsafe: where the vendor's quantizer would change values.
    """

    kept: frozenset[str]
    unsafe: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        """Every excluded node."""
        return self.kept | self.unsafe


def exclusions(graph: PreparedGraph, source: Any, options: RecipeOptions, recipe: Recipe) -> Exclusions:
    """What is excluded from quantization.

    keep_float_names and keep_float_types speak of the source model; a fused operator stays in float if any of
    the source operators that it computes is named. Raises RecipeError for a name or type that the source does
    not have (the vendor's quantizer ignores it silently), or that nothing computes any more.
    """
    types = {node.name: node.op_type for node in source.graph.node}
    wanted = kept_in_float(types, options)
    kept = frozenset(name for name, origin in graph.origins.items() if origin & wanted)
    computed = frozenset().union(*graph.origins.values())
    for name in options.keep_float_names:
        if name not in computed:
            raise RecipeError(
                f"The operator {name!r} is computed when the model is prepared, and does not run.",
                where="keep_float_names",
                next_step="Leave it out.",
            )
    # Dynamic quantization leaves every Relu and Clip as it is.
    unsafe = frozenset(_unsafe(graph.model, recipe.representation) if recipe.needs_calibration else ())
    return Exclusions(kept, unsafe - kept)


def _unsafe(model: Any, representation: Representation) -> Iterable[str]:
    """Relu and Clip that the vendor's quantizer drops though the range of the tensor does not imply them.

    It drops them since clipping to the quantized range does their work. That is wrong for a Clip whose bounds
    leave zero out (a range always has zero) or are computed; and, in the QOperator form, for a Relu or Clip
    whose input is used elsewhere too: the shared tensor keeps its full range, and nothing clips
    (operators/activation.py of onnxruntime 1.32: QuantizeClipRelu does not look at the other users).
    """
    users: dict[str, int] = {}
    for name in (n for node in model.graph.node for n in node.input):
        users[name] = users.get(name, 0) + 1
    outer = {value.name for value in (*model.graph.input, *model.graph.output)}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type not in {"Relu", "Clip"}:
            continue
        is_shared = users[node.input[0]] > 1 or node.input[0] in outer
        is_lost = representation is Representation.QOPERATOR and is_shared
        if is_lost or (node.op_type == "Clip" and not _bounds_hold_zero(node, constants)):
            yield node.name


def _bounds_hold_zero(node: Any, constants: dict[str, Any]) -> bool:
    for index, sign in ((1, 1.0), (2, -1.0)):
        name = node.input[index] if len(node.input) > index else ""
        if not name:
            continue
        if name not in constants or float(onnx.numpy_helper.to_array(constants[name])) * sign > 0.0:
            return False
    return True
