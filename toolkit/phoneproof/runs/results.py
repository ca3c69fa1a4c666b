"""From measurements to the results of a report: gates, verdicts, diagnosis."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from phoneproof.devices.device import DeviceDescription
from phoneproof.errors import Fact
from phoneproof.findings import Finding
from phoneproof.plan.model import Plan
from phoneproof.protocol.attempts import BadEnd, CaseEnd
from phoneproof.recipes.table import Precision
from phoneproof.report import model as report
from phoneproof.runs.bearing import bears_on, is_accuracy_telling
from phoneproof.runs.edge_reporting import edge_results
from phoneproof.runs.measuring import Measurement, Timing
from phoneproof.runs.remedying import remedies_of
from phoneproof.verify.accuracy import AccuracyDrop
from phoneproof.verify.comparison import LEAST_ROUNDS, Comparison
from phoneproof.verify.deciding import rounds_to_decide
from phoneproof.verify.diagnosis import Leg, LegName, diagnose
from phoneproof.verify.edge import edge_gate
from phoneproof.verify.gates import (
    Limits,
    OutputParityOf,
    PrecisionClass,
    accuracy_gate,
    fallback_gate,
    latency_gate,
    outcomes_gate,
    parity_gate,
    size_gate,
    speed_gate,
)
from phoneproof.verify.intervals import Interval
from phoneproof.verify.latency import ValidityRules
from phoneproof.verify.parity import LabelParity, OutputParity, WorstSample
from phoneproof.verify.verdicts import GateResult, Reason, overall
from phoneproof.verify.waiting import LARGEST_WAITING_SHARE

_MOST_LISTED_SAMPLES: Final = 1_000


def limits_of(plan: Plan) -> Limits:
    """The plan's gates."""
    gates = plan.gates
    return Limits(
        float32_db=gates.parity_min_db.float32,
        float16_db=gates.parity_min_db.float16,
        int8_db=gates.parity_min_db.int8,
        int8_fail_db=gates.parity_min_db.int8_fail,
        accuracy_drop=gates.accuracy_drop_max,
        speedup=gates.speedup_min,
        latency_ms=gates.latency_max_ms,
        size_ratio=gates.size_ratio_max,
        outcomes=gates.outcomes,
    )


def result_of(
    measured: Measurement,
    limits: Limits,
    device: report.ReportedDevice,
    baseline_bytes: int | None,
    reference_failed: bool,
    findings: Sequence[Finding],
) -> report.Result:
    """One result with its gates and verdict."""
    manifest = measured.build.manifest
    if manifest is None:
        raise ValueError(f"{measured.build.wanted.build_id} was not built")
    is_baseline = measured.build.wanted.is_baseline
    size = None
    if baseline_bytes is not None and not is_baseline:
        size = report.Size(baseline_bytes, manifest.size_bytes, manifest.size_bytes / baseline_bytes)
    gates = _gates(measured, limits, size, reference_failed, is_accuracy_telling(findings, measured))
    verdict, reason = overall(gates)
    requested = measured.placement.accelerator
    accuracies = [_accuracy(metric, drop) for metric, drop in measured.accuracy.items()]
    return report.Result(
        configuration=report.Configuration(
            measured.build.wanted.build_id,
            measured.build.wanted.runtime.name,
            requested,
            measured.placement.allow_fallback,
            measured.placement.threads,
        ),
        recipe=measured.build.wanted.recipe.name,
        device=device,
        accelerator_actual=measured.accelerator_actual,
        latency=_latency(measured),
        comparison=_comparison(measured),
        size=size,
        accuracy=next(iter(accuracies), None),
        parity=tuple(_parity(measured, name, one) for name, one in measured.parity) or None,
        edge=measured.edges.outcomes,
        outcomes=measured.outcomes,
        cases=tuple(_cases(measured)),
        gates=gates,
        verdict=verdict,
        reason=reason,
        findings=tuple(sorted({f.id for f in findings if bears_on(f, measured, device.id)})),
        baseline=is_baseline,
        more_accuracy=tuple(accuracies[1:]),
        edge_results=edge_results(measured.edges),
        operators_by_accelerator=measured.operators_by_accelerator,
        remedies=remedies_of(measured, gates, findings),
    )


