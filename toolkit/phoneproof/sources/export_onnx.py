"""The ONNX export worker: `python -m phoneproof.sources.export_onnx REQUEST.json`, for recipes of ONNX.

Request: {source: an ExportedProgramRequest, out}; result: {file, sha256, size_bytes}. The model takes and
gives what the program does, by the same names; its operators are named after the modules they stand in. The
same request with the same tool versions gives the same bytes.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from phoneproof.errors import SourceModelError, ToolchainError, said
from phoneproof.protocol.codec import from_dict
from phoneproof.protocol.work import Progress, run_worker
from phoneproof.sources.exported_program import ExportedSource, load_program
from phoneproof.sources.onnx_export import Exported, free_name, refuse_wrong, write_export
from phoneproof.sources.onnx_model import SIZE_LIMIT
from phoneproof.sources.onnx_versions import GREATEST_IR
from phoneproof.sources.program_running import network_of
from phoneproof.sources.request import ExportedProgramRequest

OPSET: Final = 18
"""What torch.onnx writes without converting from version to version, and every runtime on phones loads."""

_SCOPES: Final = "pkg.torch.onnx.name_scopes"


@dataclass(frozen=True)
class OnnxExportRequest:
    """out: name of the file in the work folder."""

    source: ExportedProgramRequest
    out: str = "model.onnx"


def export(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Export the program.

    SourceModelError as `load_program`; ToolchainError where torch.onnx fails, or what it
    writes does not compute what the program does.
    """
    wanted = from_dict(OnnxExportRequest, request)
    progress.say("load")
    source = load_program(wanted.source)
    progress.say("export")
    model = onnx_of(source)
    content: bytes = model.SerializeToString(deterministic=True)
    progress.say("check")
    network = network_of(source.runner())
    refuse_wrong(content, Exported("program", str(source.path), network, source.inputs, source.outputs))
    return write_export(content, folder, wanted.out)


def onnx_of(source: ExportedSource) -> Any:
    """The program as an onnx.ModelProto with its weights inside."""
    from onnxscript import optimizer

    weights = sum(value.nbytes for value in source.program.state_dict.values())
    if weights > SIZE_LIMIT:
        raise SourceModelError(
            "The model with its weights is larger than 2 GiB.",
            where=str(source.path),
            next_step="Split the model; a model of this size does not fit a phone either.",
        )
    try:
        # Not optimised by torch.onnx, which merges batch norms and forgets what the convolution was called;
        # ONNX Runtime merges them when it quantizes or loads the model.
        exported = torch.onnx.export(
            source.program,
            dynamo=True,
            input_names=[spec.name for spec in source.inputs],
            output_names=[spec.name for spec in source.outputs],
            opset_version=OPSET,
            optimize=False,
            verbose=False,
        )
        if exported is None:
            raise RuntimeError("torch.onnx gave no model")
        optimizer.fold_constants(exported.model)
        optimizer.remove_unused_nodes(exported.model)
        model = exported.model_proto
    except Exception as error:  # torch.onnx, onnxscript and operators raise all kinds
        raise ToolchainError(
            f"torch.onnx cannot export the program: {type(error).__name__}: {said(error, 400)}.",
            where=str(source.path),
            next_step="Replace the operator it names, or export the model to ONNX yourself and name that.",
        ) from error
    model.ir_version = min(model.ir_version, GREATEST_IR)
    _name_operators(model)
    _forget_notes(model)
    return model


def _name_operators(model: Any) -> None:
    """Names that a user of the module knows: `features.0`, or `features.0/add_1` of one among several."""
    scopes = {}
    for index, node in enumerate(model.graph.node):
        notes = {prop.key: prop.value for prop in node.metadata_props}
        scopes[index] = _scope(notes.get(_SCOPES, ""), node)
    alone = Counter(path for index, (path, _) in scopes.items() if _is_operator(model.graph.node[index]))
    taken: set[str] = set()
    for index, node in enumerate(model.graph.node):
        path, step = scopes[index]
        wanted = f"{path}/{step}" if path else step
        if path and alone[path] == 1 and _is_operator(node):
            wanted = path
        if not _is_operator(node):
            wanted = f"constant {node.output[0]}"
        node.name = free_name(wanted, taken)


def _is_operator(node: Any) -> bool:
    return bool(node.op_type != "Constant")


def _scope(text: str, node: Any) -> tuple[str, str]:
    """Module path and name of the program's operator, out of torch.onnx's note `['', 'bn', 'batch_norm']`."""
    import ast

    try:
        names = [str(name) for name in ast.literal_eval(text)]
    except (SyntaxError, ValueError):
        names = []
    if not names:
        return "", str(node.name)
    return (names[-2] if len(names) > 1 else ""), names[-1]


def _forget_notes(model: Any) -> None:
    """Notes of the exporter hold the program again as text, and names of the user's classes."""
    graph = model.graph
    for part in (
        model,
        graph,
        *graph.node,
        *graph.input,
        *graph.output,
        *graph.value_info,
        *graph.initializer,
    ):
        if hasattr(part, "metadata_props"):
            del part.metadata_props[:]
        part.doc_string = ""


if __name__ == "__main__":
    sys.exit(run_worker(export))
