"""The Core ML toolchain: `python -m phoneproof.toolchains.coreml REQUEST.json`.

Request (BuildRequest): recipe, options, an exported program, and ranges for coreml-int8. It writes
`model.mlpackage` and `build.json` into the request's `out`; result: `{"manifest": "build.json",
"findings": [...]}`. The same request with the same tool versions gives the same bytes.
"""

import logging
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from phoneproof.builds.manifest import FloatOperator
from phoneproof.errors import ProtocolError
from phoneproof.protocol.work import Progress, run_worker
from phoneproof.quantize.torch_graph import PreparedProgram, kept_by_plan, prepare
from phoneproof.recipes.table import Mode, Precision, Recipe
from phoneproof.recipes.toolchain_table import TOOLCHAINS, installed_versions, version_findings
from phoneproof.sources.agreement import MOST_FLOAT_DB, Arrays, joined
from phoneproof.sources.exported_program import ExportedSource, load_program
from phoneproof.sources.request import ExportedProgramRequest
from phoneproof.sources.rounding import one_thread, step_db
from phoneproof.toolchains.coreml_check import Run, check_build, run_of, with_decoded_weights
from phoneproof.toolchains.coreml_compare import random_inputs
from phoneproof.toolchains.coreml_convert import convert, mark_origins
from phoneproof.toolchains.coreml_converted import Conversion, Converted
from phoneproof.toolchains.coreml_int8 import quantize_program
from phoneproof.toolchains.coreml_made import made_of, nothing_quantized
from phoneproof.toolchains.coreml_operators import left_in_float, sources_of
from phoneproof.toolchains.coreml_package import MODEL_FILE, write_package
from phoneproof.toolchains.coreml_target import deployment_target
from phoneproof.toolchains.coreml_weights import plan_weights, quantize_weights
from phoneproof.toolchains.mlpackage_file import operator_counts, read_mlpackage
from phoneproof.toolchains.request import BuildRequest, ranges_of, read_request
from phoneproof.toolchains.result import Made, finish

TOOLCHAIN: Final = TOOLCHAINS["coreml"]

_SAMPLES: Final = 2


@dataclass(frozen=True)
class _Task:
    """One build under way. kept: names of the prepared graph's nodes that the plan keeps in float."""

    source: ExportedSource
    prepared: PreparedProgram
    kept: frozenset[str]
    wanted: BuildRequest
    recipe: Recipe
    target: str
    path: Path

    def write(self, model: Any, path: Path | None = None) -> None:
        """Write coremltools' model as the build's package, or as another one."""
        description = f"{self.recipe.name}, made by phoneproof"
        write_package(model, path or self.path, description, self.wanted.metadata)

    def convert(self, program: Any) -> Converted:
        """Convert the source's program or what was made of it."""
        specs = (self.source.inputs, self.source.outputs)
        return convert(program, *specs, Conversion(self.recipe.precision, self.target))


@dataclass(frozen=True)
class _Written:
    """What became of the package: what it must compute, how near (see check_build), and what is in float."""

    run: Run
    samples: Sequence[Arrays]
    near: Precision | Sequence[float]
    left: tuple[FloatOperator, ...] = ()
    kept_in_int8: tuple[str, ...] = ()


def build(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Make one build. Raises RecipeError, SourceModelError, ProtocolError and ToolchainError."""
    logging.getLogger("coremltools").setLevel(logging.ERROR)
    wanted, recipe = read_request(request, TOOLCHAIN)
    findings = version_findings(TOOLCHAIN, installed_versions(TOOLCHAIN))
    if not isinstance(wanted.source, ExportedProgramRequest):
        raise ProtocolError(f"{TOOLCHAIN.name} converts exported programs.", where="$.source.format")
    target = deployment_target(recipe, wanted.options)
    progress.say("load")
    source = load_program(wanted.source)
    mark_origins(source.program)
    prepared = prepare(source.program)
    kept = kept_by_plan(prepared, wanted.options)
    out = folder / wanted.out
    out.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(out / MODEL_FILE, ignore_errors=True)
    progress.say("convert")
    task = _Task(source, prepared, kept, wanted, recipe, target, out / MODEL_FILE)
    written = _WRITERS[recipe.mode](task)
    progress.say("check")
    return finish(_checked(task, written), wanted, recipe, TOOLCHAIN, folder, findings)


def _write_float(task: _Task) -> _Written:
    task.write(task.convert(task.source.program).model)
    run = run_of(task.source.program)
    return _Written(run, random_inputs(task.source.inputs, run), task.recipe.precision)


def _write_int8_weights(task: _Task) -> _Written:
    converted = task.convert(task.source.program)
    per_channel = task.wanted.options.per_channel
    plan = plan_weights(converted, sources_of(converted.origins, task.prepared), task.kept, per_channel)
    if not plan.quantized:
        raise nothing_quantized(task.recipe, task.source.path)
    task.write(quantize_weights(converted, plan, per_channel))
    with TemporaryDirectory() as folder:
        wide = Path(folder) / MODEL_FILE
        task.write(converted.model, wide)
        inputs = tuple(feature.name for feature in read_mlpackage(wide).inputs)
        run = with_decoded_weights(wide, task.path, plan.quantized, inputs)
    samples = random_inputs(task.source.inputs, run_of(task.source.program))
    return _Written(run, samples, [MOST_FLOAT_DB] * len(task.source.outputs), plan.left)


def _write_int8(task: _Task) -> _Written:
    ranges = ranges_of(task.wanted)
    per_channel = task.wanted.options.per_channel
    quantized = quantize_program(task.source, task.prepared, task.kept, ranges, per_channel)
    converted = task.convert(quantized.program)
    task.write(converted.model)
    file = read_mlpackage(task.path)
    if "int8" not in operator_counts(file):
        raise nothing_quantized(task.recipe, task.source.path)
    sources = sources_of(converted.origins, task.prepared)
    found = left_in_float(file.operators, sources, task.kept, quantized.unsafe, quantized.fed_by_int8)
    run, samples = run_of(quantized.program), _calibration(task)
    with one_thread():
        near = step_db(run, samples, joined(run, samples))
    return _Written(run, samples, near, found.left, found.kept_in_int8)


def _calibration(task: _Task) -> list[Arrays]:
    """The first samples of the calibration set, whose ranges the build has."""
    if task.wanted.samples is None:
        return random_inputs(task.source.inputs, run_of(task.source.program))
    first = islice(task.wanted.samples.read(task.source.inputs), _SAMPLES)
    return [[np.array(sample[spec.name]) for spec in task.source.inputs] for sample in first]


_WRITERS: Final[Mapping[Mode, Callable[[_Task], _Written]]] = {
    Mode.NONE: _write_float,
    Mode.WEIGHT_ONLY: _write_int8_weights,
    Mode.STATIC: _write_int8,
}


def _checked(task: _Task, written: _Written) -> Made:
    """The facts of the package, once it has given what it must."""
    source = task.source
    made = made_of(task.path, source, task.recipe, written.left, written.kept_in_int8)
    check_build(task.path, written.run, written.samples, made.inputs, made.outputs, written.near)
    return made


if __name__ == "__main__":
    sys.exit(run_worker(build))
