"""What every export to ONNX ends with: names that are free, the check against its source, and the file."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import onnx

from phoneproof.errors import ToolchainError, said
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import write_bytes_atomically
from phoneproof.sources.agreement import FLOAT_LEAST_DB, Arrays, Network, disagreement

EXPORT_YOURSELF: Final = "Export the model to ONNX yourself and name that as the source model."


@dataclass(frozen=True)
class Exported:
    """What was exported. called: `program` or `source`, as errors call it. network: the same in its own form.

    inputs, outputs: of both, in the order in which the network takes and gives them.
    """

    called: str
    place: str
    network: Network
    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]


def refuse_wrong(content: bytes, exported: Exported) -> None:
    """ToolchainError for an ONNX model that is not valid, does not run, or computes something else."""
    try:
        onnx.checker.check_model(content)
        found = _network(content, exported)
        what = disagreement(exported.network, found, exported.inputs, FLOAT_LEAST_DB)
    except Exception as error:  # ONNX's and ONNX Runtime's exceptions have no common base class
        raise ToolchainError(
            f"The exported ONNX model does not load or run: {said(error)}.",
            where=exported.place,
            next_step=EXPORT_YOURSELF,
        ) from error
    if what is not None:
        raise ToolchainError(
            f"The ONNX model does not compute what the {exported.called} does: {what}.",
            where=exported.place,
            next_step=EXPORT_YOURSELF,
        )


def write_export(content: bytes, folder: Path, out: str) -> Mapping[str, Any]:
    """Write the model to `folder`/`out` and give the worker's result."""
    write_bytes_atomically(folder / out, content)
    return {"file": out, "sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}


def free_name(wanted: str, taken: set[str]) -> str:
    """`wanted`, or with a number behind it if it is taken; it is taken then."""
    name, number = wanted, 1
    while name in taken:
        name, number = f"{wanted}:{number}", number + 1
    taken.add(name)
    return name


def _network(content: bytes, exported: Exported) -> Network:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [spec.name for spec in exported.inputs]
    outputs = [spec.name for spec in exported.outputs]

    def run(inputs: Arrays) -> Arrays:
        return list(session.run(outputs, dict(zip(names, inputs, strict=True))))

    return run
