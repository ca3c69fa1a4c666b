"""Inspects a build made elsewhere: `python -m phoneproof.toolchains.inspect_build REQUEST.json`.

Request (InspectionRequest): the file and the source model that it stands for. It writes the file, unchanged,
and `build.json` into the request's `out`; result: `{"manifest": "build.json", "findings": [...]}`. Nothing is
converted. The build is run once, on an input of our own: what does not load is an error here already.
"""

import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from phoneproof.builds.manifest import MANIFEST_FILE, BuildManifest
from phoneproof.builds.model_files import model_sha256
from phoneproof.errors import (
    BuildFileError,
    PhoneproofError,
    RecipeError,
    StorageError,
    UnsupportedOperatorError,
    said,
)
from phoneproof.findings import Finding
from phoneproof.protocol.codec import from_dict, to_dict
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import Progress, run_worker, write_atomically
from phoneproof.recipes.build_headers import read_build_header
from phoneproof.recipes.rows import FILE_RECIPES
from phoneproof.recipes.runtime_table import runtime_on_host
from phoneproof.recipes.table import Format, Precision, RecipeOptions
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.runtimes.registry import open_runtime
from phoneproof.runtimes.runtime import LoadRequest
from phoneproof.toolchains.build_names import OPEN, check_names, named
from phoneproof.toolchains.inspected import Inspected
from phoneproof.toolchains.result import Made, float_finding, manifest_of, not_delegated_finding


@dataclass(frozen=True)
class InspectionRequest:
    """file: the build. format: what the plan takes it for. names: build name to source name, from the plan.

    source_inputs, source_outputs: of the source model. out: folder to write into, relative to the request's.
    """

    file: str
    format: Format
    source_sha256: str
    source_inputs: tuple[TensorSpec, ...]
    source_outputs: tuple[TensorSpec, ...]
    out: str
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Row:
    toolchain: str
    runtime: str
    model_file: str
    inspector: str


_ROWS: Final[Mapping[Format, _Row]] = {
    Format.TFLITE: _Row("tflite", "litert", "model.tflite", "inspect_tflite"),
    Format.COREML: _Row("coreml", "coreml", "model.mlpackage", "inspect_mlpackage"),
    Format.EXECUTORCH: _Row("executorch", "executorch", "model.pte", "inspect_pte"),
    Format.ONNX: _Row("onnxruntime", "onnxruntime", "model.onnx", "inspect_onnx"),
}


