"""The closed table of recipes: how a source model can be quantized.

A recipe is a row of `rows.py` and is never parsed out of its name. A row states which sources it takes and by
which route, what runs the result, and the target floor.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class SourceFormat(StrEnum):
    """Form in which a source model comes.

    pytorch: a Python function that gives a torch.nn.Module. exported_program: a .pt2 file of torch.export.
    """

    PYTORCH = "pytorch"
    EXPORTED_PROGRAM = "exported_program"
    KERAS = "keras"
    SAVEDMODEL = "savedmodel"
    ONNX = "onnx"


class Format(StrEnum):
    """File format of a build."""

    TFLITE = "tflite"
    COREML = "coreml"
    EXECUTORCH = "executorch"
    ONNX = "onnx"
    TORCHSCRIPT = "torchscript"


class Precision(StrEnum):
    """Widest type in which the operators are meant to compute; int16x8: int16 activations, int8 weights."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    INT16X8 = "int16x8"
    INT8 = "int8"


class Mode(StrEnum):
    """How activations get their ranges. `none` for float builds, weight_only where they stay in float."""

    NONE = "none"
    WEIGHT_ONLY = "weight_only"
    STATIC = "static"
    DYNAMIC = "dynamic"


class Representation(StrEnum):
    """How quantization stands in the file."""

    PLAIN = "plain"
    QDQ = "qdq"
    QOPERATOR = "qoperator"


class Method(StrEnum):
    """Calibration method: how a range is chosen out of the values a tensor took."""

    MINMAX = "minmax"
    ENTROPY = "entropy"
    PERCENTILE = "percentile"


@dataclass(frozen=True)
class TargetFloor:
    """The least that a device must have, or what a plan says it has. None where it has no such thing.

    deployment_target: of Core ML, as coremltools writes it: iOS15 to iOS18. runtime_version: of the runtime
    that loads the build.
    """

    onnx_opset: int | None = None
    onnx_ir: int | None = None
    runtime_version: str | None = None
    deployment_target: str | None = None


@dataclass(frozen=True)
class Route:
    """How a source becomes a build: by a toolchain, out of the source itself or of an export of it.

    through: the form that the source is exported to first, once for all builds; None takes it as it is.
    """

    toolchain: str
    through: SourceFormat | None = None


@dataclass(frozen=True)
class Recipe:
    """One row.

    runtime: name of what runs the build on a device. routes: by source format; a format that is not there is
    refused. io: dtypes that the build's float inputs and outputs can have, the usual one first.
    options: names of the fields of RecipeOptions that mean something for it. size_band: least and greatest
    usual size as a share of the float32 build's, for networks whose weights are most of the file.
    """

    name: str
    format: Format
    precision: Precision
    mode: Mode
    representation: Representation
    runtime: str
    routes: Mapping[SourceFormat, Route]
    floor: TargetFloor
    good_for: str
    io: tuple[str, ...] = ("float32",)
    options: tuple[str, ...] = ()
    size_band: tuple[float, float] | None = None

    @property
    def needs_calibration(self) -> bool:
        """Whether a calibration set decides the ranges of activations."""
        return self.mode is Mode.STATIC

    @property
    def is_quantized(self) -> bool:
        """Whether weights are stored in int8."""
        return self.mode is not Mode.NONE


@dataclass(frozen=True)
class RecipeOptions:
    """What a plan may set on a recipe.

    percentile: share of values inside the range, in percent; only with method percentile.
    per_channel_dense: whether fully connected layers are per channel too (some NNAPI drivers refuse that).
    io: dtype of the build's float inputs and outputs; int8 removes the outer quantize and dequantize.
    keep_float: whether operators stay in float unless quantize_names or quantize_types name them.
    keep_float_names, keep_float_types: operators left in float, by name and by type; quantize_names,
    quantize_types: the opposite. A name counts before a type, a type before keep_float
    (recipes/selection.py).
    target: what the device has; a build that needs more is an error.
    """

    method: Method = Method.MINMAX
    percentile: float = 99.999
    per_channel: bool = True
    per_channel_dense: bool = True
    io: str = "float32"
    keep_float: bool = False
    keep_float_names: tuple[str, ...] = ()
    keep_float_types: tuple[str, ...] = ()
    quantize_names: tuple[str, ...] = ()
    quantize_types: tuple[str, ...] = ()
    target: TargetFloor = field(default_factory=TargetFloor)


SELECTION_OPTIONS: Final = (
    "keep_float",
    "keep_float_names",
    "keep_float_types",
    "quantize_names",
    "quantize_types",
)
"""Options that say which operators are quantized."""
