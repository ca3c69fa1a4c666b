"""The second stage: ranges by calibration, then one worker per build; what fails fails alone."""

import json
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from phoneproof.builds.manifest import BuildManifest
from phoneproof.builds.model_files import model_sha256
from phoneproof.builds.source_facts import SourceFacts
from phoneproof.builds.store import cache_key, link_folder
from phoneproof.data.preprocessing import Preprocess, canonical_json
from phoneproof.data.values import layout_of
from phoneproof.errors import BusyError, Interrupted, PhoneproofError, StorageError
from phoneproof.findings import Finding
from phoneproof.plan.model import Plan
from phoneproof.plan.model_section import ModelSection
from phoneproof.protocol.codec import from_dict, to_dict
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.runs.audit import Audit
from phoneproof.runs.calibrating import CalibratedRanges
from phoneproof.runs.exporting import Exports
from phoneproof.runs.handed_over import HandedOver, check_build, read_manifest
from phoneproof.runs.planned import build_step, folder_name
from phoneproof.runs.steps import RunContext
from phoneproof.runs.wanted import WantedBuild, wanted_builds
from phoneproof.workers.environments import WorkerEnvironment, environment_of
from phoneproof.workers.worker import LOG_FILE

CALIBRATION_REVISION: Final = 2
"""Part of the key of static builds: raised when the same request would give other ranges."""

THREADS: Final = 16
"""Builds that may wait for their worker's tokens at a time; tokens decide how many workers run."""

INSPECTION_REVISION: Final = 1
"""Part of the key of a build that was made elsewhere."""

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


@dataclass(frozen=True)
class _Maker:
    """What the threads that make builds share."""

    context: RunContext
    plan: Plan
    audit: Audit
    exports: Exports
    ranges: CalibratedRanges


def make_builds(context: RunContext, plan: Plan, audit: Audit) -> tuple[FinishedBuild, ...]:
    """Make every wanted build, some side by side; a build that fails does not stop the others."""
    wanted = wanted_builds(plan)
    exports = Exports(context)
    maker = _Maker(context, plan, audit, exports, CalibratedRanges(context, plan, audit, exports, wanted))
    with ThreadPoolExecutor(min(THREADS, len(wanted))) as pool:
        futures = [pool.submit(_make, maker, build) for build in wanted]
        return tuple(future.result() for future in futures)


def build_key(
    plan: Plan,
    section: ModelSection,
    facts: SourceFacts,
    build: WantedBuild,
    calibration: str | None,
    versions: Mapping[str, str],
) -> str:
    """Cache key of a build: source, recipe with its options, calibration if used, metadata, tools.

    calibration: as `calibration_key` names it; None for a build without.
    """
    return cache_key(
        {
            "source": facts.sha256,
            "inputs": to_dict(facts.inputs),
            "outputs": to_dict(facts.outputs),
            "signature": section.signature,
            "recipe": build.recipe.name,
            "options": to_dict(build.options),
            "calibration": calibration,
            "metadata": build_metadata(plan, facts.inputs),
            "versions": dict(versions),
            "revision": TOOLCHAINS[build.toolchain].revision,
        }
    )


def file_key(facts: SourceFacts, build: WantedBuild, file_sha256: str, versions: Mapping[str, str]) -> str:
    """Cache key of what was found in a build that was made elsewhere."""
    return cache_key(
        {
            "source": facts.sha256,
            "inputs": to_dict(facts.inputs),
            "outputs": to_dict(facts.outputs),
            "file": file_sha256,
            "format": build.recipe.format.value,
            "names": dict(build.names),
            "versions": dict(versions),
            "revision": INSPECTION_REVISION,
        }
    )


def calibration_key(samples: str, preprocess: Preprocess | None) -> str:
    """What decides the ranges of a static build beside its source and options.

    samples: digest of the stored set, which holds pixels: what makes numbers of them counts apart.
    """
    values = None if preprocess is None else preprocess.digest
    return cache_key({"samples": samples, "preprocess": values, "revision": CALIBRATION_REVISION})


def build_metadata(plan: Plan, inputs: tuple[TensorSpec, ...]) -> dict[str, str]:
    """What is embedded in builds whose format has a place for it: labels and preprocessing, as JSON.

    inputs: of the source model; the preprocessing is told in its layout, which the plan's may not be.
    """
    found: dict[str, str] = {}
    if plan.data.classes:
        found["phoneproof.labels"] = json.dumps(list(plan.data.classes), ensure_ascii=False)
    if plan.data.preprocess is not None:
        preprocess = plan.data.preprocess
        if len(inputs) == 1:
            preprocess = replace(preprocess, layout=layout_of(inputs[0], preprocess))
        found["phoneproof.preprocess"] = canonical_json(preprocess.to_dict()).decode()
    return found


