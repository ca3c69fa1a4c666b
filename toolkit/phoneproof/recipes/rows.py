"""The rows of the table of recipes."""

import difflib
from collections.abc import Mapping
from typing import Final

from phoneproof.errors import RecipeError
from phoneproof.recipes.build_headers import SUFFIXES
from phoneproof.recipes.table import (
    SELECTION_OPTIONS,
    Format,
    Mode,
    Precision,
    Recipe,
    Representation,
    Route,
    SourceFormat,
    TargetFloor,
)

_ONNX: Final = {
    SourceFormat.ONNX: Route("onnxruntime"),
    SourceFormat.PYTORCH: Route("onnxruntime", SourceFormat.ONNX),
    SourceFormat.EXPORTED_PROGRAM: Route("onnxruntime", SourceFormat.ONNX),
    SourceFormat.KERAS: Route("onnxruntime", SourceFormat.ONNX),
    SourceFormat.SAVEDMODEL: Route("onnxruntime", SourceFormat.ONNX),
}
_TFLITE: Final = {
    SourceFormat.KERAS: Route("tflite"),
    SourceFormat.SAVEDMODEL: Route("tflite"),
    SourceFormat.PYTORCH: Route("litert-torch", SourceFormat.EXPORTED_PROGRAM),
    SourceFormat.EXPORTED_PROGRAM: Route("litert-torch"),
}
_COREML_INT8: Final = {
    SourceFormat.PYTORCH: Route("coreml", SourceFormat.EXPORTED_PROGRAM),
    SourceFormat.EXPORTED_PROGRAM: Route("coreml"),
}
_COREML: Final = {
    **_COREML_INT8,
    SourceFormat.KERAS: Route("tensorflow-coreml"),
    SourceFormat.SAVEDMODEL: Route("tensorflow-coreml"),
}
_EXECUTORCH: Final = {
    SourceFormat.PYTORCH: Route("executorch", SourceFormat.EXPORTED_PROGRAM),
    SourceFormat.EXPORTED_PROGRAM: Route("executorch"),
}
_QNNPACK: Final = {SourceFormat.PYTORCH: Route("torch-qnnpack")}

_ONNX_FLOOR: Final = TargetFloor(onnx_opset=13, onnx_ir=7, runtime_version="1.17.0")
_INT8_BAND: Final = (0.2, 0.35)
_FLOAT16_BAND: Final = (0.45, 0.6)
_FLOAT: Final = ("target",)
_WEIGHTS: Final = ("per_channel", *SELECTION_OPTIONS, "target")
_WITHOUT_TARGET: Final = ("method", "percentile", "per_channel", *SELECTION_OPTIONS)
_STATIC: Final = ("method", "percentile", *_WEIGHTS)
_WITH_IO: Final = ("io", *_STATIC)

