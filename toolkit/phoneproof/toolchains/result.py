"""What every toolchain answers with: build.json beside the model, and what was found on the way."""

import json
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from phoneproof.builds.manifest import (
    MANIFEST_FILE,
    MANIFEST_VERSION,
    WIDE_LISTED,
    BuildManifest,
    FloatOperator,
    WideTensor,
)
from phoneproof.builds.model_files import folder_sha256, model_files
from phoneproof.errors import RecipeError
from phoneproof.findings import Finding
from phoneproof.protocol.codec import to_dict
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import write_atomically
from phoneproof.recipes.table import Recipe, RecipeOptions, TargetFloor
from phoneproof.recipes.target import shortfalls
from phoneproof.recipes.toolchain_table import Toolchain
from phoneproof.toolchains.request import BuildRequest


@dataclass(frozen=True)
class Made:
    """A model that a toolchain has written into the request's `out`, and its facts; see BuildManifest.

    model_file: name of the file or folder in `out`. kept_in_int8: operators that the plan keeps in float but
    that compute in int8 all the same.
    """

    model_file: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    operators: Mapping[str, int]
    float_operators: tuple[FloatOperator, ...] = ()
    kept_in_int8: tuple[str, ...] = ()
    floor: TargetFloor = field(default_factory=TargetFloor)
    source_names: Mapping[str, str] = field(default_factory=dict)
    wide_tensors: tuple[WideTensor, ...] = ()
    not_delegated: Mapping[str, int] | None = None


def finish(
    made: Made,
    wanted: BuildRequest,
    recipe: Recipe,
    toolchain: Toolchain,
    folder: Path,
    found: Iterable[Finding] = (),
) -> Mapping[str, Any]:
    """Write build.json into `folder`/out and give the worker's result.

    folder: of the request. found: what was found besides (TOOL-UNTESTED-VERSION).
    RecipeError as `refuse_above_target`.
    """
    refuse_above_target(made.floor, wanted.options.target, recipe.name)
    out = folder / wanted.out
    calibration = wanted.calibration_sha256
    manifest = manifest_of(made, recipe, toolchain, out, wanted.source_sha256, wanted.options, calibration)
    write_atomically(out / MANIFEST_FILE, json.dumps(to_dict(manifest), allow_nan=False, indent=1) + "\n")
    findings = [*found, *_operator_findings(recipe, made)]
    return {"manifest": MANIFEST_FILE, "findings": [to_dict(finding) for finding in findings]}


def refuse_above_target(floor: TargetFloor, target: TargetFloor, recipe: str) -> None:
    """RecipeError where a build needs more than the plan says that the device has.

    floor: what the build needs. Of the two, what is None says nothing.
    """
    for key, needs, has in shortfalls(floor, target):
        raise RecipeError(
            f"The build needs {_TARGET_KEYS[key]} {needs}, and the plan's target has {has}.",
            where=f"target: {key}",
            next_step="Raise the target, choose another recipe, or export the source for the older one.",
            recipe=recipe,
            needs=needs,
            target=has,
        )


_TARGET_KEYS: Final[Mapping[str, str]] = {
    "deployment_target": "a deployment target of",
    "onnx_opset": "ONNX opset",
    "onnx_ir": "ONNX IR version",
    "runtime_version": "the runtime's version",
}


def widest(tensors: Iterable[WideTensor]) -> tuple[WideTensor, ...]:
    """The tensors that a manifest lists, the largest first; those below 1 KiB are left out."""
    large = [tensor for tensor in tensors if tensor.size_bytes >= 1024]
    return tuple(sorted(large, key=lambda t: (-t.size_bytes, t.name))[:WIDE_LISTED])


def manifest_of(
    made: Made,
    recipe: Recipe,
    toolchain: Toolchain,
    out: Path,
    source_sha256: str,
    options: RecipeOptions,
    calibration_sha256: str | None,
) -> BuildManifest:
    """The manifest of a model that lies in `out`, whose files are hashed here."""
    path = out / made.model_file
    files = model_files(path)
    return BuildManifest(
        version=MANIFEST_VERSION,
        recipe=recipe.name,
        options=options,
        format=recipe.format.value,
        model_file=made.model_file,
        sha256=files[0].sha256 if path.is_file() else folder_sha256(files, path.name),
        size_bytes=sum(file.size_bytes for file in files),
        source_sha256=source_sha256,
        calibration_sha256=calibration_sha256,
        inputs=made.inputs,
        outputs=made.outputs,
        operators=made.operators,
        float_operators=made.float_operators,
        floor=made.floor,
        tool_versions=tool_versions(toolchain),
        toolchain=toolchain.name,
        toolchain_revision=toolchain.revision,
        precision=recipe.precision,
        files=() if path.is_file() else files,
        source_names=made.source_names,
        wide_tensors=made.wide_tensors,
        not_delegated=made.not_delegated,
    )


def tool_versions(toolchain: Toolchain) -> dict[str, str]:
    """Versions of all that decides the bytes of a build: the toolchain's pins as installed, numpy, Python."""
    names = dict.fromkeys((*toolchain.pinned, "numpy"))
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found | {"python": platform.python_version()}


def _operator_findings(recipe: Recipe, made: Made) -> Iterator[Finding]:
    if made.float_operators and recipe.is_quantized:
        yield float_finding(recipe.name, made.float_operators)
    if made.kept_in_int8:
        yield Finding.of("BUILD-KEPT-IN-INT8", recipe.name, operators=made.kept_in_int8)
    if made.not_delegated:
        yield not_delegated_finding(recipe.name, made.not_delegated)


def float_finding(recipe: str, left: Sequence[FloatOperator]) -> Finding:
    """BUILD-FLOAT-OPERATORS: operators that compute in float in a quantized build."""
    reasons = tuple(sorted({operator.reason for operator in left}))
    names = tuple(operator.name for operator in left[:20])
    return Finding.of("BUILD-FLOAT-OPERATORS", recipe, count=len(left), reasons=reasons, operators=names)


def not_delegated_finding(recipe: str, not_delegated: Mapping[str, int]) -> Finding:
    """BUILD-NOT-DELEGATED: number of operators by type that no delegate takes."""
    types = tuple(f"{kind}: {count}" for kind, count in sorted(not_delegated.items()))
    total = sum(not_delegated.values())
    return Finding.of("BUILD-NOT-DELEGATED", recipe, count=total, operators=types)
