"""The toolchain for PyTorch programs to TFLite: `python -m phoneproof.toolchains.litert_torch REQUEST.json`.

Request (BuildRequest): recipe, options, exported program, and for static recipes the samples, of which this
worker makes the ranges itself. It writes `model.tflite` and `build.json` into the request's `out`; result:
`{"manifest": "build.json", "findings": [...]}`. Inputs and outputs keep the source's names and layouts. The
same request with the same tool versions gives the same bytes.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from phoneproof.builds.manifest import FloatOperator, FloatReason
from phoneproof.errors import ProtocolError, RecipeError, ToolchainError
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import Progress, run_worker
from phoneproof.quantize.observe_litert import observe_litert
from phoneproof.quantize.ranges import range_of
from phoneproof.recipes.selection import refuse_unknown, wish
from phoneproof.recipes.table import Precision, Recipe, RecipeOptions, TargetFloor
from phoneproof.recipes.toolchain_table import TOOLCHAINS, installed_versions, version_findings
from phoneproof.sources.exported_program import ExportedSource, load_program
from phoneproof.sources.request import ExportedProgramRequest
from phoneproof.toolchains.litert_torch_check import refuse_wrong
from phoneproof.toolchains.litert_torch_convert import TorchOrigins, convert_program, label
from phoneproof.toolchains.litert_torch_quantize import quantized
from phoneproof.toolchains.request import BuildRequest, read_request
from phoneproof.toolchains.result import Made, finish
from phoneproof.toolchains.tflite_checks import refuse_target
from phoneproof.toolchains.tflite_file import (
    MOVING_TYPES,
    TfliteFile,
    TfliteOperator,
    compute_dtype,
    counted_operators,
    operator_counts,
    read_tflite,
    tensor_specs,
    wide_tensors,
)
from phoneproof.toolchains.tflite_float import refuse_float
from phoneproof.toolchains.tflite_metadata import LEAST_RUNTIME, with_metadata

TOOLCHAIN: Final = TOOLCHAINS["litert-torch"]
MODEL_FILE: Final = "model.tflite"
_NOTHING_TO_QUANTIZE: Final = "a model without convolutions or matrix products has nothing to quantize."

Ranges = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class _Float:
    """The float conversion that every recipe begins with. kept: its operators that stay in float."""

    path: Path
    content: bytes
    file: TfliteFile
    origins: TorchOrigins
    kept: tuple[TfliteOperator, ...]


def build(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Make one build. Raises RecipeError, SourceModelError, DataError, ProtocolError and ToolchainError."""
    wanted, recipe = read_request(request, TOOLCHAIN)
    findings = version_findings(TOOLCHAIN, installed_versions(TOOLCHAIN))
    if not isinstance(wanted.source, ExportedProgramRequest):
        raise ProtocolError(f"{TOOLCHAIN.name} converts exported programs.", where="$.source.format")
    progress.say("load")
    source = load_program(wanted.source)
    progress.say("convert")
    plain = _float(source, wanted.options, folder)
    content, without = plain.content, frozenset[str]()
    if recipe.precision is not Precision.FLOAT32:
        ranges = _ranges(plain, source, wanted, progress) if recipe.needs_calibration else None
        progress.say("quantize")
        content = quantized(content, recipe, wanted.options, ranges, plain.kept, str(source.path))
        # The quantizer leaves the float file's word there, which is not true of the operators it puts in.
        without = frozenset({LEAST_RUNTIME})
    progress.say("check")
    path = folder / wanted.out / MODEL_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(with_metadata(content, wanted.metadata, without))
    made = _made(read_tflite(path), plain, source, recipe, wanted.options)
    refuse_wrong(path, source, recipe, made.inputs, made.outputs, plain.path)
    return finish(made, wanted, recipe, TOOLCHAIN, folder, findings)


def _float(source: ExportedSource, options: RecipeOptions, folder: Path) -> _Float:
    origins = TorchOrigins.of(source.program)
    every = origins.operators.values()
    refuse_unknown(
        {name for one in every for name in one.names}, {kind for one in every for kind in one.types}, options
    )
    content = convert_program(source)
    path = folder / "float.tflite"
    path.write_bytes(content)
    file = read_tflite(path)
    _refuse_other_names(file, source)
    return _Float(path, content, file, origins, tuple(_kept(file, origins, options)))


