"""Operators of a Core ML build told by the names that they have in the source, with why some are in float."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from phoneproof.builds.manifest import FloatOperator, FloatReason
from phoneproof.quantize.torch_graph import ACTIVATIONS, SAME_VALUES, PreparedProgram
from phoneproof.toolchains.coreml_converted import Origin
from phoneproof.toolchains.coreml_quantizer import BINARY, POOLING, WEIGHTED
from phoneproof.toolchains.mil_flow import MilOperator

_MOVING: Final = SAME_VALUES | frozenset(
    {"cat", "stack", "slice", "select", "index_select", "split", "chunk", "expand", "repeat", "pad", "flip"}
    | {"unflatten", "unbind", "embedding", "pixel_shuffle", "pixel_unshuffle", "gather", "index", "roll"}
)
"""Operators of torch that compute nothing."""


def sources_of(origins: Mapping[str, str], prepared: PreparedProgram) -> dict[str, Origin]:
    """The source's operator for each operation. origins: by operation, the node that it came from.

    A folded batch norm is told by the operator that it was folded into.
    """
    folded = {part: name for name, parts in prepared.origins.items() for part in parts}
    found = {}
    for operation, node in origins.items():
        name = folded.get(node, node)
        operator = prepared.operators.get(name)
        if operator is not None:
            found[operation] = Origin(name, operator.aten)
    return found


@dataclass(frozen=True)
class LeftInFloat:
    """left: the source's operators that compute in float. kept_in_int8: names of those that the plan keeps in
    float but whose neighbours are quantized, so that Core ML computes them in int8.
    """

    left: tuple[FloatOperator, ...]
    kept_in_int8: tuple[str, ...]


def left_in_float(
    operators: Iterable[MilOperator],
    sources: Mapping[str, Origin],
    kept: frozenset[str],
    unsafe: frozenset[str],
    fed_by_int8: frozenset[str],
) -> LeftInFloat:
    """The float operators of a program with quantized activations, each of the source's once.

    kept, unsafe, fed_by_int8: names of the source's operators that the plan, or the quantizer, leaves in
    float, and of those whose inputs are quantized.
    """
    left: dict[str, FloatOperator] = {}
    kept_in_int8: dict[str, None] = {}
    for operator in operators:
        source = sources.get(operator.name) or Origin(operator.name, operator.type)
        if operator.dtype.startswith("float"):
            reason = _reason(source, kept, unsafe, fed_by_int8)
            left.setdefault(source.name, FloatOperator(source.name, source.type, reason))
        elif operator.dtype == "int8" and source.name in kept:
            kept_in_int8[source.name] = None
    return LeftInFloat(tuple(left.values()), tuple(kept_in_int8))


def _reason(
    source: Origin, kept: frozenset[str], unsafe: frozenset[str], fed_by_int8: frozenset[str]
) -> FloatReason:
    if source.name in kept:
        return "kept_by_plan"
    if source.name in unsafe:
        return "unsafe_to_quantize"
    if source.type in _MOVING:
        return "data_movement"
    if source.type not in WEIGHTED | BINARY | POOLING | ACTIVATIONS:
        return "not_quantizable"
    return "outputs_not_quantized" if source.name in fed_by_int8 else "inputs_not_quantized"
