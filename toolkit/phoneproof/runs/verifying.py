"""The third stage: the reference on the host, then one job per device with all its builds."""

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from phoneproof.builds.manifest import BuildManifest, source_named
from phoneproof.builds.model_files import folder_sha256, model_files
from phoneproof.builds.source_facts import ONE_FILE
from phoneproof.builds.store import cache_key, link_folder
from phoneproof.devices.device import Device, DeviceDescription, JobResults
from phoneproof.errors import DeviceError, Interrupted, PhoneproofError
from phoneproof.jobs.planning import (
    BenchmarkSettings,
    Placement,
    PlannedJob,
    RunnableBuild,
    plan_job,
)
from phoneproof.plan.model import Plan
from phoneproof.protocol.attempts import CaseEnd, case_ends, lost
from phoneproof.protocol.codec import to_dict
from phoneproof.protocol.events import CaseFinished, Event, JobStarted, RoundFinished, SampleStarted
from phoneproof.protocol.job import FileRef, Limits, ModelFiles
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.runtime_table import READER_OF
from phoneproof.recipes.table import Precision, SourceFormat
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.runs.audit import Audit, AuditedModel, store_samples
from phoneproof.runs.building import STOPS_THE_RUN, FinishedBuild
from phoneproof.runs.edge_inputs import Edges
from phoneproof.runs.hosts import SOURCE_RUNTIME, HostHarness, Hosts
from phoneproof.runs.job_inputs import JobInputs
from phoneproof.runs.planned import build_samples_step, job_step, reference_job_step, reference_step
from phoneproof.runs.steps import RunContext
from phoneproof.workers.environments import environment_of

HOST: Final = "host"
"""The `kind` in a plan of the device that jobs run on."""

_POLL_S: Final = 0.2
_PAIR_SHARE: Final = 0.5
"""Two builds are timed in one process while ten times their files fit in this share of memory."""

OUTPUTS_FILE: Final = "outputs.bin"


@dataclass(frozen=True)
class Reference:
    """Outputs of a source model on its evaluation set. path: None with the error where it did not run."""

    model: str
    path: Path | None
    error: PhoneproofError | None


@dataclass(frozen=True)
class DeviceRun:
    """What a device made of the job with all builds of one runtime.

    lost_because: the error that ended it before its end.
    """

    runtime: str
    description: DeviceDescription
    planned: PlannedJob
    ends: Mapping[str, CaseEnd]
    results: JobResults | None
    events: tuple[Event, ...]
    lost_because: PhoneproofError | None

    def rounds(self, case_id: str) -> tuple[RoundFinished, ...]:
        """Rounds of the benchmark's last start: an interrupted one began again whole."""
        last = max((e.stamp.attempt for e in self.events if _is_of(e, case_id)), default=0)
        rounds = (e for e in self.events if isinstance(e, RoundFinished) and e.case_id == case_id)
        return tuple(e for e in rounds if e.stamp.attempt == last)

    @property
    def started(self) -> JobStarted | None:
        """The first attempt's facts."""
        return next((e for e in self.events if isinstance(e, JobStarted)), None)


def run_references(context: RunContext, plan: Plan, audit: Audit, hosts: Hosts) -> Mapping[str, Reference]:
    """The outputs of every source model, out of the store or by a job on the host."""
    found: dict[str, Reference] = {}
    for key, model in audit.models.items():
        try:
            found[key] = Reference(key, _reference(context, plan, model, hosts), None)
        except STOPS_THE_RUN:
            raise
        except PhoneproofError as error:
            found[key] = Reference(key, None, error)
    return found


def _reference(context: RunContext, plan: Plan, model: AuditedModel, hosts: Hosts) -> Path:
    key = model.section.key
    host = hosts.of(READER_OF[model.section.format])
    store_key = cache_key({**reference_key(plan, model, host), "samples": model.evaluation.digest})
    step = reference_step(key)

    def make() -> tuple[dict[str, Any], str]:
        def fill(staging: Path) -> None:
            inputs = JobInputs(plan, context.folder.work(step))
            samples = inputs.set_for(model.evaluation.open(), model.facts.inputs)
            files = source_files(context, step, model, inputs)
            options = source_options(model)
            build = RunnableBuild(f"{key}/source", SOURCE_RUNTIME, files, samples, None, options)
            planned = plan_job([build], [Placement("cpu", False, 1)], None, limits_of(plan), {})
            results = run_job(context, reference_job_step(key), host.device, planned, inputs.files)
            infer = next(c for c in planned.cases if c.kind == "infer")
            end = case_ends(planned.job, results.events)[infer.case_id]
            if end.outcome != "passed":
                raise _reference_error(key, end)
            shutil.copyfile(results.outputs[infer.case_id], staging / OUTPUTS_FILE)
            facts = {
                "samples": model.evaluation.count,
                "runtime": host.description.runtimes.get(SOURCE_RUNTIME),
            }
            (staging / "facts.json").write_text(json.dumps(facts), encoding="utf-8")

        _, how = context.from_store("references", store_key, fill)
        return {"store_key": store_key}, how

    context.step(step, store_key, make)
    return context.stored("references", store_key, make) / OUTPUTS_FILE