def _make(maker: _Maker, build: WantedBuild) -> FinishedBuild:
    try:
        return _inspected_file(maker, build) if build.file is not None else _converted(maker, build)
    except STOPS_THE_RUN:
        raise
    except PhoneproofError as error:
        return FinishedBuild(build, None, None, error, cached=False)


def _converted(maker: _Maker, build: WantedBuild) -> FinishedBuild:
    plan, model = maker.plan, maker.audit.models[build.model]
    if build.route is None:
        raise ValueError(f"{build.build_id} has no route")
    environment = _environment(maker, build)
    source = maker.exports.request_for(model, build.route)
    ranges = maker.ranges.file_for(build)
    needs = build.recipe.needs_calibration
    calibration = model.calibration.digest if needs and model.calibration is not None else None
    calibrated = None if calibration is None else calibration_key(calibration, plan.data.preprocess)
    key = build_key(plan, model.section, model.facts, build, calibrated, environment.versions)
    request = {
        "recipe": build.recipe.name,
        "options": to_dict(build.options),
        "source": source,
        "source_sha256": model.facts.sha256,
        "source_inputs": to_dict(model.facts.inputs),
        "source_outputs": to_dict(model.facts.outputs),
        "ranges": None if ranges is None else str(ranges),
        "samples": maker.ranges.samples_request(model) if needs else None,
        "calibration_sha256": calibration,
        "metadata": build_metadata(plan, model.facts.inputs),
        "out": "out",
    }
    return _finished(maker, build, environment, TOOLCHAINS[build.toolchain].module, key, request)


def _inspected_file(maker: _Maker, build: WantedBuild) -> FinishedBuild:
    model = maker.audit.models[build.model]
    if build.file is None:
        raise ValueError(f"{build.build_id} is no file")
    environment = _environment(maker, build)
    key = file_key(model.facts, build, model_sha256(build.file), environment.versions)
    request = {
        "file": str(build.file),
        "format": build.recipe.format.value,
        "names": dict(build.names),
        "source_sha256": model.facts.sha256,
        "source_inputs": to_dict(model.facts.inputs),
        "source_outputs": to_dict(model.facts.outputs),
        "out": "out",
    }
    module = "phoneproof.toolchains.inspect_build"
    return _finished(maker, build, environment, module, key, request)


def _finished(
    maker: _Maker,
    build: WantedBuild,
    environment: WorkerEnvironment,
    module: str,
    key: str,
    request: Mapping[str, Any],
) -> FinishedBuild:
    """The build out of the store, or made now, linked into the run's folder."""
    context = maker.context
    step = build_step(build.build_id)
    target = context.folder.path / "builds" / folder_name(build.build_id)

    def make() -> tuple[dict[str, Any], str]:
        def fill(staging: Path) -> None:
            _run_toolchain(context, step, build, module, request, environment, staging)

        entry, how = context.from_store("builds", key, fill)
        shutil.rmtree(target, ignore_errors=True)
        link_folder(entry, target)
        return {"cached": how == "hit"}, how

    outcome = context.step(step, key, make)
    if not _is_sound(target):
        outcome, _ = make()
    findings = (*environment.findings, *_findings(target))
    return FinishedBuild(build, target, read_manifest(target), None, bool(outcome["cached"]), findings)


def _run_toolchain(
    context: RunContext,
    step: str,
    build: WantedBuild,
    module: str,
    request: Mapping[str, Any],
    environment: WorkerEnvironment,
    folder: Path,
) -> None:
    """Run the worker and move what it made into `folder`, with its findings and its log.

    ToolchainError where the worker ends well and the build is not whole: it must not get into the store.
    """
    work = context.folder.work(step)
    shutil.rmtree(work / "out", ignore_errors=True)  # a toolchain that was killed left half of it
    memory = TOOLCHAINS[build.toolchain].memory_bytes
    result = context.call_in(environment, step, module, request, memory)
    findings = check_build(HandedOver(module, work, result), build.recipe, request)
    for path in (work / "out").iterdir():
        shutil.move(path, folder)  # the store may lie on another disk
    (folder / FINDINGS_FILE).write_text(json.dumps(to_dict(findings)), encoding="utf-8")
    shutil.copyfile(work / LOG_FILE, folder / "toolchain.log")


def _findings(folder: Path) -> tuple[Finding, ...]:
    """What the toolchain found while it made the build in this folder."""
    written = json.loads((folder / FINDINGS_FILE).read_text(encoding="utf-8"))
    return tuple(from_dict(Finding, item) for item in written)


def _is_sound(folder: Path) -> bool:
    """Whether a build can be read, and its model still has the digest of its manifest."""
    try:
        _findings(folder)
        manifest = read_manifest(folder)
        return model_sha256(folder / manifest.model_file) == manifest.sha256
    except (OSError, ValueError, TypeError, IndexError, PhoneproofError):
        return False


def _environment(maker: _Maker, build: WantedBuild) -> WorkerEnvironment:
    return environment_of(TOOLCHAINS[build.toolchain], maker.context.store.root)
