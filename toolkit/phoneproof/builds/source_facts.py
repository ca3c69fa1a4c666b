"""What a source model is, as its inspection found it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from phoneproof.protocol.job import FileRef
from phoneproof.protocol.tensors import TensorSpec

EXPORTED_FILE: Final = "model.pt2"
"""The exported program of a Python function, in the work folder of the inspection."""

ONE_FILE: Final = "model.onnx"
"""The model with its external data inside, in the work folder of the worker that wrote it."""


@dataclass(frozen=True)
class SourceFacts:
    """Facts of one source model.

    sha256: of its content, external data included. files: the model file first, then its external data,
    names relative to the model's folder. operators: number of nodes by operator type, subgraphs left out.
    parameters: elements of all weights. opset, ir: of an ONNX source, None for the others.
    exported: of a Python function, the program that its module was exported to, a file in the inspection's
    work folder: the reference runs it, and most toolchains convert it. None for the other formats.
    """

    sha256: str
    size_bytes: int
    files: tuple[FileRef, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    operators: Mapping[str, int]
    parameters: int
    opset: int | None = None
    ir: int | None = None
    exported: FileRef | None = None
