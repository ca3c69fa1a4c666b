"""The closed table of runtimes: what executes a build on the host, and in which environment it is found.

Light on purpose: planning and `doctor` read it without loading any runtime.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from phoneproof.recipes.table import SourceFormat

Fidelity = Literal["device", "reference"]


@dataclass(frozen=True)
class RuntimeRow:
    """One runtime.

    toolchain: in whose environment it is found. package: what executes. fidelity: `reference` for an
    interpreter that computes what a file says but not how a device does it: it has no speed.
    stand_in: the runtime that takes its place on a system where it does not exist.
    """

    name: str
    toolchain: str
    package: str
    fidelity: Fidelity = "device"
    stand_in: str | None = None


RUNTIMES: Final[Mapping[str, RuntimeRow]] = {
    row.name: row
    for row in (
        RuntimeRow("litert", "tflite", "ai-edge-litert"),
        RuntimeRow("coreml", "coreml", "coremltools", stand_in="mil_interpreter"),
        RuntimeRow("mil_interpreter", "coreml", "coremltools", fidelity="reference"),
        RuntimeRow("executorch", "executorch", "executorch"),
        RuntimeRow("onnxruntime", "onnxruntime", "onnxruntime"),
        RuntimeRow("torch_qnnpack", "torch-qnnpack", "torch"),
    )
}

READER_OF: Final[Mapping[SourceFormat, str]] = {
    SourceFormat.PYTORCH: "torch-qnnpack",
    SourceFormat.EXPORTED_PROGRAM: "torch-qnnpack",
    SourceFormat.KERAS: "tflite",
    SourceFormat.SAVEDMODEL: "tflite",
    SourceFormat.ONNX: "onnxruntime",
}
"""The toolchain whose environment can read a source model of each format, and run it as the reference."""

ONNX_EXPORTERS: Final[Mapping[SourceFormat, str]] = {
    SourceFormat.PYTORCH: "torch-onnx",
    SourceFormat.EXPORTED_PROGRAM: "torch-onnx",
    SourceFormat.KERAS: "tensorflow-onnx",
    SourceFormat.SAVEDMODEL: "tensorflow-onnx",
}
"""The toolchain that exports a source of each format to ONNX, for recipes that are reached through it."""


def runtime_on_host(name: str, platform: str = sys.platform) -> RuntimeRow:
    """The runtime that runs builds for `name` on a host of this platform: Core ML exists on macOS only."""
    row = RUNTIMES[name]
    if row.stand_in is not None and platform != "darwin":
        return RUNTIMES[row.stand_in]
    return row
