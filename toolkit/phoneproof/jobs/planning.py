"""From builds and the ways to run them to one job for a device. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from phoneproof.protocol.job import (
    BenchmarkCase,
    Case,
    Configuration,
    InferCase,
    Job,
    Keep,
    Limits,
    LoadCase,
    ModelFiles,
    SampleSet,
    new_job,
)

BATCH_BELOW_NS: Final = 1_000_000
"""Runs faster than a millisecond are timed in batches, so that clock and call are under 1 % of a batch."""

Use = Literal["outputs", "speed", "both", "edge"]
"""edge: odd inputs, each judged by itself; they are no part of what is said of the normal ones."""


@dataclass(frozen=True)
class RunnableBuild:
    """A build that a job can run. samples: the set that fits its inputs. baseline: build_id of the float
    build it is compared with; None for a baseline and for the reference.
    exact_options: runtime options under which its outputs are right on this device, where the usual ones
    may not be; they make it slower, so speed is measured without them.
    edge: sets of edge inputs by their labels, in the order in which they are run.
    """

    build_id: str
    runtime: str
    model: ModelFiles
    samples: SampleSet
    baseline: str | None
    exact_options: Mapping[str, str]
    edge: Mapping[str, SampleSet] = field(default_factory=dict)


@dataclass(frozen=True)
class Placement:
    """Where on a device a build is to run."""

    accelerator: str
    allow_fallback: bool
    threads: int


@dataclass(frozen=True)
class BenchmarkSettings:
    """How speed is measured; see BenchmarkCase."""

    rounds: int
    warmup_ms: int
    visit_ms: int
    max_runs_per_visit: int
    pause_ms: int


@dataclass(frozen=True)
class PlannedCase:
    """What a case of the job is for. edge: the label of its set, for edge inputs alone."""

    case_id: str
    kind: Literal["load", "infer", "benchmark"]
    build_id: str
    placement: Placement
    use: Use
    edge: str | None = None


@dataclass(frozen=True)
class PlannedJob:
    """A job and what its cases are for, in the job's order."""

    job: Job
    cases: tuple[PlannedCase, ...]

    def cases_of(self, build_id: str, placement: Placement) -> tuple[PlannedCase, ...]:
        """The cases of one build at one place."""
        return tuple(c for c in self.cases if c.build_id == build_id and c.placement == placement)


@dataclass
class _Draft:
    configurations: list[Configuration]
    cases: list[Case]
    planned: list[PlannedCase]
    benchmarks: list[Case]
    planned_benchmarks: list[PlannedCase]


def plan_job(
    builds: Sequence[RunnableBuild],
    placements: Iterable[Placement],
    benchmark: BenchmarkSettings | None,
    limits: Limits,
    pair_fits: Mapping[str, bool],
) -> PlannedJob:
    """One job: each build at each place loads, infers all its samples and edge inputs, and is timed against
    its baseline.

    All inference comes before the first benchmark, so that a crash costs the least. pair_fits: whether a
    build and its baseline fit into memory together; if not, they are timed in processes of their own.
    benchmark: None where nothing is to be timed (the reference).
    """
    draft = _Draft([], [], [], [], [])
    for placement in placements:
        speed_ids: dict[str, str] = {}
        for build in builds:
            speed_ids[build.build_id] = _add_build(draft, build, placement, benchmark is not None)
        if benchmark is not None:
            for build in builds:
                _add_benchmark(draft, build, builds, placement, speed_ids, benchmark, pair_fits)
    return _planned(draft, [s for b in builds for s in (b.samples, *b.edge.values())], limits)


def plan_edge_job(build: RunnableBuild, placement: Placement, limits: Limits) -> PlannedJob:
    """One job in which a build infers its edge inputs alone."""
    draft = _Draft([], [], [], [], [])
    configuration = _add_configuration(draft, build, placement, build.exact_options, "edge")
    _add_edge(draft, build, placement, configuration)
    return _planned(draft, build.edge.values(), limits)


