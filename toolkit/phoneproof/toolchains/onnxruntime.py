"""The ONNX Runtime toolchain: `python -m phoneproof.toolchains.onnxruntime REQUEST.json`.

Request (BuildRequest): recipe, options, source model, ranges. It writes `model.onnx` and `build.json` into
the request's `out`; result: `{"manifest": "build.json", "findings": [...]}`. The same request with the same
tool versions gives the same bytes.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from phoneproof.builds.manifest import FloatOperator, WideTensor
from phoneproof.errors import ProtocolError, ToolchainError, said
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import Progress, run_worker
from phoneproof.quantize.onnx_graph import keep_used_domains, order_parts, prepare
from phoneproof.quantize.ranges import Ranges
from phoneproof.recipes.table import Mode, Recipe, RecipeOptions
from phoneproof.recipes.toolchain_table import TOOLCHAINS, installed_versions, version_findings
from phoneproof.sources.onnx_model import OnnxSource, load_source
from phoneproof.sources.onnx_versions import floor_of, within_target
from phoneproof.sources.request import OnnxSourceRequest
from phoneproof.toolchains.onnx_exclusions import exclusions
from phoneproof.toolchains.onnx_io import with_int8_io
from phoneproof.toolchains.onnx_operators import count_float_build, count_quantized_build
from phoneproof.toolchains.onnx_quantizers import quantized_dynamically, quantized_statically
from phoneproof.toolchains.request import ranges_of, read_request
from phoneproof.toolchains.result import Made, finish, widest

TOOLCHAIN: Final = TOOLCHAINS["onnxruntime"]
MODEL_FILE: Final = "model.onnx"

_VENDOR_METADATA: Final = frozenset({"onnx.infer", "onnx.quant.pre_process"})
_FLOAT_TYPES: Final = frozenset({onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE})


@dataclass(frozen=True)
class _Converted:
    model: Any
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    operators: Mapping[str, int]
    float_operators: tuple[FloatOperator, ...] = ()
    kept_in_int8: tuple[str, ...] = ()


def build(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Make one build. Raises RecipeError, SourceModelError, ProtocolError and ToolchainError."""
    wanted, recipe = read_request(request, TOOLCHAIN)
    findings = version_findings(TOOLCHAIN, installed_versions(TOOLCHAIN))
    if not isinstance(wanted.source, OnnxSourceRequest):
        raise ProtocolError(f"{TOOLCHAIN.name} converts ONNX models.", where="$.source.format")
    ranges = ranges_of(wanted) if recipe.needs_calibration else None
    progress.say("load")
    source = load_source(wanted.source)
    progress.say("convert")
    converted = _convert(source, recipe, wanted.options, ranges)
    _finish(converted.model, wanted.metadata)
    progress.say("check")
    _validate(converted, source, recipe)
    out = folder / wanted.out
    out.mkdir(parents=True, exist_ok=True)
    (out / MODEL_FILE).write_bytes(converted.model.SerializeToString(deterministic=True))
    made = Made(
        MODEL_FILE,
        converted.inputs,
        converted.outputs,
        converted.operators,
        converted.float_operators,
        converted.kept_in_int8,
        floor=floor_of(converted.model),
        wide_tensors=_wide_tensors(converted.model) if recipe.is_quantized else (),
    )
    return finish(made, wanted, recipe, TOOLCHAIN, folder, findings)