def _kept(file: TfliteFile, origins: TorchOrigins, options: RecipeOptions) -> Iterator[TfliteOperator]:
    """Operators that the plan leaves in float: one named part of a fused operator decides for all of it."""
    behind = origins.of_file(file.operators)
    for operator in file.operators:
        wishes = [wish(one.names, one.types, options) for one in behind[operator.name]]
        if True in wishes or (options.keep_float and False not in wishes):
            yield operator


def _ranges(plain: _Float, source: ExportedSource, wanted: BuildRequest, progress: Progress) -> Ranges:
    if wanted.samples is None:
        raise ProtocolError(f"{wanted.recipe} needs samples.", where="$.samples")
    histograms = observe_litert(
        plain.path,
        [spec.name for spec in source.inputs],
        wanted.samples.read(source.inputs),
        os.cpu_count() or 1,
        lambda done: progress.say("calibrate", done),
    )
    options = wanted.options
    return {name: range_of(one, options.method, options.percentile) for name, one in histograms.items()}


def _made(
    file: TfliteFile, plain: _Float, source: ExportedSource, recipe: Recipe, options: RecipeOptions
) -> Made:
    floor = _floor(file, options, str(source.path))
    behind = plain.origins.of_file(plain.file.operators)
    kept = {operator.name for operator in plain.kept}
    left: list[FloatOperator] = []
    in_int8: list[str] = []
    for operator in counted_operators(file):
        name = label(behind.get(operator.name, ()), operator.name)
        if compute_dtype(operator).startswith("float"):
            left.append(FloatOperator(name, operator.type, _reason(operator, kept)))
        elif operator.name in kept:
            in_int8.append(name)
    counts = operator_counts(file)
    if recipe.is_quantized:
        refuse_float(counts, left, recipe, str(source.path), _NOTHING_TO_QUANTIZE)
    inputs = tensor_specs(file.input_names, file.inputs)
    outputs = tensor_specs(file.output_names, file.outputs)
    _refuse_io((*inputs, *outputs), source, options)
    return Made(
        MODEL_FILE,
        inputs,
        outputs,
        counts,
        tuple(left) if recipe.is_quantized else (),
        tuple(in_int8) if recipe.is_quantized else (),
        floor=floor,
        wide_tensors=wide_tensors(file, recipe.precision) if recipe.is_quantized else (),
    )


def _floor(file: TfliteFile, options: RecipeOptions, place: str) -> TargetFloor:
    floor = TargetFloor(runtime_version=file.runtime_version)
    if floor.runtime_version is None and options.target.runtime_version is not None:
        raise RecipeError(
            "The LiteRT quantizer does not tell which version of TensorFlow Lite its builds need.",
            where=f"{place}: target: runtime_version",
            next_step="Leave the target out and run the build on the device.",
        )
    refuse_target(floor, options.target, place)
    return floor


def _reason(operator: TfliteOperator, kept: set[str]) -> FloatReason:
    if operator.name in kept:
        return "kept_by_plan"
    return "data_movement" if operator.type in MOVING_TYPES else "not_quantizable"


def _refuse_other_names(file: TfliteFile, source: ExportedSource) -> None:
    """ToolchainError where the converter dropped or merged inputs or outputs: binding would be a guess."""
    for role, made, wanted in (
        ("inputs", file.input_names, source.inputs),
        ("outputs", file.output_names, source.outputs),
    ):
        names = tuple(spec.name for spec in wanted)
        if made != names:
            raise ToolchainError(
                f"The converted model has the {role} {', '.join(made)}; the program has {', '.join(names)}.",
                where=str(source.path),
                next_step="Use every input, and give every output once, as a value that the model computes.",
            )


def _refuse_io(made: tuple[TensorSpec, ...], source: ExportedSource, options: RecipeOptions) -> None:
    narrow = {"int64": "int32", "float64": "float32"}
    for spec, given in zip(made, (*source.inputs, *source.outputs), strict=True):
        usual = narrow.get(given.dtype, given.dtype)
        wanted = options.io if usual.startswith("float") else usual
        if spec.dtype != wanted or spec.shape != given.shape:
            raise ToolchainError(
                f"The converted model's tensor {spec.name!r} is {spec.dtype} {list(spec.shape)}, "
                f"not {wanted} {list(given.shape)}.",
                where=str(source.path),
                next_step="This is a fault of the converter: try another version of it.",
            )


if __name__ == "__main__":
    sys.exit(run_worker(build))
