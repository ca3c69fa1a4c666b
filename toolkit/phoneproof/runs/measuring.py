"""What one build at one place on one device gave: out of events and output files, before any verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from phoneproof.builds.manifest import source_named
from phoneproof.data.store import SampleStore
from phoneproof.errors import (
    PhoneproofError,
    PlanError,
    ProtocolError,
    RequestError,
    UnsupportedOperatorError,
    WorkerError,
)
from phoneproof.jobs.planning import Placement, PlannedCase
from phoneproof.plan.model import Plan
from phoneproof.protocol.attempts import CaseEnd, Outcome
from phoneproof.protocol.codec import to_dict
from phoneproof.protocol.events import Measured, RoundFinished
from phoneproof.runs.audit import AuditedModel
from phoneproof.runs.building import FinishedBuild
from phoneproof.runs.edge_inputs import ModelEdges
from phoneproof.runs.edge_measuring import NO_EDGES, EdgeYardstick, MeasuredEdges, measure_edges
from phoneproof.runs.edge_reference import EdgeReference
from phoneproof.runs.scoring import BUILT_IN
from phoneproof.runs.steps import RunContext
from phoneproof.runs.verifying import DeviceRun
from phoneproof.verify.accuracy import AccuracyDrop, correctness_drop, score_drop, top_k_correct
from phoneproof.verify.comparison import AbbaRound, Comparison, compare
from phoneproof.verify.edge_outputs import peaks
from phoneproof.verify.latency import LatencySummary, summarise_latency
from phoneproof.verify.output_health import OutputFault
from phoneproof.verify.outputs import (
    ComparedOutput,
    KeptOutputs,
    compared_outputs,
    correspondence,
    sample_numbers,
    stacked_output,
)
from phoneproof.verify.parity import LabelParity, OutputParity
from phoneproof.verify.verdicts import Reason
from phoneproof.verify.waiting import waiting_share


@dataclass(frozen=True)
class Timing:
    """Latency and the comparison with the baseline; each None where it was not measured."""

    summary: LatencySummary
    runs_ns: tuple[int, ...]
    batch: int
    first_ms: float | None
    comparison: Comparison | None

    @property
    def waiting_share(self) -> float | None:
        """The greatest share of waiting of the build and, where it was timed with one, its baseline."""
        shares = (self.summary.waiting_share, self.comparison.waiting_share if self.comparison else None)
        return max((share for share in shares if share is not None), default=None)


@dataclass(frozen=True)
class Measurement:
    """All that is known of a build at a place on a device.

    loaded: what it told of memory and of the time to load. parity_error: why outputs cannot be compared.
    faults: by output, those that have a name.
    compared: numbers of the samples behind the parity, in its order. sample_ids: the names of all samples,
    None where the plan keeps them out of reports. accuracy_missing: metrics that the plan asks for and that
    have no drop, and why. cases: without those of edge inputs, which are counted apart.
    """

    build: FinishedBuild
    placement: Placement
    cases: tuple[tuple[PlannedCase, CaseEnd], ...]
    loaded: Measured | None
    parity: tuple[tuple[str, OutputParity | LabelParity], ...]
    parity_error: PhoneproofError | None
    compared: tuple[int, ...]
    sample_ids: tuple[str, ...] | None
    accuracy: Mapping[str, AccuracyDrop]
    accuracy_missing: Mapping[str, Reason]
    timing: Timing | None
    faults: tuple[tuple[str, OutputFault], ...] = ()
    edges: MeasuredEdges = NO_EDGES

    @property
    def outcomes(self) -> dict[Outcome, int]:
        """Number of cases by outcome. An infer case counts as many as it has bad samples, and once more where
        it ended otherwise than any of them: a crash between samples leaves only samples that did not run.
        """
        counts: dict[Outcome, int] = {}
        for _, end in self.cases:
            listed = [bad.outcome for bad in end.bad_samples.values()]
            for outcome in listed if end.outcome in listed else [end.outcome, *listed]:
                counts[outcome] = counts.get(outcome, 0) + 1
        return counts

    @property
    def load_failed(self) -> bool:
        """Whether a load case ended badly by its own doing: not for a lost device, nor before it began."""
        blameless = ("passed", "device_lost", "not_run")
        return any(c.kind == "load" and e.outcome not in blameless for c, e in self.cases)

    @property
    def unknown_operators(self) -> str | None:
        """What the runtime said of operators that it does not know, where that alone kept it from loading."""
        for case, end in self.cases:
            error = end.bad.error if case.kind == "load" and end.bad is not None else None
            if error is not None and error.type == UnsupportedOperatorError.__name__:
                return error.message
        return None

    @property
    def accelerator_actual(self) -> str | None:
        """Where all of its configurations ran, joined by `+` if in several places; None if one is unknown."""
        actual = {
            end.finished.measured.accelerator_actual
            for case, end in self.cases
            if end.finished is not None and end.finished.outcome == "passed" and case.kind != "benchmark"
        }
        known = {one for one in actual if one is not None}
        return None if not actual or len(known) < len(actual) else "+".join(sorted(known))

    @property
    def operators_by_accelerator(self) -> Mapping[str, int] | None:
        """Number of operators on each accelerator, where the runtime tells."""
        finished = [end.finished for _, end in self.cases if end.finished is not None]
        told = (one.measured.operators for one in finished if one.measured.operators is not None)
        return next(told, None)


@dataclass(frozen=True)
class Yardstick:
    """What builds of one model are measured against. edge: None where no edge inputs are tried."""

    reference: KeptOutputs | None
    labels: tuple[Any, ...] | None
    samples: SampleStore
    edge: EdgeYardstick | None = None


def with_edges(
    yardstick: Yardstick, model: AuditedModel, edges: ModelEdges, reference: EdgeReference
) -> Yardstick:
    """The same with what the model's builds are judged against on edge inputs."""
    peak = {} if yardstick.reference is None else peaks(yardstick.reference)
    scored = None if model.scored is None else model.scored.name
    return replace(yardstick, edge=EdgeYardstick(edges, reference, model.facts.outputs, peak, scored))


