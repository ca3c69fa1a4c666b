"""A quantized graph as an exported program again, called as its source is."""

from typing import Any

import torch
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from phoneproof.errors import ToolchainError, said
from phoneproof.sources.exported_program import ExportedSource


def reexported(graph: torch.fx.GraphModule, source: ExportedSource) -> Any:
    """The quantized graph as an exported program with the source's inputs and outputs.

    ToolchainError for whatever torch.export raises.
    """
    try:
        arguments, keywords = _zeros(source)
        return torch.export.export(graph, arguments, keywords)
    except Exception as error:  # torch's errors have no base class of their own
        raise ToolchainError(
            f"The quantized program cannot be exported: {said(error)}.",
            where=str(source.path),
            next_step="Leave the operator it names in float with keep_float_names.",
        ) from error


def _zeros(source: ExportedSource) -> Any:
    """Positional and named arguments to export with, in the structure that the program takes."""
    specs = {spec.name: spec for spec in source.inputs}
    leaves: list[Any] = []
    for argument in source.program.graph_signature.input_specs:
        if argument.kind is not InputKind.USER_INPUT:
            continue
        spec = specs.get(argument.arg.name)
        # An argument that is no tensor is fixed in the program.
        leaves.append(
            argument.arg.value if spec is None else torch.zeros(spec.shape, dtype=getattr(torch, spec.dtype))
        )
    return pytree.tree_unflatten(leaves, source.program.call_spec.in_spec)