def _gates(
    measured: Measurement,
    limits: Limits,
    size: report.Size | None,
    reference_failed: bool,
    accuracy_tells: bool,
) -> tuple[GateResult, ...]:
    """The gates of one result. Limits are for the builds that the plan names: a baseline that was added to
    compare with need only run, where it was asked to, and be right. accuracy_tells: see bearing.py.
    """
    wanted = measured.build.wanted
    accuracy = accuracy_gate(measured.accuracy, limits.accuracy_drop, measured.accuracy_missing)
    parity = _parity_gate(measured, limits, accuracy if accuracy_tells else None, reference_failed)
    timing = measured.timing
    median = timing.summary.median_ns / 1e6 if timing else None
    interval = _milliseconds(timing.summary.median_interval) if timing else None
    placement = measured.placement
    comparison = timing.comparison if timing else None
    unknown = measured.unknown_operators
    if unknown is not None:
        reason = Reason.of("operator_unknown", operators=unknown)
        return tuple(GateResult(name, "inconclusive", reason) for name in ("outcomes", "parity"))
    judged = [
        outcomes_gate(measured.outcomes, measured.load_failed) if limits.outcomes else None,
        fallback_gate(placement.accelerator, measured.accelerator_actual, placement.allow_fallback),
        parity,
        edge_gate({one.name: one.judgement for one in measured.edges.results}),
    ]
    if wanted.asked:
        waiting = timing.summary.waiting_share if timing else None
        judged += [accuracy, latency_gate(median, interval, limits.latency_ms, waiting)]
    if wanted.baseline is not None:
        judged.append(
            speed_gate(comparison, limits.speedup, parity.verdict == "pass", _why_no_speed(measured))
        )
        judged.append(size_gate(size.ratio if size else None, limits.size_ratio))
    return tuple(gate for gate in judged if gate is not None)


def _parity_gate(
    measured: Measurement, limits: Limits, accuracy: GateResult | None, reference_failed: bool
) -> GateResult:
    if reference_failed:
        return GateResult("parity", "inconclusive", Reason("reference_failed"))
    if measured.parity_error is not None:
        reason = Reason.of("outputs_differ_in_form", what=measured.parity_error.what)
        return GateResult("parity", "fail", reason)
    outputs = [OutputParityOf(name, one) for name, one in measured.parity]
    return parity_gate(outputs, precision_of(measured), limits, accuracy)


def precision_of(measured: Measurement) -> PrecisionClass:
    """Which parity limit a build is held to."""
    manifest = measured.build.manifest
    match manifest.precision if manifest is not None else measured.build.wanted.recipe.precision:
        case Precision.FLOAT32:
            return "float32"
        case Precision.FLOAT16:
            return "float16"
        case Precision.INT8 | Precision.INT16X8:
            return "int8"


def _why_no_speed(measured: Measurement) -> str:
    if measured.build.wanted.runtime.fidelity == "reference":
        return "reference_fidelity"
    return "load_failed" if measured.load_failed else "not_run"


def _latency(measured: Measurement) -> report.Latency | None:
    timing = measured.timing
    if timing is None:
        return None
    summary = timing.summary
    loaded = measured.loaded
    return report.Latency(
        median_ms=summary.median_ns / 1e6,
        p50_ms=_ms(summary.p50_ns),
        p90_ms=_ms(summary.p90_ns),
        p95_ms=_ms(summary.p95_ns),
        p99_ms=_ms(summary.p99_ns),
        p999_ms=_ms(summary.p999_ns),
        min_ms=summary.min_ns / 1e6,
        mean_ms=summary.mean_ns / 1e6,
        first_ms=timing.first_ms,
        load_ms=loaded.load_ms if loaded else None,
        peak_memory_bytes=loaded.peak_memory_bytes if loaded else None,
        runs=timing.runs_ns,
        batch=timing.batch,
        validity="VALID" if summary.valid else "INVALID",
        validity_reasons=tuple(_validity_reason(reason, timing) for reason in summary.reasons),
    )


