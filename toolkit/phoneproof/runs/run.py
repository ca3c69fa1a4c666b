"""phoneproof's Python API: what the command line does, as functions.

from phoneproof.plan.model import read_plan
from phoneproof.runs.run import run
finished = run(read_plan(Path("phoneproof.toml")), out=Path("run"))
finished.exit_code, finished.report.recommendation
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from threading import Event
from typing import Final, Literal

from phoneproof.builds.store import Store, default_store, storage_errors
from phoneproof.devices.device import Device
from phoneproof.errors import Interrupted, PhoneproofError, SeveralErrors
from phoneproof.findings import Finding
from phoneproof.jobs.planning import Placement
from phoneproof.plan.model import Plan
from phoneproof.plan.preflight import Need, preflight
from phoneproof.recipes.runtime_table import READER_OF
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.report.model import Report, ReportedModel
from phoneproof.report.render import render
from phoneproof.runs.audit import Audit, AuditedModel, audit
from phoneproof.runs.building import FinishedBuild, make_builds
from phoneproof.runs.disclosure import disclosed, disclosure
from phoneproof.runs.edge_inputs import Edges, store_edge_inputs
from phoneproof.runs.edge_reference import run_edge_references
from phoneproof.runs.folder import RunFolder, check_place, opened
from phoneproof.runs.hosts import SOURCE_RUNTIME, Hosts
from phoneproof.runs.measuring import Measurement, Yardstick, measure, with_edges
from phoneproof.runs.observer import Observer, Silent
from phoneproof.runs.planned import planned_steps
from phoneproof.runs.reporting import MeasuredDevice, RunState, assemble, findings_so_far, reported_models
from phoneproof.runs.steps import RunContext
from phoneproof.runs.verifying import DeviceRun, Reference, run_device, run_references
from phoneproof.verify.outputs import KeptOutputs
from phoneproof.workers.environments import environment_of
from phoneproof.workers.worker import WorkerLimits

Stage = Literal["audit", "build", "verify", "report"]
STAGES: Final[tuple[Stage, ...]] = ("audit", "build", "verify", "report")


_NEEDS: Final[Mapping[Stage, frozenset[Need]]] = {
    "audit": frozenset(),
    "build": frozenset({Need.BUILD}),
    "verify": frozenset(Need),
    "report": frozenset(Need),
}
"""What must be there besides what reads the source models."""


class ExitCode(IntEnum):
    """What the command line answers with."""

    PASS = 0
    FAIL = 1
    USAGE = 2
    INCOMPLETE = 3
    INCONCLUSIVE = 4
    INTERRUPTED = 130


@dataclass(frozen=True)
class FinishedRun:
    """A run that came to the end of the last stage asked for.

    report: None before the report stage. findings: of the report, or of the stages before it.
    models: what the audit tells of the source models.
    """

    folder: Path
    builds: tuple[FinishedBuild, ...]
    report: Report | None
    files: tuple[Path, ...]
    findings: tuple[Finding, ...] = ()
    models: tuple[ReportedModel, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """The worst of what happened: incomplete before failed before inconclusive."""
        if any(build.error is not None for build in self.builds):
            return ExitCode.INCOMPLETE
        return ExitCode.PASS if self.report is None else exit_code_of(self.report)


def exit_code_of(report: Report) -> ExitCode:
    """The exit code that a report stands for."""
    if any(build.status == "failed" for build in report.builds):
        return ExitCode.INCOMPLETE
    if any(result.outcomes.get("device_lost") for result in report.results):
        return ExitCode.INCOMPLETE
    if any(gate.reason.id == "reference_failed" for result in report.results for gate in result.gates):
        return ExitCode.INCOMPLETE
    verdicts = {result.verdict for result in report.results}
    if "fail" in verdicts:
        return ExitCode.FAIL
    return ExitCode.INCONCLUSIVE if "inconclusive" in verdicts else ExitCode.PASS


@dataclass(frozen=True)
class RunOptions:
    """How to run. until: the last stage. host: makes the host for a folder of jobs; None is the real one."""

    until: Stage = "report"
    store: Path | None = None
    command: tuple[str, ...] = ()
    host: Callable[[Path], Device] | None = None


def run(
    plan: Plan,
    out: Path,
    observer: Observer | None = None,
    options: RunOptions | None = None,
    stop: Event | None = None,
) -> FinishedRun:
    """Do what is left of a run, up to the last stage asked for.

    A folder that holds this plan's run is finished; nothing that it has is done again. Raises RequestError
    before anything is started, IncompleteError where it cannot be completed, Interrupted when `stop` is set.
    """
    observer = observer or Silent()
    options = options or RunOptions()
    store = Store(options.store or default_store())
    stop = stop or Event()
    check(plan, out, store, options)
    store.open_for_writing()
    with opened(out, plan, options.command) as folder:
        limits = WorkerLimits(
            plan.limits.build_timeout_s,
            None if plan.limits.memory_gb is None else int(plan.limits.memory_gb * 1e9),
        )
        context = RunContext(folder, store, observer, limits, stop)
        _say_planned(folder, plan)
        try:
            return _stages(context, plan, options)
        except PhoneproofError as error:
            # Ctrl-C reaches the child processes of a terminal too: what they then fail of is no fault.
            if not stop.is_set():
                raise
            raise Interrupted(
                "The run was stopped.", where=str(out), next_step="The same command goes on from here."
            ) from error


def stage_named(name: str) -> Stage:
    """The stage of that name."""
    for stage in STAGES:
        if stage == name:
            return stage
    raise ValueError(name)


def check(plan: Plan, out: Path, store: Store, options: RunOptions) -> None:
    """Refuse what cannot work. Raises all that is wrong, RunFolderError for a run of another plan."""
    check_place(out, plan)
    needs = _NEEDS[options.until]
    problems = preflight(plan, out=out, needs=needs, package_check=lambda name: missing(name, store.root))
    raise_all(problems)


def missing(name: str, store: Path) -> PhoneproofError | None:
    """What keeps a toolchain's packages from being used, managed environments included."""
    try:
        environment_of(TOOLCHAINS[name], store)
    except PhoneproofError as error:
        return error
    return None


