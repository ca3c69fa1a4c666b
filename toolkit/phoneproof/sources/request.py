"""Which source model a worker's request names: a closed union, told apart by `format`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from phoneproof.protocol.tensors import TensorSpec


@dataclass(frozen=True)
class OnnxSourceRequest:
    """An ONNX model.

    sha256: what its inspection found when the work was planned; None checks nothing.
    shapes: input name to its shape, batch included; needed for each dynamic axis other than the first.
    """

    format: Literal["onnx"]
    path: str
    sha256: str | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class PytorchSourceRequest:
    """A Python function, called without arguments, that gives a torch.nn.Module.

    path: `module:function`. folder: where the module is looked for, first on the import path. state: file of
    a state dict (.pt read with weights_only, or .safetensors), loaded into the module strictly; None for the
    module as the function gives it. trust_pickle: whether a .pt may run code when it is read.
    inputs: in the order of the module's forward, with the names that the plan gives them. outputs: the
    plan's names for what forward gives, flattened in order; empty for output, or output_0, output_1 ...
    """

    format: Literal["pytorch"]
    path: str
    folder: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[str, ...] = ()
    state: str | None = None
    trust_pickle: bool = False
    sha256: str | None = None


@dataclass(frozen=True)
class ExportedProgramRequest:
    """A .pt2 file of torch.export. shapes as for ONNX; outputs: names, as for PyTorch."""

    format: Literal["exported_program"]
    path: str
    sha256: str | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    trust_pickle: bool = False


@dataclass(frozen=True)
class KerasSourceRequest:
    """A .keras file. trust_pickle: whether Lambda layers, which hold code, may be loaded."""

    format: Literal["keras"]
    path: str
    sha256: str | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    trust_pickle: bool = False


@dataclass(frozen=True)
class SavedModelRequest:
    """A TensorFlow SavedModel folder. signature: None for the only one, or serving_default."""

    format: Literal["savedmodel"]
    path: str
    sha256: str | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    signature: str | None = None


SourceRequest = (
    OnnxSourceRequest | PytorchSourceRequest | ExportedProgramRequest | KerasSourceRequest | SavedModelRequest
)
