"""The ExecuTorch toolchain: `python -m phoneproof.toolchains.executorch REQUEST.json`.

Request (BuildRequest): recipe, options, an exported program, ranges of a static recipe. It writes `model.pte`
and `build.json` into the request's `out`; result: `{"manifest": "build.json", "findings": [...]}`. The same
request with the same tool versions gives the same bytes. Metadata is kept as methods that give text.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import torch

from phoneproof.builds.manifest import FloatOperator, WideTensor
from phoneproof.errors import ProtocolError, RecipeError, ToolchainError
from phoneproof.protocol.work import Progress, run_worker
from phoneproof.quantize.pt2e import quantized
from phoneproof.quantize.ranges import Ranges
from phoneproof.quantize.reexport import reexported
from phoneproof.quantize.torch_graph import kept_by_plan, prepare
from phoneproof.recipes.table import Mode, Recipe, RecipeOptions, TargetFloor
from phoneproof.recipes.toolchain_table import TOOLCHAINS, installed_versions, release, version_findings
from phoneproof.sources.exported_program import ExportedSource, load_program
from phoneproof.sources.request import ExportedProgramRequest
from phoneproof.toolchains.executorch_check import check_build
from phoneproof.toolchains.executorch_lowering import lowered, xnnpack_quantizer
from phoneproof.toolchains.pte_file import not_delegated, operator_counts, read_pte
from phoneproof.toolchains.request import ranges_of, read_request
from phoneproof.toolchains.result import Made, finish, widest
from phoneproof.toolchains.torch_operators import computed_in_int8, kept_in_int8, left_in_float

TOOLCHAIN: Final = TOOLCHAINS["executorch"]
MODEL_FILE: Final = "model.pte"


@dataclass(frozen=True)
class _Converted:
    """program: what is lowered. float_operators, kept_in_int8: of a quantized program, as in Made."""

    program: Any
    float_operators: tuple[FloatOperator, ...] = ()
    kept_in_int8: tuple[str, ...] = ()


def build(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Make one build. Raises RecipeError, SourceModelError, ProtocolError and ToolchainError."""
    wanted, recipe = read_request(request, TOOLCHAIN)
    findings = version_findings(TOOLCHAIN, installed_versions(TOOLCHAIN))
    if not isinstance(wanted.source, ExportedProgramRequest):
        raise ProtocolError(f"{TOOLCHAIN.name} converts exported programs.", where="$.source.format")
    floor = floor_within(wanted.options.target)
    ranges = ranges_of(wanted) if recipe.needs_calibration else None
    progress.say("load")
    source = load_program(wanted.source)
    progress.say("convert")
    converted = _converted(source, recipe, wanted.options, ranges)
    content = lowered(converted.program, wanted.metadata, str(source.path))
    out = folder / wanted.out
    out.mkdir(parents=True, exist_ok=True)
    (out / MODEL_FILE).write_bytes(content)
    progress.say("check")
    check_build(out / MODEL_FILE, source, converted.program, wanted)
    return finish(_made(out, source, recipe, converted, floor), wanted, recipe, TOOLCHAIN, folder, findings)


def floor_within(target: TargetFloor) -> TargetFloor:
    """The least runtime of a build made here. RecipeError if the plan's device has an older one.

    A .pte runs on the minor version that wrote it and on newer ones; older ones are not promised anything
    (runtime/COMPATIBILITY.md of ExecuTorch).
    """
    least = ".".join(str(part) for part in (*release(metadata.version("executorch")), 0, 0)[:2]) + ".0"
    if target.runtime_version is not None and release(target.runtime_version) < release(least):
        raise RecipeError(
            f"The build needs ExecuTorch {least} or newer, the device has {target.runtime_version}.",
            where="target.runtime_version",
            next_step=f"Use ExecuTorch {least} in the app, or make the build with the older executorch.",
        )
    return TargetFloor(runtime_version=least)


def _converted(
    source: ExportedSource, recipe: Recipe, options: RecipeOptions, ranges: Ranges | None
) -> _Converted:
    if recipe.mode is Mode.NONE:
        return _Converted(source.program)
    prepared = prepare(source.program)
    kept = kept_by_plan(prepared, options)
    quantizer = xnnpack_quantizer(options.per_channel, recipe.mode is Mode.DYNAMIC)
    result = quantized(prepared, quantizer, ranges, kept)
    if not result.integer:
        raise ToolchainError(
            f"{recipe.name} left every operator in float.",
            where=str(source.path),
            next_step="Check keep_float_names and keep_float_types; a program without convolutions and "
            "linear layers, or one decomposed before it was saved, has nothing to quantize.",
        )
    left = left_in_float(prepared, result, kept, recipe)
    joined = kept_in_int8(prepared, computed_in_int8(prepared, result, kept))
    return _Converted(reexported(result.graph, source), left, joined)


def _made(
    out: Path, source: ExportedSource, recipe: Recipe, converted: _Converted, floor: TargetFloor
) -> Made:
    file = read_pte(out / MODEL_FILE)
    return Made(
        MODEL_FILE,
        source.inputs,
        source.outputs,
        operator_counts(file),
        converted.float_operators,
        converted.kept_in_int8,
        floor=floor,
        wide_tensors=_wide_tensors(converted.program) if recipe.is_quantized else (),
        not_delegated=not_delegated(file),
    )


def _wide_tensors(program: Any) -> tuple[WideTensor, ...]:
    """Weights that are stored in float, by the names that the module gives them; the file has none."""
    stored = {**program.state_dict, **program.constants}
    used = {node.name for node in program.graph.nodes if node.users}
    inputs = program.graph_signature.input_specs
    targets = [one.target for one in inputs if one.target is not None and one.arg.name in used]
    return widest(
        WideTensor(name, str(stored[name].dtype).removeprefix("torch."), stored[name].nbytes)
        for name in targets
        if isinstance(stored.get(name), torch.Tensor) and stored[name].is_floating_point()
    )


if __name__ == "__main__":
    sys.exit(run_worker(build))
