"""What one build at one place on one device gave: out of events and output files, before any verdict."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from phoneproof.data.store import SampleStore
from phoneproof.errors import PhoneproofError
from phoneproof.jobs.planning import Placement, PlannedCase
from phoneproof.plan.model import Plan
from phoneproof.protocol.attempts import CaseEnd, Outcome
from phoneproof.protocol.codec import to_dict
from phoneproof.protocol.events import Measured
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.runs.building import FinishedBuild
from phoneproof.runs.steps import RunContext
from phoneproof.runs.verifying import DeviceRun
from phoneproof.verify.accuracy import AccuracyDrop, correctness_drop, score_drop, top_k_correct
from phoneproof.verify.comparison import AbbaRound, Comparison, compare
from phoneproof.verify.latency import LatencySummary, summarise_latency
from phoneproof.verify.outputs import KeptOutputs, output_parities, sample_numbers, stacked_output
from phoneproof.verify.parity import LabelParity, OutputParity

BUILT_IN = {"top1": 1, "top5": 5}


@dataclass(frozen=True)
class Timing:
    """Latency and the comparison with the baseline; each None where it was not measured."""

    summary: LatencySummary
    runs_ns: tuple[int, ...]
    batch: int
    first_ms: float | None
    comparison: Comparison | None


@dataclass(frozen=True)
class Measurement:
    """All that is known of a build at a place on a device.

    compared: numbers of the samples behind the parity, in its order. sample_ids: the names of all samples,
    None where the plan keeps them out of reports. accuracy_missing: why there is no accuracy, as an id.
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
    accuracy_missing: str | None
    timing: Timing | None

    @property
    def outcomes(self) -> dict[Outcome, int]:
        """Number of cases by outcome; an infer case counts as many as it has bad samples."""
        counts: dict[Outcome, int] = {}
        for _, end in self.cases:
            listed = [bad.outcome for bad in end.bad_samples.values()] or [end.outcome]
            for outcome in listed:
                counts[outcome] = counts.get(outcome, 0) + 1
        return counts

    @property
    def load_failed(self) -> bool:
        """Whether a load case ended badly."""
        return any(c.kind == "load" and e.outcome not in ("passed", "device_lost") for c, e in self.cases)


@dataclass(frozen=True)
class Yardstick:
    """What builds of one model are measured against."""

    reference: KeptOutputs | None
    labels: tuple[Any, ...] | None
    samples: SampleStore


def measure(
    context: RunContext,
    plan: Plan,
    run: DeviceRun,
    build: FinishedBuild,
    placement: Placement,
    yardstick: Yardstick,
) -> Measurement:
    """Parity, accuracy and timing of one build at one place."""
    planned = run.planned.cases_of(build.wanted.build_id, placement)
    cases = tuple((case, run.ends[case.case_id]) for case in planned)
    kept = _kept(run, build, planned)
    parity, parity_error = _parity(yardstick, kept)
    accuracy, missing = _accuracy(context, plan, build, yardstick, kept)
    return Measurement(
        build,
        placement,
        cases,
        _loaded(cases),
        parity,
        parity_error,
        _compared(yardstick, kept),
        yardstick.samples.stored.ids if plan.data.may_leave else None,
        accuracy,
        missing,
        _timing(run, cases),
    )


def _kept(run: DeviceRun, build: FinishedBuild, planned: tuple[PlannedCase, ...]) -> KeptOutputs | None:
    infer = next((case for case in planned if case.kind == "infer"), None)
    if infer is None or run.results is None or build.manifest is None:
        return None
    path = run.results.outputs.get(infer.case_id)
    return None if path is None else KeptOutputs(path, build.manifest.outputs)


def _loaded(cases: tuple[tuple[PlannedCase, CaseEnd], ...]) -> Measured | None:
    """What the infer case's configuration told: memory after all samples, accelerator, load time."""
    finished = {case.kind: end.finished.measured for case, end in cases if end.finished is not None}
    return finished.get("infer") or finished.get("load")