def reference_key(plan: Plan, model: AuditedModel, host: HostHarness) -> dict[str, Any]:
    """All that decides what a source model gives for a sample, besides the sample."""
    preprocess = plan.data.preprocess
    description = host.description
    return {
        "source": model.facts.sha256,
        "inputs": to_dict(model.facts.inputs),
        "outputs": to_dict(model.facts.outputs),
        "signature": model.request.get("signature"),
        "preprocess": None if preprocess is None else preprocess.digest,
        "runtime": description.runtimes.get(SOURCE_RUNTIME),
        "machine": description.environment.get("machine"),
        "cpu_features": description.environment.get("cpu_features"),
    }


def source_options(model: AuditedModel) -> dict[str, str]:
    """What the reference must know of a source besides its files."""
    options = {}
    if model.request.get("signature") is not None:
        options["signature"] = str(model.request["signature"])
    if model.request.get("trust_pickle"):
        options["trust_pickle"] = "1"
    return options


def run_device(
    context: RunContext,
    plan: Plan,
    audit: Audit,
    builds: Sequence[FinishedBuild],
    host: HostHarness,
    placements: Sequence[Placement],
    edges: Edges,
) -> DeviceRun:
    """Run all builds of one runtime on one device. What the device loses is in the result, not raised."""
    runtime = builds[0].wanted.runtime
    step = job_step(HOST, runtime.name)
    inputs = JobInputs(plan, context.folder.work(step))
    device, description = host.device, host.description
    exact = _exact_options(runtime.name, description)
    runnable = [_runnable(context, plan, audit, inputs, build, exact, edges) for build in builds]
    planned = plan_job(
        runnable,
        placements,
        _benchmark_of(plan) if runtime.fidelity == "device" else None,
        limits_of(plan),
        _pairs_that_fit(builds, description),
    )
    try:
        results = run_job(context, step, device, planned, inputs.files)
    except DeviceError as error:
        events = device.events(planned.job.job_id, 0).events
        ends = lost(planned.job, events)
        return DeviceRun(runtime.name, description, planned, ends, None, events, error)
    ends = case_ends(planned.job, results.events)
    return DeviceRun(runtime.name, description, planned, ends, results, results.events, None)


def _exact_options(runtime: str, description: DeviceDescription) -> dict[str, str]:
    """Options under which a runtime's int8 kernels do not saturate on this machine."""
    # A host that cannot tell (null) may saturate, so its outputs are made exact as well.
    may_saturate = description.environment.get("int8_saturates", False) is not False
    return {"x64quantprecision": "1"} if may_saturate and runtime == "onnxruntime" else {}


def run_job(
    context: RunContext, step: str, device: Device, planned: PlannedJob, files: Mapping[str, Path]
) -> JobResults:
    """Submit the job and wait for its end. A job that this run finished before is only collected."""
    kept = context.folder.outcome_of(step, planned.job.job_id) is not None
    if not kept:
        context.folder.say("step_started", step, key=planned.job.job_id)
        context.observer.started(step)
    job_id = device.submit(planned.job, files)
    seen = 0
    done = 0
    total = len(planned.cases)
    while True:
        batch = device.events(job_id, seen)
        seen += len(batch.events)
        done += sum(isinstance(event, CaseFinished) for event in batch.events)
        what = _what_runs(planned, batch.events)
        if what or batch.finished:
            context.observer.progress(step, what or "finished", min(done, total), total)
        if batch.finished:
            break
        if context.stop.is_set():
            device.close()
            raise Interrupted("The run was stopped.")
        time.sleep(_POLL_S)
    results = device.collect(job_id)
    if not kept:
        context.folder.finish(step, job_id, {"job_id": job_id})
    context.observer.finished(step, "kept" if kept else "made")
    return results


def _what_runs(planned: PlannedJob, events: Sequence[Event]) -> str | None:
    """The last thing that was begun, by build."""
    builds = {case.case_id: case.build_id for case in planned.cases}
    for event in reversed(events):
        if isinstance(event, SampleStarted):
            return f"{builds[event.case_id]}, sample {event.sample + 1}"
        if isinstance(event, RoundFinished):
            return f"{builds[event.case_id]}, timed {event.round + 1} rounds"
    return None


def _runnable(
    context: RunContext,
    plan: Plan,
    audit: Audit,
    inputs: JobInputs,
    build: FinishedBuild,
    exact_options: Mapping[str, str],
    edges: Edges,
) -> RunnableBuild:
    if build.manifest is None or build.folder is None:
        raise ValueError(f"{build.wanted.build_id} was not built")
    manifest = build.manifest
    model = audit.models[build.wanted.model]
    samples = model.evaluation
    taken = source_named(manifest.inputs, manifest.source_names)
    if plan.data.preprocess is None and _need_conversion(taken, model.facts.inputs):
        name = build_samples_step(build.wanted.build_id)
        samples = store_samples(context, plan, "evaluation", taken, name)
    model_edges = edges.get(build.wanted.model)
    return RunnableBuild(
        build.wanted.build_id,
        build.wanted.runtime.name,
        _model_files(build.folder, manifest.model_file, _files_of(manifest), inputs),
        inputs.set_for(samples.open(), manifest.inputs, manifest.source_names),
        build.wanted.baseline,
        exact_options if manifest.precision is Precision.INT8 else {},
        {
            one.label: inputs.set_for(one.open(), manifest.inputs, manifest.source_names)
            for one in (() if model_edges is None else model_edges.as_taken(taken))
        },
    )


