"""Weights and activations of an exported program in int8, with our ranges: PT2E, then exported again."""

from dataclasses import dataclass
from typing import Any

from phoneproof.quantize.pt2e import quantized
from phoneproof.quantize.ranges import Ranges
from phoneproof.quantize.reexport import reexported
from phoneproof.quantize.torch_graph import ACTIVATIONS, PreparedProgram, is_float
from phoneproof.sources.exported_program import ExportedSource, input_names
from phoneproof.sources.program_operators import aten_name, is_operator
from phoneproof.toolchains.coreml_convert import origin_of
from phoneproof.toolchains.coreml_quantizer import CoreMlQuantizer


@dataclass(frozen=True)
class QuantizedProgram:
    """program: exported again, with quantize and dequantize operators.

    unsafe: names of the source's operators that would lose an operand, or whose weights are no constants
    (quantize/pt2e.Quantized). fed_by_int8: of those whose float inputs are all dequantized.
    """

    program: Any
    unsafe: frozenset[str]
    fed_by_int8: frozenset[str]


def quantize_program(
    source: ExportedSource,
    prepared: PreparedProgram,
    kept: frozenset[str],
    ranges: Ranges,
    per_channel: bool,
) -> QuantizedProgram:
    """Quantize the prepared program, which is used up. kept: names of its nodes that stay in float."""
    made = quantized(prepared, CoreMlQuantizer(ranges, per_channel), ranges, kept)
    program = reexported(made.graph, source)
    return QuantizedProgram(program, made.unsafe | made.computed_weights, _fed_by_int8(program))


def _fed_by_int8(program: Any) -> frozenset[str]:
    inputs = frozenset(input_names(program))
    fed = (node for node in program.graph.nodes if is_operator(node) and _is_fed(node, inputs))
    return frozenset(name for name in map(origin_of, fed) if name is not None)


def _is_fed(node: Any, inputs: frozenset[str]) -> bool:
    """Whether what comes in is dequantized, for an activation also through the operator before."""
    sources = [one for one in node.all_input_nodes if is_float(one) and not _is_stored(one, inputs)]
    before = sources[0] if len(sources) == 1 else None
    if before is not None and aten_name(node) in ACTIVATIONS and not _is_dequantized(before):
        return is_operator(before) and aten_name(before) not in ACTIVATIONS and _is_fed(before, inputs)
    return bool(sources) and all(_is_dequantized(one) for one in sources)


def _is_dequantized(node: Any) -> bool:
    return aten_name(node).startswith("dequantize")


def _is_stored(node: Any, inputs: frozenset[str]) -> bool:
    """Whether the value is a weight, quantized or not."""
    if node.op == "placeholder":
        return node.name not in inputs
    return _is_dequantized(node) and _is_stored(node.args[0], inputs)
