"""The last stage: everything that is known of a run, as one report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from phoneproof.devices.device import DeviceDescription
from phoneproof.errors import Fact, PhoneproofError
from phoneproof.findings import Finding, waive
from phoneproof.plan.model import Plan
from phoneproof.protocol.journal import RunRecord
from phoneproof.recipes.runtime_table import RUNTIMES
from phoneproof.report import model as report
from phoneproof.runs.advising import model_audit
from phoneproof.runs.audit import Audit
from phoneproof.runs.building import FinishedBuild
from phoneproof.runs.edge_inputs import Edges
from phoneproof.runs.edge_reference import EdgeReference
from phoneproof.runs.edge_reporting import edge_findings, edge_inputs, edge_not_measured, model_findings
from phoneproof.runs.measuring import Measurement
from phoneproof.runs.output_findings import output_findings
from phoneproof.runs.recommending import recommend_each, the_only
from phoneproof.runs.results import (
    diagnosis_of,
    limits_of,
    reported_device,
    result_of,
)
from phoneproof.runs.scoring import BUILT_IN, shift_findings
from phoneproof.runs.verifying import DeviceRun, Reference
from phoneproof.verify.accuracy import is_shown_above
from phoneproof.verify.outputs import KeptOutputs
from phoneproof.verify.parity import OutputParity
from phoneproof.verify.verdicts import Reason
from phoneproof.verify.waiting import LARGEST_WAITING_SHARE

_LOG_TAIL = 4_000

SMALLEST_JUDGED_BYTES: Final = 100_000
"""Of smaller builds the graph is much of the file, and the ratio says little of the weights."""


@dataclass(frozen=True)
class MeasuredDevice:
    """A device, its runs, one for each runtime, and what was measured in them."""

    description: DeviceDescription
    runs: tuple[DeviceRun, ...]
    measurements: tuple[Measurement, ...]


@dataclass(frozen=True)
class RunState:
    """All that the stages before the report found."""

    record: RunRecord
    plan: Plan
    audit: Audit
    builds: tuple[FinishedBuild, ...]
    references: Mapping[str, Reference]
    devices: tuple[MeasuredDevice, ...]
    edges: Edges = field(default_factory=dict)
    edge_references: Mapping[str, EdgeReference] = field(default_factory=dict)


def assemble(state: RunState) -> report.Report:
    """The report of a run."""
    findings = _findings(state)
    results: list[report.Result] = []
    diagnoses: list[report.Diagnosis] = []
    limits = limits_of(state.plan)
    for device in state.devices:
        reported = reported_device(device.description)
        for measured in device.measurements:
            wanted = measured.build.wanted
            failed = state.references[wanted.model].path is None
            size = _baseline_bytes(state.builds, wanted.baseline)
            results.append(result_of(measured, limits, reported, size, failed, findings))
            baseline = _baseline(device.measurements, measured)
            diagnoses.append(diagnosis_of(measured, baseline, limits, reported, failed))
    versions = _versions(state)
    command = state.record.command
    each = recommend_each(
        ((build.wanted.build_id, build.wanted.recipe.format) for build in state.builds), results
    )
    created = datetime.fromtimestamp(state.record.created_ms // 1_000, UTC)
    return report.Report(
        run=report.RunFacts(
            id=state.record.run_id,
            created=created.isoformat(),
            phoneproof_version=state.record.phoneproof_version,
            plan_sha256=state.record.plan_sha256,
            command=command,
            seed=state.plan.data.seed,
            host=_host_facts(state.devices),
            title=state.plan.report.title,
            client=state.plan.report.client,
        ),
        models=reported_models(state.plan, state.audit),
        findings=findings,
        builds=tuple(_build(state, build) for build in state.builds),
        results=tuple(results),
        diagnosis=tuple(diagnoses),
        recommendation=the_only(each),
        recommendations=each,
        not_measured=_not_measured(state, results),
        edge_inputs=edge_inputs(state.plan, state.edges),
        reproduce=report.Reproduce(command, _hashes(state), versions, state.plan.data.seed),
    )


def _findings(state: RunState) -> tuple[Finding, ...]:
    found: list[Finding] = [f for key in state.audit.models for f in _shifted(state, key)]
    for device in state.devices:
        if device.description.environment.get("int8_saturates"):
            found.append(Finding.of("HOST-SATURATES", device.description.device_id))
        found += [f for measured in device.measurements for f in _of_the_reference(measured)]
        found += [f for measured in device.measurements for f in output_findings(measured)]
        found += [f for key in state.audit.models for f in _at_chance(state.audit, key, device)]
        found += _busy(device)
        for measured in device.measurements:
            found += edge_findings(measured.build.wanted.build_id, measured.edges)
    for key, edges in state.edges.items():
        of_model = [
            measured.edges
            for device in state.devices
            for measured in device.measurements
            if measured.build.wanted.model == key
        ]
        found += model_findings(key, edges, state.edge_references[key], of_model)
    known = findings_so_far(state.plan, state.audit, state.builds)
    return _joined(known, waive(found, state.plan.gates.waive))


def findings_so_far(plan: Plan, audit: Audit, builds: Sequence[FinishedBuild]) -> tuple[Finding, ...]:
    """What was found before anything was run, with the plan's waivers applied."""
    found = [f for build in builds for f in _named(build)] + list(size_findings(builds))
    return _joined(audit.findings, waive(found, plan.gates.waive))


