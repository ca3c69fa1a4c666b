"""Inputs and outputs of an exported program as it is, before a plan fixes any axis."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phoneproof.sources.exported_program import (
    input_names,
    output_names,
    output_nodes,
    read_program,
    tensor_of,
)


def signature_torch(path: Path) -> Mapping[str, Any]:
    """See sources/signature. SourceModelError as `load_program`; nothing is unpickled."""
    program = read_program(path, trust_pickle=False)
    inputs = [_tensor(tensor_of(program, name), name) for name in input_names(program)]
    nodes = output_nodes(program, str(path))
    names = output_names((), len(nodes), str(path))
    outputs = [_tensor(tensor_of(program, node), name) for node, name in zip(nodes, names, strict=True)]
    return {"inputs": inputs, "outputs": outputs}


def _tensor(value: Any, name: str) -> dict[str, Any]:
    shape = [length if isinstance(length, int) else None for length in value.shape]
    return {"name": name, "dtype": str(value.dtype).removeprefix("torch."), "shape": shape}