def measure(
    context: RunContext,
    plan: Plan,
    run: DeviceRun,
    build: FinishedBuild,
    placement: Placement,
    yardstick: Yardstick,
) -> Measurement:
    """Parity, accuracy and timing of one build at one place."""
    whole = run.planned.cases_of(build.wanted.build_id, placement)
    planned = tuple(case for case in whole if case.edge is None)
    cases = tuple((case, run.ends[case.case_id]) for case in planned)
    kept = _kept(run, build, planned)
    compared, parity_error = _compared(yardstick, kept)
    parity = tuple((one.name, one.parity) for one in compared)
    pair = _pair(yardstick, kept)
    accuracy, missing = _accuracy(context, plan, build, yardstick, pair)
    return Measurement(
        build,
        placement,
        cases,
        _loaded(cases),
        parity,
        parity_error,
        () if pair is None else pair.samples,
        yardstick.samples.stored.ids if plan.data.may_leave else None,
        accuracy,
        missing,
        _timing(run, cases),
        tuple((one.name, fault) for one in compared for fault in one.faults),
        measure_edges(run, build, placement, yardstick.edge, dict(parity)),
    )


def _kept(run: DeviceRun, build: FinishedBuild, planned: tuple[PlannedCase, ...]) -> KeptOutputs | None:
    infer = next((case for case in planned if case.kind == "infer"), None)
    if infer is None or run.results is None or build.manifest is None:
        return None
    path = run.results.outputs.get(infer.case_id)
    if path is None:
        return None
    return KeptOutputs(path, source_named(build.manifest.outputs, build.manifest.source_names))


def _loaded(cases: tuple[tuple[PlannedCase, CaseEnd], ...]) -> Measured | None:
    """Memory after all samples, and the load time of the configuration that is timed."""
    told = [(case, end.finished.measured) for case, end in cases if end.finished is not None]
    last = next((one for kind in ("infer", "load") for case, one in told if case.kind == kind), None)
    timed = next((one for case, one in told if case.kind == "load" and case.use != "outputs"), None)
    return last if last is None or timed is None else replace(last, load_ms=timed.load_ms)


def _compared(
    yardstick: Yardstick, kept: KeptOutputs | None
) -> tuple[tuple[ComparedOutput, ...], PhoneproofError | None]:
    if kept is None or yardstick.reference is None:
        return (), None
    try:
        return compared_outputs(yardstick.reference, kept), None
    except PhoneproofError as error:
        return (), error


def _accuracy(
    context: RunContext,
    plan: Plan,
    build: FinishedBuild,
    yardstick: Yardstick,
    pair: "_Pair | None",
) -> tuple[dict[str, AccuracyDrop], dict[str, Reason]]:
    """The drop of each metric, or why it has none. One that cannot be had does not stop the run."""
    drops: dict[str, AccuracyDrop] = {}
    missing: dict[str, Reason] = {}
    for metric in plan.task.metrics:
        try:
            found = _drop(context, plan, build, yardstick, pair, metric)
        except (RequestError, UnsupportedOperatorError, WorkerError, ProtocolError) as error:
            found = _failed(metric, error)
        if isinstance(found, Reason):
            missing[metric] = found
        else:
            drops[metric] = found
    return drops, missing


def _drop(
    context: RunContext,
    plan: Plan,
    build: FinishedBuild,
    yardstick: Yardstick,
    pair: "_Pair | None",
    metric: str,
) -> AccuracyDrop | Reason:
    if yardstick.reference is None:
        return Reason.of("not_measured", why="reference_failed", metric=metric)
    if pair is None:
        return Reason.of("not_measured", why="not_run", metric=metric)
    if metric not in BUILT_IN:
        return _scored(context, plan, build, pair, yardstick.labels, metric)
    if yardstick.labels is None:
        return Reason.of("not_measured", why="no_labels", metric=metric)
    return _top_k(plan, pair, yardstick.labels, BUILT_IN[metric])


