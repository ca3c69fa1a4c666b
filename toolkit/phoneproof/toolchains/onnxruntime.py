"""The ONNX Runtime toolchain: `python -m phoneproof.toolchains.onnxruntime REQUEST.json`.

Request (BuildRequest): recipe, options, source model, ranges. It writes `model.onnx` and `build.json` into
the request's `out`; result: `{"manifest": "build.json", "findings": [...]}`. The same request with the same
tool versions gives the same bytes.
"""

import hashlib
import json
import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from phoneproof.builds.manifest import MANIFEST_FILE, MANIFEST_VERSION, BuildManifest, FloatOperator
from phoneproof.errors import ProtocolError, RecipeError, ToolchainError, said
from phoneproof.findings import Finding
from phoneproof.protocol.codec import from_dict, to_dict
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import Progress, run_worker, write_atomically
from phoneproof.quantize.onnx_graph import keep_used_domains, order_parts, prepare
from phoneproof.quantize.ranges import Ranges, read_ranges
from phoneproof.recipes.table import Method, Mode, Recipe, RecipeOptions, Representation, recipe_named
from phoneproof.recipes.toolchain_table import TOOLCHAINS, installed_versions, version_findings
from phoneproof.sources.onnx_model import OnnxSource, OnnxSourceRequest, load_source
from phoneproof.sources.onnx_versions import floor_of, within_target
from phoneproof.toolchains.onnx_exclusions import exclusions
from phoneproof.toolchains.onnx_io import with_int8_io
from phoneproof.toolchains.onnx_operators import count_float_build, count_quantized_build
from phoneproof.toolchains.onnx_quantizers import quantized_dynamically, quantized_statically

TOOLCHAIN: Final = TOOLCHAINS["onnxruntime"]
MODEL_FILE: Final = "model.onnx"

_VENDOR_METADATA: Final = frozenset({"onnx.infer", "onnx.quant.pre_process"})
_TOOLS: Final = ("onnx", "onnxruntime", "numpy", "protobuf")


@dataclass(frozen=True)
class BuildRequest:
    """One build to make.

    source_sha256: of the model as the plan names it, for the manifest. ranges: path of a ranges.json; needed
    by static recipes, None for the others. calibration_sha256: of the calibration set, with `ranges`.
    metadata: embedded in the model. out: folder to write into, relative to the request's; made if absent.
    """

    recipe: str
    source: OnnxSourceRequest
    source_sha256: str
    out: str
    options: RecipeOptions = field(default_factory=RecipeOptions)
    ranges: str | None = None
    calibration_sha256: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


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
    wanted = from_dict(BuildRequest, request)
    findings = list(version_findings(TOOLCHAIN, installed_versions(TOOLCHAIN)))
    recipe = recipe_named(wanted.recipe)
    check_options(recipe, wanted.options)
    ranges = _ranges(recipe, wanted)
    progress.say("load")
    source = load_source(wanted.source)
    progress.say("convert")
    converted = _convert(source, recipe, wanted.options, ranges)
    _finish(converted.model, wanted.metadata)
    progress.say("check")
    _validate(converted, source, recipe)
    out = folder / wanted.out
    out.mkdir(parents=True, exist_ok=True)
    content = converted.model.SerializeToString(deterministic=True)
    (out / MODEL_FILE).write_bytes(content)
    manifest = _manifest(converted, wanted, recipe, content)
    write_atomically(out / MANIFEST_FILE, json.dumps(to_dict(manifest), allow_nan=False, indent=1) + "\n")
    findings.extend(_operator_findings(recipe, converted))
    return {"manifest": MANIFEST_FILE, "findings": [to_dict(finding) for finding in findings]}


def check_options(recipe: Recipe, options: RecipeOptions) -> None:
    """RecipeError for an option that means nothing for the recipe, rather than ignoring it."""
    if options.io not in {"float32", "int8"}:
        raise RecipeError(
            f"There is no io {options.io[:40]!r}.", where="io", next_step="Use float32 or int8."
        )
    if options.io == "int8" and recipe.representation is not Representation.QDQ:
        raise RecipeError(
            f"{recipe.name} has no int8 inputs and outputs.",
            where="io",
            next_step="Use the recipe onnx-int8 (onnx-int8-qoperator computes in uint8).",
        )
    if recipe.mode is Mode.NONE and (options.keep_float_names or options.keep_float_types):
        raise RecipeError(
            f"{recipe.name} quantizes nothing, so nothing can be kept in float.",
            where="keep_float_names" if options.keep_float_names else "keep_float_types",
            next_step="Leave the option out.",
        )


def _ranges(recipe: Recipe, wanted: BuildRequest) -> Ranges | None:
    if not recipe.needs_calibration:
        if wanted.ranges is not None or wanted.calibration_sha256 is not None:
            raise ProtocolError(f"{recipe.name} uses no calibration set.", where="$.ranges")
        return None
    if wanted.ranges is None:
        raise ProtocolError(f"{recipe.name} needs ranges.", where="$.ranges")
    ranges = read_ranges(Path(wanted.ranges))
    percentile = wanted.options.percentile if wanted.options.method is Method.PERCENTILE else None
    asked = (wanted.options.method, percentile, wanted.calibration_sha256)
    if asked != (ranges.method, ranges.percentile, ranges.calibration_sha256):
        raise ProtocolError("The ranges were made by another method or calibration set.", where="$.ranges")
    return ranges


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
            "products has nothing to quantize.",
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


def _run(model: Any, feed: Mapping[str, Any]) -> list[Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, dict(feed)))


def _manifest(converted: _Converted, wanted: BuildRequest, recipe: Recipe, content: bytes) -> BuildManifest:
    return BuildManifest(
        version=MANIFEST_VERSION,
        recipe=recipe.name,
        options=wanted.options,
        format=recipe.format.value,
        model_file=MODEL_FILE,
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        source_sha256=wanted.source_sha256,
        calibration_sha256=wanted.calibration_sha256,
        inputs=converted.inputs,
        outputs=converted.outputs,
        operators=converted.operators,
        float_operators=converted.float_operators,
        floor=floor_of(converted.model),
        tool_versions={name: metadata.version(name) for name in _TOOLS}
        | {"python": platform.python_version()},
        toolchain=TOOLCHAIN.name,
        toolchain_revision=TOOLCHAIN.revision,
    )


def _operator_findings(recipe: Recipe, converted: _Converted) -> Iterator[Finding]:
    left = converted.float_operators
    if left:
        reasons = tuple(sorted({operator.reason for operator in left}))
        names = tuple(operator.name for operator in left[:20])
        yield Finding.of(
            "BUILD-FLOAT-OPERATORS", recipe.name, count=len(left), reasons=reasons, operators=names
        )
    if converted.kept_in_int8:
        yield Finding.of("BUILD-KEPT-IN-INT8", recipe.name, operators=converted.kept_in_int8)


if __name__ == "__main__":
    sys.exit(run_worker(build))