def _joined(known: Sequence[Finding], more: Sequence[Finding]) -> tuple[Finding, ...]:
    """Each finding once, in order."""
    return (*known, *(f for n, f in enumerate(more) if f not in known and f not in more[:n]))


def _of_the_reference(measured: Measurement) -> list[Finding]:
    """OUTPUT-NONFINITE for outputs in which the reference, whose runs all builds share, is not finite."""
    return [
        Finding.of(
            "OUTPUT-NONFINITE",
            measured.build.wanted.model,
            output=output,
            numbers=parity.reference_nonfinite,
        )
        for output, parity in measured.parity
        if isinstance(parity, OutputParity) and parity.reference_nonfinite
    ]


def _at_chance(audit: Audit, model: str, device: MeasuredDevice) -> Iterator[Finding]:
    """ACCURACY-AT-CHANCE where the reference is not shown to be better than guessing: by the strictest
    built-in metric, on the most samples that a build was scored on.
    """
    scored = audit.models[model].scored
    drops = [
        (k, metric, drop)
        for measured in device.measurements
        if measured.build.wanted.model == model
        for metric, drop in measured.accuracy.items()
        if (k := BUILT_IN.get(metric)) is not None
    ]
    if scored is None or not drops:
        return
    k, metric, drop = min(drops, key=lambda one: (one[0], -one[2].n))
    chance = k / scored.classes
    if not is_shown_above(round(drop.reference * drop.n), drop.n, chance):
        facts: dict[str, Fact] = {"accuracy": drop.reference, "samples": drop.n, "chance": chance}
        yield Finding.of("ACCURACY-AT-CHANCE", model, metric=metric, **facts, classes=scored.classes)


def _shifted(state: RunState, key: str) -> tuple[Finding, ...]:
    model, reference = state.audit.models[key], state.references[key]
    if reference.path is None:
        return ()
    labels = model.evaluation.open().labels
    return shift_findings(key, model.scored, labels, KeptOutputs(reference.path, model.facts.outputs))


def _busy(device: MeasuredDevice) -> tuple[Finding, ...]:
    """One finding for all builds of a device whose timed threads waited too much."""
    waited: dict[str, float] = {}
    for measured in device.measurements:
        share = measured.timing.waiting_share if measured.timing is not None else None
        if share is not None and share > LARGEST_WAITING_SHARE:
            waited[measured.build.wanted.build_id] = share
    if not waited:
        return ()
    facts: dict[str, Fact] = {"share": max(waited.values()), "builds": tuple(sorted(waited))}
    return (Finding.of("HOST-BUSY", device.description.device_id, **facts),)


def size_findings(builds: Sequence[FinishedBuild]) -> Iterator[Finding]:
    """BUILD-SIZE-UNUSUAL for each build whose size is outside its recipe's band, with what is left wide."""
    for build in builds:
        baseline = _baseline_bytes(builds, build.wanted.baseline)
        band = build.wanted.recipe.size_band
        if build.manifest is None or baseline is None or band is None or baseline < SMALLEST_JUDGED_BYTES:
            continue
        ratio = build.manifest.size_bytes / baseline
        if not band[0] <= ratio <= band[1]:
            wide = tuple(f"{t.name} ({t.dtype}, {t.size_bytes} B)" for t in build.manifest.wide_tensors)
            facts: dict[str, Fact] = {"ratio": ratio, "least": band[0], "most": band[1]}
            yield Finding.of("BUILD-SIZE-UNUSUAL", build.wanted.build_id, **facts, tensors=wide or None)


def _named(build: FinishedBuild) -> tuple[Finding, ...]:
    """A toolchain does not know the build_id: its findings on a recipe are about this build."""
    recipe = build.wanted.recipe.name
    return tuple(
        Finding(f.id, f.severity, build.wanted.build_id, f.facts, f.waived) if f.subject == recipe else f
        for f in build.findings
    )


def reported_models(plan: Plan, audit: Audit) -> tuple[report.ReportedModel, ...]:
    """The source models with what their audit tells."""
    calibrated = plan.declared_set("calibration") is not None
    return tuple(
        report.ReportedModel(
            model.section.name,
            model.section.source,
            model.section.format.value,
            model.facts.sha256,
            model.facts.size_bytes,
            model_audit(model.facts, model.section.format, calibrated),
        )
        for model in audit.models.values()
    )


def _build(state: RunState, build: FinishedBuild) -> report.ReportedBuild:
    wanted, manifest = build.wanted, build.manifest
    calibration = state.audit.models[wanted.model].calibration
    used = None
    if manifest is not None and manifest.calibration_sha256 is not None and calibration is not None:
        method = wanted.options.method.value
        used = report.Calibration(calibration.count, method, calibration.digest)
    return report.ReportedBuild(
        build_id=wanted.build_id,
        recipe=wanted.recipe.name,
        source=wanted.model,
        status=build.status,
        size_bytes=manifest.size_bytes if manifest else None,
        sha256=manifest.sha256 if manifest else None,
        operators=manifest.operators if manifest else {},
        float_operators=manifest.float_operators if manifest else (),
        cached=build.cached,
        error=None if build.error is None else build_error(build.error),
        tool_versions=manifest.tool_versions if manifest else {},
        calibration=used,
    )