def _failed(metric: str, error: PhoneproofError) -> Reason:
    place = {"where": error.where} if error.where is not None else {}
    return Reason.of("not_measured", why="metric_failed", metric=metric, error=error.what, **place)


@dataclass(frozen=True)
class _Pair:
    """Outputs of the reference and of a build, and the samples that both have: one or more."""

    reference: KeptOutputs
    build: KeptOutputs
    samples: tuple[int, ...]

    def renamed(self) -> KeptOutputs:
        """The build's outputs under the reference's names. ProtocolError if they do not correspond."""
        tensors = list(self.build.tensors)
        order = correspondence(self.reference.tensors, tensors)
        for tensor, position in zip(self.reference.tensors, order, strict=True):
            tensors[position] = replace(tensors[position], name=tensor.name)
        return KeptOutputs(self.build.path, tuple(tensors))


def _pair(yardstick: Yardstick, kept: KeptOutputs | None) -> _Pair | None:
    if yardstick.reference is None or kept is None:
        return None
    samples = sorted(set(sample_numbers(yardstick.reference)) & set(sample_numbers(kept)))
    return _Pair(yardstick.reference, kept, tuple(samples)) if samples else None


def _top_k(plan: Plan, pair: _Pair, labels: Sequence[Any], k: int) -> AccuracyDrop:
    """PlanError where the output does not hold scores of classes, or a label is no class of it."""
    try:
        chosen = np.array([int(labels[sample]) for sample in pair.samples])
        correct = [
            top_k_correct(stacked_output(one, plan.task.output, pair.samples), chosen, k)
            for one in (pair.reference, pair.renamed())
        ]
    except (KeyError, TypeError, ValueError) as error:
        names = ", ".join(repr(tensor.name) for tensor in pair.reference.tensors)
        unknown = "no such output, or several and none named" if isinstance(error, KeyError) else str(error)
        raise PlanError(
            f"Top {k} cannot be told: {unknown}; the outputs are {names}.",
            where="[task] output",
            next_step="Name the output that holds one score for each class.",
        ) from error
    return correctness_drop(correct[0], correct[1])


def _scored(
    context: RunContext,
    plan: Plan,
    build: FinishedBuild,
    pair: _Pair,
    labels: Sequence[Any] | None,
    metric: str,
) -> AccuracyDrop:
    request = {
        "metric": metric,
        "folder": str(plan.folder),
        "labels": None if labels is None else list(labels),
        "samples": list(pair.samples),
        "files": [_file(pair.reference), _file(pair.renamed())],
    }
    name = f"metric/{metric.replace(':', '.')}/{build.wanted.build_id.replace('/', '@')}"
    answer = context.call(name, "phoneproof.verify.metric", request)
    reference, scores = (np.array(values, dtype=np.float64) for values in answer["scores"])
    bounds = answer["bounds"]
    return score_drop(reference, scores, None if bounds is None else (bounds[0], bounds[1]))


def _file(kept: KeptOutputs) -> dict[str, Any]:
    return {"path": str(kept.path.absolute()), "tensors": to_dict(kept.tensors)}


def _timing(run: DeviceRun, cases: tuple[tuple[PlannedCase, CaseEnd], ...]) -> Timing | None:
    found = next(((c, e) for c, e in cases if c.kind == "benchmark"), None)
    if found is None or found[1].outcome != "passed" or found[1].finished is None:
        return None
    rounds = run.rounds(found[0].case_id)
    return timing_of(rounds, found[1].finished.measured) if rounds else None


def timing_of(rounds: Sequence[RoundFinished], measured: Measured) -> Timing:
    """Out of a benchmark's rounds, at least one, and what it told at its end."""
    batch = rounds[0].candidate_batch
    candidate = (1, 2) if rounds[0].order == "ABBA" else (0,)
    runs = tuple(t for one in rounds for i in candidate for t in one.visits_ns[i])
    waiting = _waiting_share(rounds, candidate)
    comparison = None
    if rounds[0].order == "ABBA":
        sides = (waiting, _waiting_share(rounds, (0, 3)))
        comparison = compare(
            [
                AbbaRound.of_batches(one.visits_ns, one.baseline_batch or 1, one.candidate_batch)
                for one in rounds
            ],
            waiting_share=max((share for share in sides if share is not None), default=None),
        )
    summary = summarise_latency(runs, batch, measured.clock_resolution_ns, waiting)
    return Timing(summary, runs, batch, measured.first_ms, comparison)


def _waiting_share(rounds: Sequence[RoundFinished], visits: tuple[int, ...]) -> float | None:
    """Of one side, whose visits in a round are `visits`."""
    timed = [one.visits_ns[i] for one in rounds for i in visits]
    return waiting_share(
        timed, [one.waited_ns[i] if one.waited_ns else None for one in rounds for i in visits]
    )
