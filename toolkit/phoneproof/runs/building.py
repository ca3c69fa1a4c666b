"""The second stage: ranges by calibration, then one worker per build; what fails fails alone."""

import json
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from phoneproof.builds.manifest import MANIFEST_FILE, BuildManifest
from phoneproof.builds.source_facts import SourceFacts
from phoneproof.builds.store import cache_key, link_folder
from phoneproof.data.preprocessing import Preprocess
from phoneproof.devices.job_folder import sha256_of
from phoneproof.errors import BusyError, Interrupted, PhoneproofError, StorageError
from phoneproof.findings import Finding
from phoneproof.plan.model import Plan
from phoneproof.plan.sections import ModelSection
from phoneproof.protocol.codec import from_dict, to_dict
from phoneproof.recipes.table import Method, RecipeOptions
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.runs.audit import Audit, AuditedModel
from phoneproof.runs.planned import build_step, folder_name, ranges_step
from phoneproof.runs.steps import RunContext
from phoneproof.runs.wanted import WantedBuild, model_key, wanted_builds
from phoneproof.workers.environments import WorkerEnvironment, environment_of
from phoneproof.workers.worker import LOG_FILE

CALIBRATION_REVISION: Final = 1
"""Part of the key of ranges: raised when the same request would give other ranges."""

PARALLEL_BUILDS: Final = 2

FINDINGS_FILE: Final = "findings.json"
"""In a build's folder: what the toolchain found, which needs no making again when the build does not."""

STOPS_THE_RUN: Final = (Interrupted, StorageError, BusyError)
"""What is no fault of a build: the next one would meet it too, and the same command can go on after it."""


@dataclass(frozen=True)
class FinishedBuild:
    """A wanted build with what became of it: folder and manifest, or the error. cached: not made now."""

    wanted: WantedBuild
    folder: Path | None
    manifest: BuildManifest | None
    error: PhoneproofError | None
    cached: bool
    findings: tuple[Finding, ...] = ()

    @property
    def status(self) -> Literal["built", "failed"]:
        """Whether there is a build."""
        return "built" if self.manifest is not None else "failed"


def make_builds(context: RunContext, plan: Plan, audit: Audit) -> tuple[FinishedBuild, ...]:
    """Make every wanted build, some side by side; a build that fails does not stop the others."""
    wanted = wanted_builds(plan)
    ranges = _Ranges(context, plan, audit)
    ranges.make_all(wanted)
    with ThreadPoolExecutor(PARALLEL_BUILDS) as pool:
        futures = [pool.submit(_make, context, plan, audit, ranges, build) for build in wanted]
        return tuple(future.result() for future in futures)


def build_key(
    section: ModelSection,
    facts: SourceFacts,
    build: WantedBuild,
    calibration: str | None,
    versions: Mapping[str, str],
) -> str:
    """Cache key of a build: source, recipe with its options, calibration if used, tools.

    calibration: as `calibration_key` names it; None for a build without.
    """
    return cache_key(
        {
            "source": facts.sha256,
            "shapes": {name: list(shape) for name, shape in section.shapes.items()},
            "recipe": build.recipe.name,
            "options": to_dict(build.options),
            "calibration": calibration,
            "versions": dict(versions),
            "revision": TOOLCHAINS[build.recipe.toolchain].revision,
        }
    )


def calibration_key(samples: str, preprocess: Preprocess | None) -> str:
    """What decides the ranges of a static build beside its source and options.

    samples: digest of the stored set, which holds pixels: what makes numbers of them counts apart.
    """
    values = None if preprocess is None else preprocess.digest
    return cache_key({"samples": samples, "preprocess": values, "revision": CALIBRATION_REVISION})


class _Ranges:
    """Ranges of activations: one pass over a model's calibration set serves all methods that are wanted."""

    def __init__(self, context: RunContext, plan: Plan, audit: Audit) -> None:
        self._context = context
        self._plan = plan
        self._audit = audit
        self._folders: dict[tuple[str, str], Path | PhoneproofError] = {}

    def make_all(self, wanted: Sequence[WantedBuild]) -> None:
        """Collect statistics once for each model with static builds."""
        for model in sorted({build.model for build in wanted if build.recipe.needs_calibration}):
            builds = [b for b in wanted if b.model == model and b.recipe.needs_calibration]
            by_toolchain = {b.recipe.toolchain for b in builds}
            for toolchain in sorted(by_toolchain):
                methods = sorted({_method(b.options) for b in builds if b.recipe.toolchain == toolchain})
                try:
                    folder = self._make(self._audit.models[model], toolchain, methods)
                except STOPS_THE_RUN:
                    raise
                except PhoneproofError as error:
                    self._folders[model, toolchain] = error
                else:
                    self._folders[model, toolchain] = folder

    def file_for(self, build: WantedBuild) -> Path | None:
        """The ranges file of a build; None for one without calibration. Raises what calibration raised."""
        if not build.recipe.needs_calibration:
            return None
        found = self._folders[build.model, build.recipe.toolchain]
        if isinstance(found, PhoneproofError):
            raise found
        method, percentile = _method(build.options)
        for entry in json.loads((found / "result.json").read_text(encoding="utf-8"))["ranges"]:
            if entry["method"] == method and (entry["percentile"] or 0.0) == percentile:
                return found / str(entry["file"])
        raise StorageError("The stored ranges lack a method.", where=str(found))

    def _make(self, model: AuditedModel, toolchain: str, methods: Sequence[tuple[str, float]]) -> Path:
        environment = _environment(self._context, toolchain)
        if model.calibration is None:
            raise StorageError("No calibration set was stored.", where=model.section.name)
        preprocess = self._plan.data.preprocess
        request = {
            "source": model.source_request,
            "samples": str(model.calibration.path),
            "calibration_sha256": model.calibration.digest,
            "methods": [{"method": m, "percentile": p or None} for m, p in methods],
            "preprocess": None if preprocess is None else preprocess.to_dict(),
        }
        parts = {k: v for k, v in request.items() if k not in ("samples", "source")}
        shapes = model.source_request["shapes"]
        key = cache_key(
            {
                **parts,
                "source": model.facts.sha256,
                "shapes": shapes,
                "versions": environment.versions,
                "revision": CALIBRATION_REVISION,
            }
        )
        step = ranges_step(model_key(model.section))

        def make() -> tuple[dict[str, Any], str]:
            def fill(staging: Path) -> None:
                module = "phoneproof.quantize.calibrate"
                where = (environment.interpreter, environment.python_path)
                result = self._context.call(step, module, request, *where)
                for entry in result["ranges"]:
                    shutil.move(self._context.folder.work(step) / str(entry["file"]), staging)
                (staging / "result.json").write_text(json.dumps(result), encoding="utf-8")

            _, how = self._context.from_store("ranges", key, fill)
            return {"store_key": key}, how

        self._context.step(step, key, make)
        return self._context.stored("ranges", key, make)