def _validity_reason(id: str, timing: Timing) -> Reason:
    summary, rules = timing.summary, ValidityRules()
    facts: dict[str, Fact] = {
        "runs": summary.runs,
        "least": rules.least_runs,
        "seconds": summary.duration_s,
        "least_seconds": rules.least_duration_s,
        "drift": summary.drift,
        "run_ns": summary.median_ns * summary.batch,
        "resolution_ns": summary.clock_resolution_ns,
        "share": summary.waiting_share,
        "largest": rules.largest_waiting_share,
    }
    needed = {
        "too_few_runs": ("runs", "least"),
        "too_short": ("seconds", "least_seconds"),
        "clock_too_coarse": ("resolution_ns", "run_ns"),
        "drifting": ("drift",),
        "machine_busy": ("share", "largest"),
    }
    return Reason(id, {name: facts[name] for name in needed.get(id, ())})


def _comparison(measured: Measurement) -> report.Comparison | None:
    comparison = measured.timing.comparison if measured.timing else None
    baseline = measured.build.wanted.baseline
    if comparison is None or baseline is None:
        return None
    reason = None if comparison.reason is None else Reason(comparison.reason, _noise_facts(comparison))
    ends = _ends(comparison.interval)
    return report.Comparison(baseline, comparison.ratio, ends, comparison.verdict, comparison.rounds, reason)


def _noise_facts(comparison: Comparison) -> dict[str, Fact]:
    if comparison.reason == "too_few_rounds":
        return {"rounds": comparison.rounds, "least": LEAST_ROUNDS}
    if comparison.reason == "wide_interval":
        return {"rounds": comparison.rounds, "needed_rounds": rounds_to_decide(comparison, None)}
    if comparison.reason == "machine_busy":
        return {"share": comparison.waiting_share, "largest": LARGEST_WAITING_SHARE}
    return {}


def _accuracy(metric: str, drop: AccuracyDrop) -> report.Accuracy:
    reason = None if drop.missing is None else Reason(drop.missing)
    ends = _ends(drop.interval)
    return report.Accuracy(metric, drop.n, drop.build, drop.reference, drop.drop, ends, reason)


def _ends(interval: Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.lo, interval.hi)


def _parity(measured: Measurement, name: str, one: OutputParity | LabelParity) -> report.Parity:
    if isinstance(one, LabelParity):
        exact = one.agreement == 1.0
        told = None if exact else Reason.of("labels_differ", output=name, agreement=one.agreement)
        return report.Parity(name, one.samples, None, exact, None, None, None, None, told)
    slice_ = min(one.worst_slices, key=lambda s: s.sqnr_db, default=None)
    sample = one.worst_sample
    return report.Parity(
        output=name,
        n=one.samples,
        sqnr_db=one.sqnr_db,
        exact=one.exact,
        mse=one.mse,
        worst_slice_db=slice_.sqnr_db if slice_ else None,
        worst_slice=report.WorstSlice(slice_.axis, slice_.index) if slice_ else None,
        worst_sample=_worst_sample(measured, sample) if sample else None,
        reason=None if one.reason is None else Reason(one.reason),
    )


def _worst_sample(measured: Measurement, worst: WorstSample) -> report.WorstSample:
    """Parity counts the samples that were compared; the report names them as the set does."""
    number = measured.compared[worst.index]
    return report.WorstSample(number, worst.sqnr_db, _sample_id(measured, number))


def _sample_id(measured: Measurement, number: int) -> str | None:
    return None if measured.sample_ids is None else measured.sample_ids[number]


def _cases(measured: Measurement) -> Iterable[report.CaseResult]:
    for case, end in measured.cases:
        listed = sorted(end.bad_samples.items())[:_MOST_LISTED_SAMPLES]
        if all(bad.outcome != end.outcome for _, bad in listed):
            yield _case(case.case_id, case.kind, end, end.bad, None)
        for sample, bad in listed:
            name = _sample_id(measured, sample)
            shown = str(sample) if name is None else f"{sample}, {name}"
            yield _case(case.case_id, case.kind, end, bad, shown)


