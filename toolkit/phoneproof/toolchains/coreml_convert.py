"""From an exported program to an ML program by coremltools, and from its operations back to the nodes.

What the vendor's converter does without a word, and what is done about it:

- It loads TensorFlow where that is installed, which ends the process: kept out by runtimes/coreml_vendor.py.
- Its pass int_op_canonicalization moves a reshape between a dequantize and a quantize of another scale to the
  integers, which then have the wrong scale (coremltools 9.0: SQNR of -6 dB for pool, flatten, linear). The
  pass only saves two operations around a reshape; it is left out of every conversion.
- It calls an output that is also an input, or that comes twice, by one name for both: refused here.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from phoneproof.errors import RecipeError, ToolchainError, said
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.table import Precision
from phoneproof.runtimes.coreml_vendor import coremltools
from phoneproof.sources.exported_program import input_names, output_nodes
from phoneproof.toolchains.coreml_precision import float16_where_it_holds

MISCOMPILING: Final = "common::int_op_canonicalization"

_IO_DTYPES: Final = {
    "float16": np.float32,
    "float32": np.float32,
    "float64": np.float32,
    "int32": np.int32,
    "int64": np.int32,
    "bool": np.int32,
}
"""What Core ML takes and gives for each dtype of the source. A bool, which it does not have, is 0 or 1."""

_ORIGIN: Final = "phoneproof_node"
_UNSUPPORTED: Final = re.compile(r"Unsupported fx node (\S+), kind (\S+)")


@dataclass(frozen=True)
class Converted:
    """model: coremltools' MLModel. origins: by an operation's first output, the source's node it came from.

    Operations that the converter's passes made of several nodes have the origin of one of them; those that
    they added, such as casts, may have none.
    """

    model: Any
    origins: Mapping[str, str]

    @property
    def operations(self) -> Sequence[Any]:
        """The operations of its only function, in order."""
        return list(self.model._mil_program.functions["main"].operations)


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
    program: Any,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    precision: Precision,
    target: str,
    keep_pass: bool = False,
) -> Converted:
    """Convert a torch.export.ExportedProgram whose origins are marked.

    inputs, outputs: the program's, whose names are kept where they are identifiers. precision: FLOAT32, or
    any other for float16 between float32 inputs and outputs. target: as iOS17.
    keep_pass: convert with MISCOMPILING, to show what it does.
    RecipeError for inputs and outputs that Core ML does not have, ToolchainError if the vendor fails.
    """
    refuse_io(program, inputs, outputs)
    program = decomposed(program)
    origins = _number_nodes(program)
    names = feature_names([spec.name for spec in (*inputs, *outputs)])
    pipeline = coremltools.PassPipeline()
    if not keep_pass:
        pipeline.remove_passes({MISCOMPILING})
    wide = precision is Precision.FLOAT32
    try:
        model = coremltools.convert(
            program,
            convert_to="mlprogram",
            inputs=[
                coremltools.TensorType(name=name, shape=spec.shape, dtype=_IO_DTYPES[spec.dtype])
                for name, spec in zip(names, inputs, strict=False)
            ],
            outputs=[
                coremltools.TensorType(name=name, dtype=_IO_DTYPES[spec.dtype])
                for name, spec in zip(names[len(inputs) :], outputs, strict=True)
            ],
            minimum_deployment_target=getattr(coremltools.target, target),
            compute_precision=coremltools.precision.FLOAT32 if wide else float16_where_it_holds(),
            pass_pipeline=pipeline,
            skip_model_load=True,
        )
    except Exception as error:  # coremltools raises all kinds
        raise _translated(error, target) from error
    return Converted(model, _origins(model, origins))


def refuse_io(program: Any, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
    """RecipeError for what an ML program cannot take or give."""
    for spec in (*inputs, *outputs):
        if spec.dtype not in _IO_DTYPES:
            raise RecipeError(
                f"Core ML has no inputs and outputs of {spec.dtype}.",
                where=spec.name,
                next_step=f"Let the model take and give one of {', '.join(_IO_DTYPES)}.",
            )
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


def feature_names(names: Sequence[str]) -> list[str]:
    """Names as Core ML takes them, [A-Za-z_][A-Za-z0-9_]*, each once."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
        plain = f"_{plain}" if not plain or plain[0].isdigit() else plain
        unique, count = plain, 2
        while unique in found:
            unique, count = f"{plain}_{count}", count + 1
        found.append(unique)
    return found


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


def _translated(error: Exception, target: str) -> ToolchainError:
    missing = _UNSUPPORTED.match(str(error))
    if missing is not None:
        node, kind = missing.groups()
        return ToolchainError(
            f"coremltools cannot convert the operator {kind!r} ({node}).",
            next_step="Write that part of the module with other operators, or leave the Core ML builds out.",
            operator=kind,
        )
    return ToolchainError(
        f"coremltools cannot convert the model: {type(error).__name__}: {said(error)}.",
        next_step=f"Its log tells where. A newer deployment target than {target} has more operators.",
    )