def build_error(error: PhoneproofError) -> report.BuildError:
    """An error as the report shows it; the log's last lines apart from the other facts."""
    tail = error.facts.get("log_tail")
    text = "\n".join(tail) if isinstance(tail, tuple) else ""
    facts: dict[str, Fact] = {k: v for k, v in error.facts.items() if k != "log_tail"}
    return report.BuildError(error.what, error.where, error.next_step, facts, text[-_LOG_TAIL:])


def _baseline(measurements: Sequence[Measurement], measured: Measurement) -> Measurement | None:
    for other in measurements:
        same_place = other.placement == measured.placement
        if same_place and other.build.wanted.build_id == measured.build.wanted.baseline:
            return other
    return None


def _baseline_bytes(builds: Sequence[FinishedBuild], baseline: str | None) -> int | None:
    for build in builds:
        if build.wanted.build_id == baseline and build.manifest is not None:
            return build.manifest.size_bytes
    return None


def _host_facts(devices: Sequence[MeasuredDevice]) -> Mapping[str, Fact]:
    for device in devices:
        if device.description.kind == "host":
            return dict(device.description.environment)
    return {}


def _versions(state: RunState) -> dict[str, str]:
    versions = {"phoneproof": state.record.phoneproof_version}
    for build in state.builds:
        if build.manifest is not None:
            versions.update(build.manifest.tool_versions)
    for device in state.devices:
        device_id = device.description.device_id
        for started in (run.started for run in device.runs):
            names = {} if started is None else started.runtimes
            versions.update({f"{device_id}: {name}": version for name, version in names.items()})
    return versions


def _hashes(state: RunState) -> dict[str, str]:
    hashes = {"plan": state.record.plan_sha256}
    for key, model in state.audit.models.items():
        hashes[f"source model {key}"] = model.facts.sha256
        hashes[f"evaluation set {key}"] = model.evaluation.digest
        if model.calibration is not None:
            hashes[f"calibration set {key}"] = model.calibration.digest
    for build in state.builds:
        if build.manifest is not None:
            hashes[f"build {build.wanted.build_id}"] = build.manifest.sha256
    return hashes


def _not_measured(state: RunState, results: Sequence[report.Result]) -> tuple[report.NotMeasured, ...]:
    missing = []
    if all(device.description.kind == "host" for device in state.devices):
        missing.append(report.NotMeasured("phones", Reason.of("not_measured", why="no_device")))
    tried = [(m.build.wanted.build_id, m.edges) for device in state.devices for m in device.measurements]
    missing += edge_not_measured(state.plan, state.edge_references, tried)
    missing.append(report.NotMeasured("energy", Reason.of("not_measured", why="not_supported")))
    if not state.plan.task.metrics:
        missing.append(report.NotMeasured("accuracy", Reason.of("not_measured", why="not_asked")))
    for key, reference in state.references.items():
        if reference.error is not None:
            reason = _because("reference_failed", reference.error)
            missing.append(report.NotMeasured(f"parity and accuracy of {key}", reason))
    for build in state.builds:
        if build.error is not None:
            reason = Reason.of("not_measured", why="build_failed")
            missing.append(report.NotMeasured(build.wanted.build_id, reason))
    for device in state.devices:
        missing += _lost_on(device)
    return (*missing, *(one for result in results for one in _no_latency(result)))


def _lost_on(device: MeasuredDevice) -> Iterator[report.NotMeasured]:
    """What one device did not come to, or what a metric did not tell of it."""
    device_id = device.description.device_id
    for run in device.runs:
        if run.lost_because is not None:
            reason = _because("device_lost", run.lost_because)
            yield report.NotMeasured(f"the rest of the job for {run.runtime} on {device_id}", reason)
    for measured in device.measurements:
        for metric, reason in measured.accuracy_missing.items():
            if reason.facts.get("why") != "reference_failed":
                what = f"{metric} of {measured.build.wanted.build_id} on {device_id}"
                yield report.NotMeasured(what, reason)


def _no_latency(result: report.Result) -> Iterator[report.NotMeasured]:
    if result.latency is None:
        why = "load_failed" if result.reason.id == "load_failed" else "not_run"
        if RUNTIMES[result.configuration.runtime].fidelity == "reference":
            why = "reference_fidelity"
        what = f"latency of {result.configuration.build_id} on {result.device.id}"
        yield report.NotMeasured(what, Reason.of("not_measured", why=why))


def _because(why: str, error: PhoneproofError) -> Reason:
    """That something was not measured, with what the error says of it."""
    told: dict[str, Fact] = {"where": error.where, "error": error.what, **error.facts, "why": why}
    kept = {name: value for name, value in told.items() if value is not None and name != "log_tail"}
    return Reason("not_measured", kept)