RECIPES: Final[Mapping[str, Recipe]] = {
    row.name: row
    for row in (
        Recipe(
            "tflite-float32",
            Format.TFLITE,
            Precision.FLOAT32,
            Mode.NONE,
            Representation.PLAIN,
            "litert",
            _TFLITE,
            TargetFloor(),
            "The baseline of every TFLite build.",
            options=_FLOAT,
        ),
        Recipe(
            "tflite-float16",
            Format.TFLITE,
            Precision.FLOAT16,
            Mode.NONE,
            Representation.PLAIN,
            "litert",
            _TFLITE,
            TargetFloor(),
            "GPUs, which compute in float16; CPUs widen the weights again and gain no speed.",
            options=_FLOAT,
            size_band=_FLOAT16_BAND,
        ),
        Recipe(
            "tflite-int8-dynamic",
            Format.TFLITE,
            Precision.INT8,
            Mode.DYNAMIC,
            Representation.QOPERATOR,
            "litert",
            _TFLITE,
            TargetFloor(),
            "Text models on CPUs, and models without calibration data.",
            options=_WEIGHTS,
            size_band=_INT8_BAND,
        ),
        Recipe(
            "tflite-int8",
            Format.TFLITE,
            Precision.INT8,
            Mode.STATIC,
            Representation.QOPERATOR,
            "litert",
            _TFLITE,
            TargetFloor(),
            "Vision models on NPUs, DSPs (NNAPI, Hexagon) and CPUs: full integer, inputs and outputs too.",
            io=("int8",),
            options=(*_STATIC, "per_channel_dense"),
            size_band=_INT8_BAND,
        ),
        Recipe(
            "tflite-int16x8",
            Format.TFLITE,
            Precision.INT16X8,
            Mode.STATIC,
            Representation.QOPERATOR,
            "litert",
            _TFLITE,
            TargetFloor(),
            "Networks whose activations need more than 8 bits (audio, regression); slow on most CPUs.",
            options=("method", "percentile", "target"),
            size_band=_INT8_BAND,
        ),
        Recipe(
            "coreml-float32",
            Format.COREML,
            Precision.FLOAT32,
            Mode.NONE,
            Representation.PLAIN,
            "coreml",
            _COREML,
            TargetFloor(deployment_target="iOS15"),
            "The baseline of every Core ML build; keeps off the Neural Engine, which computes in float16.",
            options=_FLOAT,
        ),
        Recipe(
            "coreml-float16",
            Format.COREML,
            Precision.FLOAT16,
            Mode.NONE,
            Representation.PLAIN,
            "coreml",
            _COREML,
            TargetFloor(deployment_target="iOS15"),
            "GPU and Neural Engine: what Core ML runs at full speed.",
            options=_FLOAT,
            size_band=_FLOAT16_BAND,
        ),
        Recipe(
            "coreml-int8-weights",
            Format.COREML,
            Precision.INT8,
            Mode.WEIGHT_ONLY,
            Representation.QDQ,
            "coreml",
            _COREML,
            TargetFloor(deployment_target="iOS16"),
            "A quarter of the size on iPhones without calibration data; activations stay in float16.",
            options=_WEIGHTS,
            size_band=_INT8_BAND,
        ),
        Recipe(
            "coreml-int8",
            Format.COREML,
            Precision.INT8,
            Mode.STATIC,
            Representation.QDQ,
            "coreml",
            _COREML_INT8,
            TargetFloor(deployment_target="iOS17"),
            "Vision models on Neural Engines with int8 arithmetic (A17 Pro, M4 and newer).",
            options=_STATIC,
            size_band=_INT8_BAND,
        ),
        Recipe(
            "executorch-float32",
            Format.EXECUTORCH,
            Precision.FLOAT32,
            Mode.NONE,
            Representation.PLAIN,
            "executorch",
            _EXECUTORCH,
            TargetFloor(runtime_version="1.5.0"),
            "The baseline of every ExecuTorch build.",
            options=_FLOAT,
        ),
        Recipe(
            "executorch-int8",
            Format.EXECUTORCH,
            Precision.INT8,
            Mode.STATIC,
            Representation.QDQ,
            "executorch",
            _EXECUTORCH,
            TargetFloor(runtime_version="1.5.0"),
            "Vision models on phone CPUs (XNNPACK), Android and iOS alike.",
            options=_STATIC,
            size_band=_INT8_BAND,
        ),
        Recipe(
            "executorch-int8-dynamic",
            Format.EXECUTORCH,
            Precision.INT8,
            Mode.DYNAMIC,
            Representation.QDQ,
            "executorch",
            _EXECUTORCH,
            TargetFloor(runtime_version="1.5.0"),
            "Text models on phone CPUs, and models without calibration data: linear layers and pointwise "
            "convolutions are int8.",
            options=_WEIGHTS,
        ),
        Recipe(
            "onnx-float32",
            Format.ONNX,
            Precision.FLOAT32,
            Mode.NONE,
            Representation.PLAIN,
            "onnxruntime",
            _ONNX,
            _ONNX_FLOOR,
            "The baseline of every ONNX build.",
            options=_FLOAT,
        ),
        Recipe(
            "onnx-int8",
            Format.ONNX,
            Precision.INT8,
            Mode.STATIC,
            Representation.QDQ,
            "onnxruntime",
            _ONNX,
            _ONNX_FLOOR,
            "Vision models in ONNX Runtime: on CPUs (its own kernels, XNNPACK) and on NPUs (NNAPI, QNN).",
            io=("float32", "int8"),
            options=_WITH_IO,
            size_band=_INT8_BAND,
        ),
        Recipe(
            "onnx-int8-qoperator",
            Format.ONNX,
            Precision.INT8,
            Mode.STATIC,
            Representation.QOPERATOR,
            "onnxruntime",
            _ONNX,
            _ONNX_FLOOR,
            "Older ONNX Runtime versions on CPUs, where quantize and dequantize pairs are not fused.",
            options=_STATIC,
            size_band=_INT8_BAND,
        ),
        Recipe(
            "onnx-int8-dynamic",
            Format.ONNX,
            Precision.INT8,
            Mode.DYNAMIC,
            Representation.QOPERATOR,
            "onnxruntime",
            _ONNX,
            _ONNX_FLOOR,
            "Text models, and models without calibration data.",
            options=_WEIGHTS,
            size_band=_INT8_BAND,
        ),
        Recipe(
            "torch-qnnpack-int8",
            Format.TORCHSCRIPT,
            Precision.INT8,
            Mode.STATIC,
            Representation.QOPERATOR,
            "torch_qnnpack",
            _QNNPACK,
            TargetFloor(),
            "Looking at QNNPACK's arithmetic on the host; phones get these kernels inside XNNPACK "
            "(executorch-int8).",
            options=_WITHOUT_TARGET,
        ),
        Recipe(
            "torch-float32",
            Format.TORCHSCRIPT,
            Precision.FLOAT32,
            Mode.NONE,
            Representation.PLAIN,
            "torch_qnnpack",
            _QNNPACK,
            TargetFloor(),
            "The baseline of torch-qnnpack-int8.",
        ),
    )
}

BASELINE_RECIPES: Final[Mapping[Format, str]] = {
    Format.TFLITE: "tflite-float32",
    Format.COREML: "coreml-float32",
    Format.EXECUTORCH: "executorch-float32",
    Format.ONNX: "onnx-float32",
    Format.TORCHSCRIPT: "torch-float32",
}
"""The float recipe that builds of a format are compared with."""


def recipe_named(name: str, where: str | None = None) -> Recipe:
    """The row with exactly this name. RecipeError, with the nearest name, for any other."""
    if name in RECIPES:
        return RECIPES[name]
    near = difflib.get_close_matches(name, RECIPES, n=1, cutoff=0.5)
    advice = f"The nearest recipe is {near[0]!r}." if near else f"Recipes: {', '.join(RECIPES)}."
    raise RecipeError(f"There is no recipe {name[:80]!r}.", where=where, next_step=advice)


FILE_RECIPES: Final[Mapping[Format, Recipe]] = {
    format_: Recipe(
        f"{format_.value}-file",
        format_,
        Precision.FLOAT32,
        Mode.NONE,
        Representation.PLAIN,
        RECIPES[BASELINE_RECIPES[format_]].runtime,
        {},
        TargetFloor(),
        "A build that was made elsewhere; its precision is what its inspection finds.",
        io=(),
    )
    for format_ in SUFFIXES.values()
}
"""What stands for a recipe where a plan names a file; none of them is a recipe that can be asked for."""