def _parity(
    yardstick: Yardstick, kept: KeptOutputs | None
) -> tuple[tuple[tuple[str, OutputParity | LabelParity], ...], PhoneproofError | None]:
    if kept is None or yardstick.reference is None:
        return (), None
    try:
        return output_parities(yardstick.reference, kept), None
    except PhoneproofError as error:
        return (), error


def _compared(yardstick: Yardstick, kept: KeptOutputs | None) -> tuple[int, ...]:
    if yardstick.reference is None or kept is None:
        return ()
    return tuple(sorted(set(sample_numbers(yardstick.reference)) & set(sample_numbers(kept))))


def _accuracy(
    context: RunContext,
    plan: Plan,
    build: FinishedBuild,
    yardstick: Yardstick,
    kept: KeptOutputs | None,
) -> tuple[dict[str, AccuracyDrop], str | None]:
    if not plan.task.metrics:
        return {}, "not_asked"
    if yardstick.reference is None:
        return {}, "reference_failed"
    if kept is None:
        return {}, "not_run"
    samples = list(_compared(yardstick, kept))
    if not samples:
        return {}, "not_run"
    drops: dict[str, AccuracyDrop] = {}
    for metric in plan.task.metrics:
        if metric in BUILT_IN:
            if yardstick.labels is None:
                return drops, "no_labels"
            drops[metric] = _top_k(plan, yardstick, kept, samples, BUILT_IN[metric])
        else:
            drops[metric] = _scored(context, plan, build, yardstick, kept, samples, metric)
    return drops, None


def _top_k(plan: Plan, yardstick: Yardstick, kept: KeptOutputs, samples: list[int], k: int) -> AccuracyDrop:
    if yardstick.labels is None or yardstick.reference is None:
        raise ValueError("no labels or no reference")
    labels = np.array([int(yardstick.labels[sample]) for sample in samples])
    correct = [
        top_k_correct(stacked_output(one, plan.task.output, samples), labels, k)
        for one in (yardstick.reference, kept)
    ]
    return correctness_drop(correct[0], correct[1])


def _scored(
    context: RunContext,
    plan: Plan,
    build: FinishedBuild,
    yardstick: Yardstick,
    kept: KeptOutputs,
    samples: list[int],
    metric: str,
) -> AccuracyDrop:
    if yardstick.reference is None:
        raise ValueError("no reference")
    request = {
        "metric": metric,
        "folder": str(plan.folder),
        "labels": None if yardstick.labels is None else list(yardstick.labels),
        "samples": samples,
        "files": [_file(yardstick.reference), _file(kept)],
    }
    name = f"metric/{metric.replace(':', '.')}/{build.wanted.build_id.replace('/', '@')}"
    answer = context.call(name, "phoneproof.verify.metric", request)
    reference, scores = (np.array(values, dtype=np.float64) for values in answer["scores"])
    bounds = answer["bounds"]
    return score_drop(reference, scores, None if bounds is None else (bounds[0], bounds[1]))


def _file(kept: KeptOutputs) -> dict[str, Any]:
    tensors: tuple[TensorSpec, ...] = kept.tensors
    return {"path": str(Path(kept.path).absolute()), "tensors": to_dict(tensors)}


def _timing(run: DeviceRun, cases: tuple[tuple[PlannedCase, CaseEnd], ...]) -> Timing | None:
    found = next(((c, e) for c, e in cases if c.kind == "benchmark"), None)
    if found is None or found[1].outcome != "passed" or found[1].finished is None:
        return None
    rounds = run.rounds(found[0].case_id)
    if not rounds:
        return None
    measured = found[1].finished.measured
    batch = rounds[0].candidate_batch
    candidate = (1, 2) if rounds[0].order == "ABBA" else (0,)
    runs = tuple(t for one in rounds for i in candidate for t in one.visits_ns[i])
    comparison = None
    if rounds[0].order == "ABBA":
        comparison = compare(
            [
                AbbaRound.of_batches(one.visits_ns, one.baseline_batch or 1, one.candidate_batch)
                for one in rounds
            ]
        )
    summary = summarise_latency(runs, batch, measured.clock_resolution_ns)
    return Timing(summary, runs, batch, measured.first_ms, comparison)