def raise_all(errors: Sequence[PhoneproofError]) -> None:
    """Raise the only error, or all of them as one."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise SeveralErrors(errors)


def _say_planned(folder: RunFolder, plan: Plan) -> None:
    if folder.was_begun:
        if not folder.is_finished:
            folder.say("resumed")
        return
    folder.say("planned", steps=planned_steps(plan))


def _stages(context: RunContext, plan: Plan, options: RunOptions) -> FinishedRun:
    path = context.folder.path
    context.observer.stage("audit")
    audited = audit(context, plan)
    if options.until == "audit":
        models = reported_models(plan, audited)
        return FinishedRun(path, (), None, (), audited.findings, models)
    context.observer.stage("build")
    builds = make_builds(context, plan, audited)
    if options.until == "build":
        return FinishedRun(path, builds, None, (), findings_so_far(plan, audited, builds))
    context.observer.stage("verify")
    hosts = Hosts(path / "jobs" / "host", context.store.root, _runtimes(plan, builds), options.host)
    try:
        edges = store_edge_inputs(context, plan, audited, builds)
        references = run_references(context, plan, audited, hosts)
        edge_references = run_edge_references(context, plan, audited, hosts, edges)
        yardsticks = {key: _yardstick(model, references[key]) for key, model in audited.models.items()}
        for key, found in edges.items():
            yardsticks[key] = with_edges(yardsticks[key], audited.models[key], found, edge_references[key])
        devices = _measured_devices(context, plan, audited, builds, edges, yardsticks, hosts)
    finally:
        hosts.close()
    if options.until == "verify":
        return FinishedRun(path, builds, None, (), findings_so_far(plan, audited, builds))
    context.observer.stage("report")
    state = RunState(
        context.folder.record, plan, audited, builds, references, devices, edges, edge_references
    )
    whole = assemble(state)
    for finding in whole.findings:
        if finding not in audited.findings:  # those were told when they were found
            context.observer.found(finding)
    report = disclosed(whole, disclosure(path, context.store.root, plan.folder, plan.data.may_leave))
    with storage_errors(path):
        files = render(report, path / "report")
    if not context.folder.is_finished:
        context.folder.say("run_finished", exit_code=int(exit_code_of(report)))
    return FinishedRun(path, builds, report, files, report.findings)


def _runtimes(plan: Plan, builds: Sequence[FinishedBuild]) -> dict[str, list[str]]:
    """Names of the runtimes that run models and builds, by the toolchain in whose environment they are."""
    found: dict[str, list[str]] = {READER_OF[model.format]: [SOURCE_RUNTIME] for model in plan.models}
    for build in builds:
        row = build.wanted.runtime
        found.setdefault(row.toolchain, []).append(row.name)
    return found


def _measured_devices(
    context: RunContext,
    plan: Plan,
    audited: Audit,
    builds: Sequence[FinishedBuild],
    edges: Edges,
    yardsticks: Mapping[str, Yardstick],
    hosts: Hosts,
) -> tuple[MeasuredDevice, ...]:
    placements = [
        Placement(accelerator.value, section.allow_fallback, section.threads)
        for section in plan.devices
        for accelerator in section.accelerators
    ]
    runs: list[DeviceRun] = []
    measurements: list[Measurement] = []
    for row in dict.fromkeys(build.wanted.runtime for build in builds if build.manifest):
        own = [build for build in builds if build.manifest and build.wanted.runtime == row]
        device_run = run_device(context, plan, audited, own, hosts.of(row.toolchain), placements, edges)
        runs.append(device_run)
        measurements += [
            measure(context, plan, device_run, build, placement, yardsticks[build.wanted.model])
            for placement in placements
            for build in own
        ]
    described = hosts.description()
    if described is None or not runs:
        return ()
    return (MeasuredDevice(described, tuple(runs), tuple(measurements)),)


def _yardstick(model: AuditedModel, reference: Reference) -> Yardstick:
    samples = model.evaluation.open()
    kept = None if reference.path is None else KeptOutputs(reference.path, model.facts.outputs)
    return Yardstick(kept, samples.labels, samples)


__all__ = [
    "DeviceRun",
    "ExitCode",
    "FinishedRun",
    "Measurement",
    "RunOptions",
    "run",
]
