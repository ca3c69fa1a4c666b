"""From an exported program to an ML program, and from its operations back to the nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import torch

from phoneproof.errors import RecipeError
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.sources.exported_program import input_names, output_nodes
from phoneproof.toolchains.coreml_converted import (
    Conversion,
    Converted,
    converted,
    feature_names,
    refuse_dtypes,
)

_ORIGIN: Final = "phoneproof_node"


def mark_origins(program: Any) -> None:
    """Write each operator's name where decomposing, quantizing and exporting again keep it."""
    for node in program.graph.nodes:
        if node.op == "call_function":
            node.meta["custom"] = {**node.meta.get("custom", {}), _ORIGIN: node.name}


def origin_of(node: Any) -> str | None:
    """The name that `mark_origins` wrote on the node or on the one that it was made of; None without."""
    origin = node.meta.get("custom", {}).get(_ORIGIN)
    return None if origin is None else str(origin)


def convert(
    program: Any, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], conversion: Conversion
) -> Converted:
    """Convert a torch.export.ExportedProgram whose origins are marked.

    inputs, outputs: the program's, whose names are kept where they are identifiers. RecipeError for inputs
    and outputs that Core ML does not have, ToolchainError if the vendor fails.
    """
    refuse_io(program, inputs, outputs)
    program = decomposed(program)
    origins = _number_nodes(program)
    names = feature_names([spec.name for spec in (*inputs, *outputs)])
    named = [replace(spec, name=name) for spec, name in zip((*inputs, *outputs), names, strict=True)]
    model = converted(program, named[: len(inputs)], named[len(inputs) :], conversion)
    return Converted(model, _origins(model, origins))


def refuse_io(program: Any, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
    """RecipeError for what an ML program cannot take or give.

    coremltools calls an output that is also an input, or that comes twice, by one name for both.
    """
    refuse_dtypes((*inputs, *outputs))
    named = {name: f"the input {name!r}" for name in input_names(program)}
    for node, spec in zip(output_nodes(program, "the exported program"), outputs, strict=True):
        if node in named:
            raise RecipeError(
                f"The output {spec.name!r} is the same tensor as {named[node]}; Core ML gives each once.",
                where=spec.name,
                next_step="Leave one of them out of what the module gives.",
            )
        named[node] = f"the output {spec.name!r}"


def decomposed(program: Any) -> Any:
    """The program in the operators that coremltools reads: its LSTM and GRU become plain arithmetic."""
    known = torch.export.default_decompositions()
    recurrent = [torch.ops.aten.lstm.input, torch.ops.aten.gru.input]
    return program.run_decompositions({operator: known[operator] for operator in recurrent})


def _number_nodes(program: Any) -> dict[int, str]:
    """Give each node a debug handle, which coremltools carries through its passes; the origin of each."""
    origins: dict[int, str] = {}
    for number, node in enumerate(program.graph.nodes, start=1):
        origin = origin_of(node)
        if node.op == "call_function" and origin is not None:
            node.meta["debug_handle"] = number
            origins[number] = origin
    return origins


def _origins(model: Any, nodes: Mapping[int, str]) -> dict[str, str]:
    from coremltools.converters.mil.mil.scope import ScopeSource

    found: dict[str, str] = {}
    for operation in model._mil_program.functions["main"].operations:
        for handle in operation.scopes.get(ScopeSource.EXIR_DEBUG_HANDLE) or ():
            if handle in nodes:
                found[operation.outputs[0].name] = nodes[handle]
    return found