def inspect_build(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Inspect one build.

    Raises BuildFileError, RecipeError and what its runtime raises; StorageError where the file changes
    while it is read.
    """
    wanted = from_dict(InspectionRequest, request)
    path, row = Path(wanted.file), _ROWS[_format(wanted)]
    progress.say("read")
    out = folder / wanted.out
    out.mkdir(parents=True, exist_ok=True)
    _copy(path, out / row.model_file)
    try:
        found = _inspector(row)(out / row.model_file)
        progress.say("check")
        manifest = _manifest(wanted, row, found, out / row.model_file)
    except PhoneproofError as error:
        raise _of_the_file(error, out / row.model_file, path) from error
    write_atomically(out / MANIFEST_FILE, json.dumps(to_dict(manifest), allow_nan=False, indent=1) + "\n")
    is_quantized = found.precision in (Precision.INT8, Precision.INT16X8)
    findings: list[Finding] = []
    if is_quantized and found.float_operators:
        findings.append(float_finding(manifest.recipe, found.float_operators))
    if found.not_delegated:
        findings.append(not_delegated_finding(manifest.recipe, found.not_delegated))
    return {"manifest": MANIFEST_FILE, "findings": [to_dict(finding) for finding in findings]}


def _format(wanted: InspectionRequest) -> Format:
    found = read_build_header(Path(wanted.file))
    if found is not wanted.format:
        raise BuildFileError(
            f"The build is {found.value}, not {wanted.format.value}.",
            where=wanted.file,
            next_step="Correct the path of the build.",
        )
    return found


def _copy(path: Path, target: Path) -> None:
    """The file or folder, byte for byte. BuildFileError for links, which may lead out of the package."""
    if path.is_dir():
        if any(one.is_symlink() for one in path.rglob("*")):
            raise BuildFileError(
                "The package has symbolic links.",
                where=str(path),
                next_step="Copy it with its links followed (cp -rL).",
            )
        shutil.copytree(path, target)
    else:
        shutil.copyfile(path, target)
    if model_sha256(path) != model_sha256(target):
        raise StorageError(
            "The build changed while it was read.", where=str(path), next_step="Start the command again."
        )


def _of_the_file(error: PhoneproofError, copy: Path, path: Path) -> PhoneproofError:
    """The error as one of the user's file, a copy of which was read.

    To a runtime a package without its weights is a damaged store; here only this build is damaged, and the
    others of the plan go on.
    """
    kind = BuildFileError if isinstance(error, StorageError) else type(error)
    what, where = (text.replace(str(copy), str(path)) for text in (error.what, error.where or str(path)))
    return kind(what, where=where, next_step=error.next_step, **error.facts)


def _inspector(row: _Row) -> Callable[[Path], Inspected]:
    """Imported only here: each needs the packages of its own toolchain."""
    import importlib

    module = importlib.import_module(f"phoneproof.toolchains.{row.inspector}")
    inspector: Callable[[Path], Inspected] = getattr(module, row.inspector)
    return inspector


def _manifest(wanted: InspectionRequest, row: _Row, found: Inspected, model: Path) -> BuildManifest:
    toolchain = TOOLCHAINS[row.toolchain]
    check_names(
        wanted.names,
        (*found.inputs, *found.outputs),
        (*wanted.source_inputs, *wanted.source_outputs),
        wanted.file,
    )
    inputs = named(found.inputs, wanted.source_inputs, wanted.names, "input", wanted.file)
    given = _outputs_of_a_run(row, model, inputs.tensors, found, wanted.file)
    outputs = named(given, wanted.source_outputs, wanted.names, "output", wanted.file)
    made = Made(
        row.model_file,
        inputs.tensors,
        outputs.tensors,
        found.operators,
        found.float_operators,
        floor=found.floor,
        source_names=_joined(inputs.source_names, outputs.source_names, wanted.file),
        wide_tensors=found.wide_tensors,
        not_delegated=found.not_delegated,
    )
    recipe = replace(FILE_RECIPES[wanted.format], precision=found.precision)
    return manifest_of(made, recipe, toolchain, model.parent, wanted.source_sha256, RecipeOptions(), None)


def _joined(inputs: Mapping[str, str], outputs: Mapping[str, str], place: str) -> Mapping[str, str]:
    twice = sorted(name for name in inputs.keys() & outputs.keys() if inputs[name] != outputs[name])
    if twice:
        raise RecipeError(
            f"An input and an output of the build have the same name {twice[0]!r}.",
            where=place,
            next_step="Convert the model with names that differ.",
        )
    return {**inputs, **outputs}


def _outputs_of_a_run(
    row: _Row, model: Path, inputs: Sequence[TensorSpec], found: Inspected, place: str
) -> tuple[TensorSpec, ...]:
    """The outputs with the shapes that a run gives. The build is loaded and run once on the host.

    An ML program with operators that the interpreter does not know is not run, if all shapes are known
    without: its parity stays open, which is no fault of the build.
    """
    name = runtime_on_host(row.runtime).name
    try:
        values = _run(name, model, inputs)
    except UnsupportedOperatorError:
        is_open = bool(found.open_outputs) or any(OPEN in one.shape for one in found.outputs)
        if name != "mil_interpreter" or is_open:
            raise
        return found.outputs
    except PhoneproofError:
        raise
    except Exception as error:  # runtimes raise all kinds on damaged files
        raise BuildFileError(
            f"The build does not load or run in {name}: {said(error)}.",
            where=place,
            next_step="Check that it runs in its vendor's own tool.",
        ) from error
    if len(values) != len(found.outputs):
        raise BuildFileError(
            f"The build gave {len(values)} outputs and says that it has {len(found.outputs)}.",
            where=place,
            next_step="Convert the model again.",
        )
    for spec, value in zip(found.outputs, values, strict=True):
        if value.dtype.name != spec.dtype or not _admits(spec, value, found.open_outputs):
            raise BuildFileError(
                f"The build's output {spec.name!r} is {value.dtype.name} {list(value.shape)}, and the build "
                f"says {spec.dtype} {list(spec.shape)}.",
                where=place,
                next_step="Convert the model again.",
            )
    return tuple(replace(spec, shape=value.shape) for spec, value in zip(found.outputs, values, strict=True))


def _admits(spec: TensorSpec, value: NDArray[Any], open_outputs: frozenset[str]) -> bool:
    if spec.name in open_outputs:
        return True
    return len(spec.shape) == value.ndim and all(
        length in (OPEN, given) for length, given in zip(spec.shape, value.shape, strict=True)
    )


def _run(name: str, model: Path, inputs: Sequence[TensorSpec]) -> Sequence[NDArray[Any]]:
    request = LoadRequest(model=model, accelerator="cpu", allow_fallback=True, threads=1, options={})
    session = open_runtime(name).load(request)
    try:
        feed = {spec.name: np.zeros(spec.shape, spec.dtype) for spec in inputs}
        return list(session.prepare(feed)())
    finally:
        session.close()


if __name__ == "__main__":
    sys.exit(run_worker(inspect_build))
