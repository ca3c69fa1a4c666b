"""The toolchain for Keras models and SavedModels: `python -m phoneproof.toolchains.tflite REQUEST.json`.

Request (BuildRequest): recipe, options, source model, and for static recipes samples and ranges. It writes
`model.tflite` and `build.json` into the request's `out`; result: `{"manifest": "build.json", "findings":
[...]}`. The same request with the same tool versions gives the same bytes.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from phoneproof.builds.manifest import FloatOperator, FloatReason
from phoneproof.errors import ProtocolError, ToolchainError
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import Progress, run_worker
from phoneproof.recipes.table import Mode, Recipe, RecipeOptions, TargetFloor
from phoneproof.recipes.toolchain_table import TOOLCHAINS, installed_versions, version_findings
from phoneproof.sources.inspect_tensorflow import load_tensorflow
from phoneproof.sources.request import KerasSourceRequest, SavedModelRequest
from phoneproof.sources.tensorflow_graph import TensorflowSource
from phoneproof.toolchains.request import BuildRequest, ranges_of, read_request
from phoneproof.toolchains.result import Made, finish
from phoneproof.toolchains.tflite_checks import refuse_stateful, refuse_target, refuse_wrong
from phoneproof.toolchains.tflite_file import (
    MOVING_TYPES,
    TfliteFile,
    operator_counts,
    read_tflite,
    tensor_specs,
    wide_tensors,
)
from phoneproof.toolchains.tflite_float import refuse_float
from phoneproof.toolchains.tflite_names import NamedOperator, named_operators
from phoneproof.toolchains.tflite_quantize import Conversion, Quantized, convert
from phoneproof.toolchains.tflite_rewrite import finished

TOOLCHAIN: Final = TOOLCHAINS["tflite"]
MODEL_FILE: Final = "model.tflite"
_LEAST_WEIGHTS: Final = 1024
"""Elements below which the converter leaves weights as they are under dynamic quantization
(minimum_elements_for_weights in TensorFlow's quantization_config.h)."""
_SMALL_WEIGHTS: Final = "tflite-int8-dynamic leaves weights with fewer than 1,024 elements in float."

WITH_WEIGHTS: Final = frozenset(
    {"CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "CONV_3D", "FULLY_CONNECTED", "BATCH_MATMUL", "GATHER"}
    | {"EMBEDDING_LOOKUP", "UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN", "SVDF"}
)
"""Operators whose weights dynamic range quantization stores in int8, if they have 1,024 elements or more."""


def build(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Make one build. Raises RecipeError, SourceModelError, DataError, ProtocolError and ToolchainError."""
    wanted, recipe = read_request(request, TOOLCHAIN)
    findings = version_findings(TOOLCHAIN, installed_versions(TOOLCHAIN))
    if not isinstance(wanted.source, KerasSourceRequest | SavedModelRequest):
        raise ProtocolError(
            f"{TOOLCHAIN.name} converts Keras models and SavedModels.", where="$.source.format"
        )
    progress.say("load")
    source = load_tensorflow(wanted.source)
    progress.say("convert")
    quantized = convert(_conversion(wanted, recipe, source, folder))
    progress.say("check")
    path = folder / wanted.out / MODEL_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    operators = _named(quantized, source, folder)
    path.write_bytes(finished(quantized.content, source, wanted.metadata))
    kept = frozenset(operator.origin for operator in quantized.kept)
    made = _made(read_tflite(path), operators, kept, source, recipe, wanted.options)
    plain = None
    if quantized.plain is not None:
        plain = folder / "float32.tflite"
        plain.write_bytes(finished(quantized.plain, source, {}))
    refuse_wrong(path, source, recipe, made.inputs, made.outputs, plain)
    return finish(made, wanted, recipe, TOOLCHAIN, folder, findings)


def _conversion(wanted: BuildRequest, recipe: Recipe, source: TensorflowSource, folder: Path) -> Conversion:
    samples = wanted.samples
    return Conversion(
        source,
        recipe,
        wanted.options,
        ranges_of(wanted) if recipe.needs_calibration else None,
        None if samples is None else next(iter(samples.read(source.inputs)), None),
        folder,
    )


def _named(quantized: Quantized, source: TensorflowSource, folder: Path) -> tuple[NamedOperator, ...]:
    path = folder / "converted.tflite"
    path.write_bytes(quantized.content)
    file = read_tflite(path)
    refuse_stateful(file, str(source.path))
    return named_operators(file, source)


def _made(
    file: TfliteFile,
    operators: tuple[NamedOperator, ...],
    kept: frozenset[str],
    source: TensorflowSource,
    recipe: Recipe,
    options: RecipeOptions,
) -> Made:
    floor = TargetFloor(runtime_version=file.runtime_version)
    refuse_target(floor, options.target, str(source.path))
    counts = operator_counts(file)
    left: tuple[FloatOperator, ...] = ()
    in_int8: tuple[str, ...] = ()
    if recipe.is_quantized:
        left = tuple(_float_operators(operators, kept, recipe))
        in_int8 = _kept_in_int8(operators, kept, recipe)
        refuse_float(counts, left, recipe, str(source.path), _SMALL_WEIGHTS)
    inputs = tensor_specs(file.input_names, file.inputs)
    outputs = tensor_specs(file.output_names, file.outputs)
    _refuse_io(source, (*inputs, *outputs), options)
    return Made(
        MODEL_FILE,
        inputs,
        outputs,
        counts,
        left,
        in_int8,
        floor=floor,
        wide_tensors=wide_tensors(file, recipe.precision) if recipe.is_quantized else (),
    )


def _float_operators(
    operators: tuple[NamedOperator, ...], kept: frozenset[str], recipe: Recipe
) -> list[FloatOperator]:
    return [
        FloatOperator(operator.name, operator.type, _reason(operator, kept, recipe))
        for operator in operators
        if operator.computes.startswith("float")
    ]


def _reason(operator: NamedOperator, kept: frozenset[str], recipe: Recipe) -> FloatReason:
    if operator.origin in kept:
        return "kept_by_plan"
    if operator.type in MOVING_TYPES and operator.type not in WITH_WEIGHTS:
        return "data_movement"
    if recipe.mode is Mode.DYNAMIC and operator.type in WITH_WEIGHTS:
        return "too_small" if operator.weights < _LEAST_WEIGHTS else "unsupported_by_recipe"
    return "not_quantizable"


def _kept_in_int8(
    operators: tuple[NamedOperator, ...], kept: frozenset[str], recipe: Recipe
) -> tuple[str, ...]:
    quantized = (one for one in operators if not one.computes.startswith("float"))
    return tuple(one.name for one in quantized if one.origin in kept)


def _refuse_io(source: TensorflowSource, made: tuple[TensorSpec, ...], options: RecipeOptions) -> None:
    dtypes = {spec.name: spec.dtype for spec in (*source.inputs, *source.outputs)}
    for spec in made:
        wanted = options.io if dtypes[spec.name].startswith("float") else dtypes[spec.name]
        if spec.dtype != wanted:
            raise ToolchainError(
                f"The converted model's tensor {spec.name!r} is {spec.dtype}, not {wanted}.",
                where=str(source.path),
            )


if __name__ == "__main__":
    sys.exit(run_worker(build))