def _need_conversion(taken: Sequence[TensorSpec], given: Sequence[TensorSpec]) -> bool:
    """Whether a build takes values of another dtype, or quantized ones: stored values are no pixels."""
    dtypes = {tensor.name: tensor.dtype for tensor in given}
    return any(t.scale is not None or dtypes.get(t.name, t.dtype) != t.dtype for t in taken)


def _files_of(manifest: BuildManifest) -> tuple[FileRef, ...]:
    """The files of a build's model, hashed when it was made and again when a job lays them out."""
    return manifest.files or (FileRef(manifest.model_file, manifest.sha256, manifest.size_bytes),)


def _model_files(root: Path, entry: str, files: tuple[FileRef, ...], inputs: JobInputs) -> ModelFiles:
    """How a job names a model; its folder is named by its digest, since jobs hold several of one name."""
    inputs.files.update({file.sha256: root / file.name for file in files})
    if (root / entry).is_file():
        return ModelFiles(entry, files)
    place = f"model-{folder_sha256(files, entry)}"  # a bare digest is the name of a stored file
    named = tuple(replace(file, name=f"{place}/{file.name}") for file in files)
    return ModelFiles(f"{place}/{entry}", named)


_SUFFIXES: Final[Mapping[SourceFormat, str]] = {
    SourceFormat.PYTORCH: ".pt2",
    SourceFormat.EXPORTED_PROGRAM: ".pt2",
    SourceFormat.KERAS: ".keras",
    SourceFormat.ONNX: ".onnx",
}


def source_files(context: RunContext, step: str, model: AuditedModel, inputs: JobInputs) -> ModelFiles:
    """The source model as a job names it: one file, its external data inside, or a SavedModel's folder.

    A job's names must be possible on every system. A user's file may be called anything; so may a file with
    external data, whose name stands in the model as well.
    """
    form = model.section.format
    if form is SourceFormat.SAVEDMODEL:
        folder = context.folder.work(step) / "model"
        link_folder(model.path, folder)
        return _model_files(folder.parent, folder.name, model_files(folder), inputs)
    name = f"model{_SUFFIXES[form]}"
    path, ref = model.path, model_files(model.path)[0]
    if form is SourceFormat.ONNX and len(model.facts.files) > 1:
        where = environment_of(TOOLCHAINS[READER_OF[form]], context.store.root)
        made = context.call_in(where, step, "phoneproof.sources.one_file", model.source_request)
        path = context.folder.work(step) / ONE_FILE
        ref = FileRef(name, made["sha256"], made["size_bytes"])
    inputs.files[ref.sha256] = path
    return ModelFiles(name, (FileRef(name, ref.sha256, ref.size_bytes),))


def _pairs_that_fit(builds: Sequence[FinishedBuild], description: DeviceDescription) -> dict[str, bool]:
    """By memory: whether a build and its baseline may be loaded together on the device."""
    memory = description.environment.get("memory_bytes")
    if not isinstance(memory, int):
        return {}
    sizes = {b.wanted.build_id: b.manifest.size_bytes for b in builds if b.manifest}
    return {
        b.wanted.build_id: 10 * (sizes[b.wanted.build_id] + sizes[b.wanted.baseline]) < _PAIR_SHARE * memory
        for b in builds
        if b.manifest and b.wanted.baseline in sizes
    }


def limits_of(plan: Plan) -> Limits:
    """The job's limits as the plan sets them."""
    limits = plan.limits
    return Limits(
        load_timeout_ms=round(limits.load_timeout_s * 1_000),
        sample_timeout_ms=round(limits.sample_timeout_s * 1_000),
        round_timeout_ms=round(limits.round_timeout_s * 1_000),
        memory_bytes=None if limits.memory_gb is None else int(limits.memory_gb * 1e9),
        interruptions_at_one_place=1_000,
    )


def _benchmark_of(plan: Plan) -> BenchmarkSettings:
    settings = plan.benchmark
    return BenchmarkSettings(
        settings.rounds,
        settings.warmup_ms,
        settings.visit_ms,
        settings.max_runs_per_visit,
        settings.pause_ms,
    )


def _reference_error(key: str, end: CaseEnd) -> DeviceError:
    bad = end.bad
    message = bad.error.message if bad is not None and bad.error is not None else None
    return DeviceError(
        "The source model did not run on every sample of the evaluation set.",
        where=key,
        next_step="Run the source model on that sample by hand; nothing can be compared without it.",
        outcome=end.outcome,
        cause=None if bad is None else bad.cause,
        error=message,
        samples=tuple(map(str, sorted(end.bad_samples)[:10])) or None,
    )


def _is_of(event: Event, case_id: str) -> bool:
    return getattr(event, "case_id", None) == case_id