def _planned(draft: _Draft, sets: Iterable[SampleSet], limits: Limits) -> PlannedJob:
    cases = (*draft.planned, *draft.planned_benchmarks)
    # Each edge case may end the runner as often as a case may; this is no reason to give the rest up.
    more = limits.bad_samples_per_case * sum(case.edge is not None for case in cases)
    job = new_job(
        tuple(draft.configurations),
        tuple({one.samples_id: one for one in sets}.values()),
        (*draft.cases, *draft.benchmarks),
        replace(limits, max_attempts=limits.max_attempts + more),
    )
    return PlannedJob(job, cases)


def _add_build(draft: _Draft, build: RunnableBuild, placement: Placement, timed: bool) -> str:
    """Load and infer cases; the id of the configuration that is to be timed."""
    split = bool(build.exact_options) and timed
    use: Use = "outputs" if split or not timed else "both"
    outputs = _add_configuration(draft, build, placement, build.exact_options, use)
    keep = Keep("full")
    case_id = f"{outputs}.infer"
    infer = InferCase("infer", case_id, outputs, build.samples.samples_id, 0, build.samples.count, keep)
    draft.cases.append(infer)
    draft.planned.append(PlannedCase(case_id, "infer", build.build_id, placement, "outputs"))
    _add_edge(draft, build, placement, outputs)
    return _add_configuration(draft, build, placement, {}, "speed") if split else outputs


def _add_edge(draft: _Draft, build: RunnableBuild, placement: Placement, configuration: str) -> None:
    """After the evaluation set: what crashes on an edge input has given its other outputs."""
    for label, samples in build.edge.items():
        case_id = f"{configuration}.edge-{label}"
        whole = InferCase("infer", case_id, configuration, samples.samples_id, 0, samples.count, Keep("full"))
        draft.cases.append(whole)
        draft.planned.append(PlannedCase(case_id, "infer", build.build_id, placement, "edge", label))


def _add_configuration(
    draft: _Draft, build: RunnableBuild, placement: Placement, options: Mapping[str, str], use: Use
) -> str:
    configuration_id = f"c{len(draft.configurations):03d}"
    draft.configurations.append(
        Configuration(
            configuration_id,
            build.build_id,
            build.runtime,
            placement.accelerator,
            placement.allow_fallback,
            placement.threads,
            build.model,
            dict(options),
        )
    )
    case_id = f"{configuration_id}.load"
    draft.cases.append(LoadCase("load", case_id, configuration_id))
    draft.planned.append(PlannedCase(case_id, "load", build.build_id, placement, use))
    return configuration_id


def _add_benchmark(
    draft: _Draft,
    build: RunnableBuild,
    builds: Sequence[RunnableBuild],
    placement: Placement,
    speed_ids: Mapping[str, str],
    settings: BenchmarkSettings,
    pair_fits: Mapping[str, bool],
) -> None:
    baseline = next((b for b in builds if b.build_id == build.baseline), None)
    paired = baseline is not None and baseline.runtime == build.runtime
    interleaving: Literal["in_process", "by_process", "none"] = "none"
    if paired:
        interleaving = "in_process" if pair_fits.get(build.build_id, True) else "by_process"
    case_id = f"{speed_ids[build.build_id]}.benchmark"
    draft.benchmarks.append(
        BenchmarkCase(
            "benchmark",
            case_id,
            speed_ids[build.build_id],
            speed_ids[baseline.build_id] if paired and baseline else None,
            build.samples.samples_id,
            baseline.samples.samples_id if paired and baseline else None,
            settings.rounds,
            interleaving,
            settings.warmup_ms,
            settings.visit_ms,
            settings.max_runs_per_visit,
            BATCH_BELOW_NS,
            settings.pause_ms,
        )
    )
    draft.planned_benchmarks.append(PlannedCase(case_id, "benchmark", build.build_id, placement, "speed"))