def _make(
    context: RunContext, plan: Plan, audit: Audit, ranges: _Ranges, build: WantedBuild
) -> FinishedBuild:
    try:
        return _make_or_raise(context, plan, audit, ranges, build)
    except STOPS_THE_RUN:
        raise
    except PhoneproofError as error:
        return FinishedBuild(build, None, None, error, cached=False)


def _make_or_raise(
    context: RunContext, plan: Plan, audit: Audit, ranges: _Ranges, build: WantedBuild
) -> FinishedBuild:
    model = audit.models[build.model]
    environment = _environment(context, build.recipe.toolchain)
    ranges_file = ranges.file_for(build)
    calibration = model.calibration.digest if ranges_file is not None and model.calibration else None
    calibrated = None if calibration is None else calibration_key(calibration, plan.data.preprocess)
    key = build_key(model.section, model.facts, build, calibrated, environment.versions)
    step = build_step(build.build_id)
    target = context.folder.path / "builds" / folder_name(build.build_id)
    request = {
        "recipe": build.recipe.name,
        "options": to_dict(build.options),
        "source": model.source_request,
        "source_sha256": model.facts.sha256,
        "ranges": None if ranges_file is None else str(ranges_file),
        "calibration_sha256": calibration,
        "metadata": {},
        "out": "out",
    }

    def make() -> tuple[dict[str, Any], str]:
        def fill(staging: Path) -> None:
            _convert(context, step, build.recipe.toolchain, request, environment, staging)

        entry, how = context.from_store("builds", key, fill)
        shutil.rmtree(target, ignore_errors=True)
        link_folder(entry, target)
        return {"cached": how == "hit"}, how

    outcome = context.step(step, key, make)
    if not _is_sound(target):
        outcome, _ = make()
    findings = _findings(target)
    return FinishedBuild(
        build,
        target,
        read_manifest(target),
        None,
        bool(outcome["cached"]),
        (*environment.findings, *findings),
    )


def _convert(
    context: RunContext,
    step: str,
    toolchain: str,
    request: Mapping[str, Any],
    environment: WorkerEnvironment,
    folder: Path,
) -> None:
    """Run the toolchain's worker and move what it made into `folder`, with its findings and its log."""
    work = context.folder.work(step)
    shutil.rmtree(work / "out", ignore_errors=True)  # a toolchain that was killed left half of it
    module = TOOLCHAINS[toolchain].module
    result = context.call(step, module, request, environment.interpreter, environment.python_path)
    for path in (work / "out").iterdir():
        shutil.move(path, folder)  # the store may lie on another disk
    (folder / FINDINGS_FILE).write_text(json.dumps(result["findings"]), encoding="utf-8")
    shutil.copyfile(work / LOG_FILE, folder / "toolchain.log")


def _findings(folder: Path) -> tuple[Finding, ...]:
    """What the toolchain found while it made the build in this folder."""
    written = json.loads((folder / FINDINGS_FILE).read_text(encoding="utf-8"))
    return tuple(from_dict(Finding, item) for item in written)


def read_manifest(folder: Path) -> BuildManifest:
    """build.json of a build's folder."""
    return from_dict(BuildManifest, json.loads((folder / MANIFEST_FILE).read_text(encoding="utf-8")))


def _is_sound(folder: Path) -> bool:
    """Whether a build can be read, and its model file still has the digest of its manifest."""
    try:
        _findings(folder)
        manifest = read_manifest(folder)
        return sha256_of(folder / manifest.model_file) == manifest.sha256
    except (OSError, ValueError, TypeError, PhoneproofError):
        return False


def _environment(context: RunContext, toolchain: str) -> WorkerEnvironment:
    return environment_of(TOOLCHAINS[toolchain], context.store.root)


def _method(options: RecipeOptions) -> tuple[str, float]:
    """(method, percentile), with 0 where the method has none: sortable, for keys and look-up."""
    return options.method.value, options.percentile if options.method is Method.PERCENTILE else 0.0
