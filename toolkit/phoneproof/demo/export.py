"""Export the demo's network to ONNX, so that older runtimes on phones load it, and check the file."""

import logging
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import torch
from torch import nn

from phoneproof.errors import ToolchainError

OPSET: Final = 18
MAX_IR_VERSION: Final = 10
INPUT_NAME: Final = "image"
OUTPUT_NAME: Final = "logits"


@dataclass(frozen=True)
class ExportedFacts:
    """What an exported file says of itself; parameters are those of its initialisers, counted in elements."""

    opset: int
    ir_version: int
    parameters: int


def export(network: nn.Module, input_shape: tuple[int, ...], path: Path) -> ExportedFacts:
    """Write `path`, one file with the weights inside, input and output shapes fixed.

    network: in evaluation mode. input_shape: batch dimension included.
    Raises ToolchainError if the exporter gives another opset or a newer IR than asked for.
    """
    # It warns of each torchvision operator that it cannot offer; the network has none.
    logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        # torch 2.13 copies its own deprecated LeafSpec while it exports; nothing here can change that.
        warnings.filterwarnings("ignore", message=".*LeafSpec", category=FutureWarning)
        program = torch.onnx.export(
            network,
            (torch.zeros(input_shape),),
            input_names=[INPUT_NAME],
            output_names=[OUTPUT_NAME],
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    if program is None:
        raise ToolchainError("torch.onnx.export gave no program.", where=path.name)
    model = program.model_proto
    _leave_out_traces(model)
    onnx.checker.check_model(model, full_check=True)
    opset = next(entry.version for entry in model.opset_import if entry.domain == "")
    if opset != OPSET or model.ir_version > MAX_IR_VERSION:
        raise ToolchainError(
            f"The exporter wrote opset {opset} and IR {model.ir_version}, "
            f"not opset {OPSET} and an IR of at most {MAX_IR_VERSION}.",
            where=path.name,
            next_step="Install the versions of torch and onnxscript that are in requirements/demo.txt.",
        )
    path.write_bytes(model.SerializeToString(deterministic=True))
    parameters = sum(int(np.prod(tensor.dims)) for tensor in model.graph.initializer)
    return ExportedFacts(opset, model.ir_version, parameters)


def onnx_logits(path: Path, inputs: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """[n, 10] from ONNX Runtime on the CPU, one image at a time. inputs: float32 [n, 1, H, W]."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    logits = [session.run([OUTPUT_NAME], {INPUT_NAME: image[np.newaxis]})[0] for image in inputs]
    return np.concatenate(logits)


def _leave_out_traces(model: Any) -> None:
    """Remove the exporter's notes: stack traces hold the paths of this machine, so that the same weights
    would give another file in another folder."""
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
        del part.metadata_props[:]
    for node in graph.node:
        node.doc_string = ""
