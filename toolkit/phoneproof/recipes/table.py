"""The closed table of recipes: how a source model can be quantized.

A recipe is a row here and is never parsed out of its name. A row states which sources it takes, which
toolchain makes it, what runs it, and the target floor of the result.
"""

import difflib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from phoneproof.errors import RecipeError


class SourceFormat(StrEnum):
    """Form in which a source model comes."""

    ONNX = "onnx"


class Format(StrEnum):
    """File format of a build."""

    ONNX = "onnx"


class Precision(StrEnum):
    """Widest type in which the operators are meant to compute."""

    FLOAT32 = "float32"
    INT8 = "int8"


class Mode(StrEnum):
    """How activations get their ranges. `none` for float builds."""

    NONE = "none"
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
    """The least that a device must have. None where the format has no such thing."""

    onnx_opset: int | None = None
    onnx_ir: int | None = None
    runtime_version: str | None = None


@dataclass(frozen=True)
class Recipe:
    """One row. `toolchain` and `runtime` are names of modules in toolchains/ and runtimes/."""

    name: str
    format: Format
    precision: Precision
    mode: Mode
    representation: Representation
    toolchain: str
    runtime: str
    sources: frozenset[SourceFormat]
    floor: TargetFloor
    good_for: str

    @property
    def needs_calibration(self) -> bool:
        """Whether a calibration set decides the ranges of activations."""
        return self.mode is Mode.STATIC


@dataclass(frozen=True)
class RecipeOptions:
    """What a plan may set on a recipe.

    percentile: share of values inside the range, in percent; only with method percentile.
    io: dtype of the build's inputs and outputs; int8 removes the outer quantize and dequantize operators.
    keep_float_names / keep_float_types: operators left in float, by node name and by operator type.
    """

    method: Method = Method.MINMAX
    percentile: float = 99.999
    per_channel: bool = True
    io: str = "float32"
    keep_float_names: tuple[str, ...] = ()
    keep_float_types: tuple[str, ...] = ()


_ONNX: Final = frozenset({SourceFormat.ONNX})

RECIPES: Final[dict[str, Recipe]] = {
    row.name: row
    for row in (
        Recipe(
            "onnx-float32",
            Format.ONNX,
            Precision.FLOAT32,
            Mode.NONE,
            Representation.PLAIN,
            "onnxruntime",
            "onnxruntime",
            _ONNX,
            TargetFloor(onnx_opset=13, onnx_ir=7, runtime_version="1.17.0"),
            "The baseline of every ONNX build.",
        ),
        Recipe(
            "onnx-int8",
            Format.ONNX,
            Precision.INT8,
            Mode.STATIC,
            Representation.QDQ,
            "onnxruntime",
            "onnxruntime",
            _ONNX,
            TargetFloor(onnx_opset=13, onnx_ir=7, runtime_version="1.17.0"),
            "Vision models in ONNX Runtime: on CPUs (its own kernels, XNNPACK) and on NPUs (NNAPI, QNN).",
        ),
        Recipe(
            "onnx-int8-qoperator",
            Format.ONNX,
            Precision.INT8,
            Mode.STATIC,
            Representation.QOPERATOR,
            "onnxruntime",
            "onnxruntime",
            _ONNX,
            TargetFloor(onnx_opset=13, onnx_ir=7, runtime_version="1.17.0"),
            "Older ONNX Runtime versions on CPUs, where quantize and dequantize pairs are not fused.",
        ),
        Recipe(
            "onnx-int8-dynamic",
            Format.ONNX,
            Precision.INT8,
            Mode.DYNAMIC,
            Representation.QOPERATOR,
            "onnxruntime",
            "onnxruntime",
            _ONNX,
            TargetFloor(onnx_opset=13, onnx_ir=7, runtime_version="1.17.0"),
            "Text models, and models without calibration data.",
        ),
    )
}


def recipe_named(name: str, where: str | None = None) -> Recipe:
    """The row with exactly this name. RecipeError, with the nearest name, for any other."""
    if name in RECIPES:
        return RECIPES[name]
    near = difflib.get_close_matches(name, RECIPES, n=1, cutoff=0.5)
    advice = f"The nearest recipe is {near[0]!r}." if near else f"Recipes: {', '.join(RECIPES)}."
    raise RecipeError(f"There is no recipe {name[:80]!r}.", where=where, next_step=advice)
