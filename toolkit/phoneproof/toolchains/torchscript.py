"""Saving a module as TorchScript whose bytes depend on nothing but the module."""

import io
import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from phoneproof.errors import ToolchainError, said
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import write_bytes_atomically
from phoneproof.runtimes.torch_qnnpack import INPUTS_RECORD


class Flat(torch.nn.Module):
    """A module that gives its output tensors as one tuple, whatever structure the module inside gives."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The tensors among the leaves of the output, in order."""
        leaves = pytree.tree_leaves(self.inner(*tensors))
        return tuple(one for one in leaves if isinstance(one, torch.Tensor))


def save_script(
    module: Flat,
    example: Sequence[torch.Tensor],
    path: Path,
    inputs: Sequence[TensorSpec],
    metadata: Mapping[str, str],
) -> None:
    """Trace the module and save it. ToolchainError where it cannot be traced."""
    try:
        with torch.no_grad(), warnings.catch_warnings():
            # TorchScript is deprecated, and is the only form that quantized modules can be saved in.
            warnings.simplefilter("ignore", DeprecationWarning)
            script: Any = torch.jit.trace(  # type: ignore[no-untyped-call]
                module, tuple(example), check_trace=False
            )
    except Exception as error:  # whatever the operators raise
        raise ToolchainError(
            f"torch.jit cannot trace the module: {said(error)}.",
            next_step="Use executorch-int8 or executorch-float32, which convert the exported program.",
        ) from error
    taken = [{"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)} for spec in inputs]
    records = {INPUTS_RECORD: json.dumps(taken), **metadata}
    content = script._c.save_to_buffer(dict(sorted(records.items())))
    write_bytes_atomically(path, _without_source_places(content))


def _without_source_places(content: bytes) -> bytes:
    """The archive without the records that say which line of which file each operator came from.

    They hold paths of this machine, and differ from folder to folder.
    """
    reader = torch._C.PyTorchFileReader(io.BytesIO(content))
    buffer = io.BytesIO()
    writer = torch._C.PyTorchFileWriter(buffer)
    for name in reader.get_all_records():
        if not name.endswith(".debug_pkl") and name not in {"version", ".data/serialization_id", "byteorder"}:
            record = reader.get_record(name)
            writer.write_record(name, record, len(record))
    writer.write_end_of_file()
    return buffer.getvalue()