def _case(case_id: str, kind: str, end: CaseEnd, bad: BadEnd | None, sample: str | None) -> report.CaseResult:
    outcome = bad.outcome if bad is not None else end.outcome
    error = bad.error if bad is not None else None
    return report.CaseResult(
        case_id,
        kind,
        outcome,
        cause=_cause(bad),
        confidence=bad.confidence if bad is not None else None,
        sample=sample,
        error=f"{error.type}: {error.message}" if error is not None else None,
    )


def _cause(bad: BadEnd | None) -> str | None:
    if bad is None:
        return None
    return (
        f"{bad.cause} {bad.code}" if bad.cause in ("signal", "exited") and bad.code is not None else bad.cause
    )


def diagnosis_of(
    measured: Measurement,
    baseline: Measurement | None,
    limits: Limits,
    device: report.ReportedDevice,
    reference_failed: bool,
) -> report.Diagnosis:
    """Where along the chain this build begins to differ. On the host the device's legs do not exist.

    baseline: the float build's measurement at the same place; None for a float build itself, and where there
    is none.
    """
    wanted = measured.build.wanted
    is_float = wanted.is_baseline
    own = measured if is_float else baseline
    legs = [
        Leg("source_host", "missing" if reference_failed else "agrees"),
        Leg("float_host", "missing", wanted.baseline) if own is None else _leg("float_host", own, limits),
        Leg("quantized_host", "missing") if is_float else _leg("quantized_host", measured, limits),
        Leg("device_cpu", "missing"),
        Leg("device_accelerator", "missing"),
    ]
    found = diagnose(legs, "float_host" if is_float else "quantized_host")
    return report.Diagnosis(
        wanted.build_id, device.id, found.cause, found.legs, {"unmeasured": found.unmeasured}
    )


def _leg(leg_name: LegName, measured: Measurement, limits: Limits) -> Leg:
    """A leg disagrees below the decibels at which the gate fails. Where an output has labels that differ and
    no other tells, nothing can be said: missing.
    """
    build_id = measured.build.wanted.build_id
    fail_db, _ = limits.parity_db(precision_of(measured))
    if measured.parity_error is not None:
        return Leg(leg_name, "disagrees", build_id, None, fail_db)
    numbers = [one for _, one in measured.parity if isinstance(one, OutputParity)]
    labels = [one for _, one in measured.parity if isinstance(one, LabelParity)]
    differ = any(one.agreement < 1 for one in labels)
    if not measured.parity or (not numbers and differ):
        return Leg(leg_name, "missing", build_id, None, fail_db)
    lowest = min((value for one in numbers if (value := worst_db(one)) is not None), default=None)
    undefined = any(one.sqnr_db is None and not one.exact for one in numbers)
    disagrees = undefined or (lowest is not None and lowest < fail_db)
    return Leg(leg_name, "disagrees" if disagrees else "agrees", build_id, lowest, fail_db)


def worst_db(one: OutputParity | LabelParity) -> float | None:
    """The lowest SQNR of an output and its slices; None where it is equal or has none."""
    if isinstance(one, LabelParity) or one.sqnr_db is None:
        return None
    return min([one.sqnr_db, *(s.sqnr_db for s in one.worst_slices)])


def reported_device(description: DeviceDescription) -> report.ReportedDevice:
    """A device as the report names it."""
    facts: Mapping[str, Fact] = dict(description.environment)
    return report.ReportedDevice(
        description.device_id,
        description.name,
        description.kind,
        str(description.environment.get("os") or "unknown"),
        facts,
    )


def _ms(value_ns: float | None) -> float | None:
    return None if value_ns is None else value_ns / 1e6


def _milliseconds(interval: Interval | None) -> Interval | None:
    return None if interval is None else Interval(interval.lo / 1e6, interval.hi / 1e6)