def _convert(source: OnnxSource, recipe: Recipe, options: RecipeOptions, ranges: Ranges | None) -> _Converted:
    if recipe.mode is Mode.NONE:
        model = within_target(source.model, str(source.path))
        return _Converted(model, source.inputs, source.outputs, count_float_build(model))
    graph = prepare(source)
    excluded = exclusions(graph, source.model, options, recipe)
    if ranges is None:
        model = quantized_dynamically(graph, options.per_channel, excluded.all)
    else:
        model = quantized_statically(graph, ranges, recipe.representation, options.per_channel, excluded.all)
    model.ir_version = graph.model.ir_version
    operators = count_quantized_build(model, graph, excluded, recipe)
    if not operators.counts.get("int8"):
        raise ToolchainError(
            f"{recipe.name} left every operator in float.",
            where=str(source.path),
            next_step="Check keep_float_names and keep_float_types; a model without convolutions or matrix "
            "products has nothing to quantize, and inside branches (If, Loop, Scan) nothing is quantized: "
            "export the one that the app takes.",
            operators=len(operators.left),
        )
    inputs, outputs = source.inputs, source.outputs
    if options.io == "int8":
        inputs, outputs = with_int8_io(model, inputs, outputs)
    return _Converted(model, inputs, outputs, operators.counts, operators.left, operators.kept_in_int8)


def _finish(model: Any, embedded: Mapping[str, str]) -> None:
    """Metadata, versions and order of parts: all that makes the bytes depend on nothing but the request."""
    kept = {p.key: p.value for p in model.metadata_props if p.key not in _VENDOR_METADATA}
    del model.metadata_props[:]
    for key, value in sorted({**kept, **embedded}.items()):
        model.metadata_props.add(key=key, value=value)
    keep_used_domains(model)
    order_parts(model)


def _validate(converted: _Converted, source: OnnxSource, recipe: Recipe) -> None:
    """The checker accepts the model, ONNX Runtime loads it, and one random input gives finite outputs."""
    feed = {spec.name: _random(spec, index) for index, spec in enumerate(converted.inputs)}
    try:
        onnx.checker.check_model(converted.model)
        outputs = _run(converted.model, feed)
    except Exception as error:  # ONNX's and ONNX Runtime's exceptions have no common base class
        advice = "Leave the operator it names in float with keep_float_names."
        if recipe.mode is Mode.NONE:
            advice = "Check that the source model runs in ONNX Runtime on this machine."
        raise ToolchainError(
            f"The converted model does not load or run in ONNX Runtime: {said(error)}.",
            where=str(source.path),
            next_step=advice,
        ) from error
    for spec, value in zip(converted.outputs, outputs, strict=True):
        if value.dtype.name != spec.dtype or value.shape != spec.shape:
            raise ToolchainError(
                f"The converted model's output {spec.name!r} is {value.dtype.name} {value.shape}, "
                f"not {spec.dtype} {spec.shape}.",
                where=str(source.path),
            )
        if not np.isfinite(value).all() and _source_is_finite(source):
            raise ToolchainError(
                f"The converted model's output {spec.name!r} is not finite.", where=str(source.path)
            )


def _source_is_finite(source: OnnxSource) -> bool:
    """Whether the source itself is finite on the random input: a model may be right to answer infinity."""
    feed = {spec.name: _random(spec, index) for index, spec in enumerate(source.inputs)}
    return all(bool(np.isfinite(value).all()) for value in _run(source.model, feed))


def _random(spec: TensorSpec, seed: int) -> Any:
    draw = np.random.default_rng(seed)
    if spec.dtype.startswith("float"):
        return draw.random(spec.shape).astype(spec.dtype)
    if spec.dtype == "int8":
        return draw.integers(-128, 128, spec.shape, dtype=np.int8)
    return np.zeros(spec.shape, spec.dtype)  # indices and masks, for which only zero is surely allowed


def _wide_tensors(model: Any) -> tuple[WideTensor, ...]:
    """Weights of a quantized model that are stored in float; scales are too small to be listed."""
    return widest(
        WideTensor(tensor.name, str(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)), size)
        for tensor in model.graph.initializer
        if tensor.data_type in _FLOAT_TYPES and (size := onnx.numpy_helper.to_array(tensor).nbytes)
    )


def _run(model: Any, feed: Mapping[str, Any]) -> list[Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, dict(feed)))


if __name__ == "__main__":
    sys.exit(run_worker(build))
