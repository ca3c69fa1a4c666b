"""What a reader wants to know of a report: pure answers that every renderer needs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from phoneproof.findings import FINDING_IDS, Finding, Severity
from phoneproof.report import units
from phoneproof.report.model import (
    CaseResult,
    Configuration,
    Interval,
    Latency,
    Parity,
    Recommendation,
    Report,
    ReportedBuild,
    ReportedDevice,
    Result,
)
from phoneproof.verify.verdicts import GateResult, Verdict

ResultKey = tuple[Configuration, str]
State = Literal["baseline", "pass", "fail", "inconclusive"]

Number = Literal["size", "latency", "speed", "accuracy", "parity", "outcomes"]
"""The kinds of numbers that findings are marked on."""

_EVERY_NUMBER: Final[frozenset[Number]] = frozenset(get_args(Number)) - {"size"}
"""What a build is beside its size, which is what it is."""
_TIMES: Final[frozenset[Number]] = frozenset({"latency", "speed"})
_OUTPUTS: Final[frozenset[Number]] = frozenset({"accuracy", "parity"})

TOUCHED_NUMBERS: Final[Mapping[str, frozenset[Number]]] = {
    "ACCURACY-AT-CHANCE": frozenset({"accuracy"}),
    **dict.fromkeys((one for one in FINDING_IDS if one.startswith("DATA-")), _OUTPUTS),
    **dict.fromkeys((one for one in FINDING_IDS if one.startswith("EDGE-")), frozenset({"outcomes"})),
    "HOST-BUSY": _TIMES,
    "HOST-SATURATES": _TIMES | _OUTPUTS,
    "MODEL-DYNAMIC-SHAPES": frozenset(),
    "MODEL-GENERATIVE": frozenset(),
    "MODEL-NORMALISATION-HEAVY": frozenset(),
    "MODEL-SMALL": frozenset(),
    "OUTPUT-CLASSES": frozenset({"accuracy"}),
    "OUTPUT-LABELS-SHIFTED": frozenset({"accuracy"}),
    "OUTPUT-CONSTANT": _OUTPUTS,
    "OUTPUT-DEAD-CHANNELS": _OUTPUTS,
    "OUTPUT-NONFINITE": _OUTPUTS,
    "OUTPUT-RAILED": _OUTPUTS,
    "OUTPUT-SCORES-CRUSHED": _OUTPUTS,
    "OUTPUT-UNCHANGING": _OUTPUTS,
    "TOOL-UNTESTED-VERSION": _EVERY_NUMBER,
    "BUILD-FLOAT-OPERATORS": _EVERY_NUMBER,
    "BUILD-KEPT-IN-INT8": _EVERY_NUMBER,
    "BUILD-NOT-DELEGATED": _TIMES,
    "BUILD-SIZE-UNUSUAL": frozenset({"size"}),
}
"""Which numbers of a result a finding of that id touches."""

BAD_OUTCOMES: Final = frozenset(
    {"failed", "crashed", "killed_low_memory", "timed_out", "device_lost", "not_run"}
)

_MODEL_AND_SOURCE: Final = 2
"""Parts of a build_id before the recipe: model / source / recipe [/ variant]."""


def key(result: Result) -> ResultKey:
    """What tells one result from another: the configuration and the device's id."""
    return result.configuration, result.device.id


def model_name(build_id: str) -> str:
    """The model's part of a build_id."""
    return build_id.split("/", 1)[0]


def models(report: Report) -> tuple[str, ...]:
    """Names of the models that have builds, in order, each once."""
    ids = [*(b.build_id for b in report.builds), *(r.configuration.build_id for r in report.results)]
    return tuple(dict.fromkeys(model_name(build_id) for build_id in ids))


def build_names(report: Report) -> Mapping[str, str]:
    """A short name by build_id: without the model and the source, as far as all builds share them."""
    ids = {b.build_id for b in report.builds} | {r.configuration.build_id for r in report.results}
    parts = [build_id.split("/") for build_id in ids]
    shared = 0
    while shared < _MODEL_AND_SOURCE and len({tuple(p[: shared + 1]) for p in parts}) == 1:
        if any(len(p) <= shared + 1 for p in parts):
            break
        shared += 1
    return {build_id: "/".join(build_id.split("/")[shared:]) for build_id in ids}


def build_sizes(report: Report) -> Mapping[str, int | None]:
    """Size in bytes by build_id; None for a build that failed."""
    measured = {r.configuration.build_id: r.size.bytes for r in report.results if r.size}
    return measured | {b.build_id: b.size_bytes for b in report.builds}


def configuration_text(result: Result) -> str:
    """How it ran: `onnxruntime, cpu, 1 thread`; what was asked for is named where it differs."""
    asked, actual = result.configuration.accelerator_requested, result.accelerator_actual
    where = asked if actual == asked else f"{actual or 'unknown'} (asked: {asked})"
    return f"{result.configuration.runtime}, {where}, {units.counted(result.configuration.threads, 'thread')}"


def placement_text(configuration: Configuration) -> str:
    """How it was asked to run, where the build is named beside it: `cpu, 4 threads`."""
    allowed = ", fallback allowed" if configuration.allow_fallback else ""
    return f"{configuration.accelerator_requested}, {units.counted(configuration.threads, 'thread')}{allowed}"


def ambiguous(report: Report) -> frozenset[ResultKey]:
    """Results whose build runs in several configurations on one device, so that its name is not enough."""
    uses = Counter((r.configuration.build_id, r.device.id) for r in report.results)
    return frozenset(key(r) for r in report.results if uses[r.configuration.build_id, r.device.id] > 1)


def devices(report: Report) -> tuple[ReportedDevice, ...]:
    """The devices that have results, in order, each once."""
    return tuple({r.device.id: r.device for r in report.results}.values())


def unreal(device: ReportedDevice) -> str | None:
    """The word that stands on every number of a device that did not run anything now; else None."""
    return {"simulated": "simulated", "replay": "replayed"}.get(device.kind)


def device_names(report: Report) -> Mapping[str, str]:
    """Name by device id."""
    return {device.id: device.name for device in devices(report)}


def outputs_are_right(result: Result) -> bool:
    """Whether its speed counts: the parity gate passed. A gate that is not there does not pass."""
    return any(gate.id == "parity" and gate.verdict == "pass" for gate in result.gates)


def state(result: Result) -> State:
    """How it is drawn: a baseline that passes is drawn as the baseline, anything else as its verdict."""
    return "baseline" if result.baseline and result.verdict == "pass" else result.verdict


def further_gates(result: Result) -> tuple[GateResult, ...]:
    """Gates that say more than the verdict's reason: those that do not pass, and those that pass by a reason
    of their own, as a parity that is rescued by accuracy does.
    """
    return tuple(
        gate
        for gate in result.gates
        if gate.reason != result.reason and (gate.verdict != "pass" or gate.reason.id != "gate_passed")
    )


def deciding_parity(result: Result) -> Parity | None:
    """The output that the parity gate speaks of; else the one that agrees least, by its worst slice.

    One whose SQNR is not defined agrees least of all.
    """
    named = {gate.reason.facts.get("output") for gate in result.gates if gate.id == "parity"}
    outputs = result.parity or ()
    told = [parity for parity in outputs if parity.output in named]
    return min(told or outputs, key=_rank, default=None)


def deciding_db(parity: Parity) -> float | None:
    """SQNR in dB that decides: the lower of the output's and its worst slice's. None where it has none."""
    if parity.exact or parity.sqnr_db is None:
        return None
    return parity.sqnr_db if parity.worst_slice_db is None else min(parity.sqnr_db, parity.worst_slice_db)


def slice_decides(parity: Parity) -> bool:
    """Whether what decides is the worst slice, and not the output as a whole."""
    return deciding_db(parity) != parity.sqnr_db


def _rank(parity: Parity) -> float:
    """Order of parities, the worst first."""
    value = deciding_db(parity)
    if value is not None:
        return value
    return float("inf") if parity.exact else float("-inf")


def accuracy_interval(result: Result) -> Interval | None:
    """Interval of the accuracy itself: the reference's value less the interval of the drop."""
    accuracy = result.accuracy
    if accuracy is None or accuracy.ci95 is None or accuracy.reference_value is None:
        return None
    low, high = accuracy.ci95
    return accuracy.reference_value - high, accuracy.reference_value - low


def run_times_ms(latency: Latency) -> tuple[float, ...]:
    """Time of one inference in ms for each timed run."""
    return tuple(run / latency.batch / 1e6 for run in latency.runs)


def bad_cases(result: Result) -> tuple[CaseResult, ...]:
    """The cases that did not pass."""
    return tuple(case for case in result.cases if case.outcome in BAD_OUTCOMES)


def builds_without_result(report: Report) -> tuple[ReportedBuild, ...]:
    """Builds that never ran, as when making them failed. They keep a row of their own."""
    ran = {r.configuration.build_id for r in report.results}
    return tuple(build for build in report.builds if build.build_id not in ran)


def advice(report: Report) -> tuple[Recommendation, ...]:
    """The recommendations to show: one for each model and platform, or that of a run without any."""
    return report.recommendations or (report.recommendation,)


def recommended(report: Report, wanted: Recommendation) -> Result | None:
    """The result behind a recommendation; the fastest where its build has several on the device."""
    found = [
        r
        for r in report.results
        if r.configuration.build_id == wanted.build_id and wanted.device in (None, r.device.id)
    ]
    return min(found, key=_recommended_order) if found else None


def _recommended_order(result: Result) -> tuple[bool, float]:
    return result.verdict != "pass", result.latency.median_ms if result.latency else float("inf")


def reference_result(report: Report, result: Result) -> Result | None:
    """The baseline's result that `result` is compared with: on the same device, run as alike as can be."""
    found = [
        r
        for r in report.results
        if r.device.id == result.device.id
        and (r.configuration.build_id == result.comparison.baseline if result.comparison else r.baseline)
    ]
    same = ("runtime", "accelerator_requested", "threads")
    return max(
        found,
        key=lambda r: sum(
            getattr(r.configuration, name) == getattr(result.configuration, name) for name in same
        ),
        default=None,
    )


@dataclass(frozen=True)
class Mark:
    """A finding that is marked on the numbers it touches. number: its place in the list of findings."""

    number: int
    id: str
    waived: bool


def marks(report: Report, result: Result, number: Number) -> tuple[Mark, ...]:
    """The findings to mark on a number of `result`: those waived, and those more than a note.

    One of another version, whose id is not known, is marked on every number.
    """
    touching = set(result.findings)
    return tuple(
        Mark(place, finding.id, finding.waived)
        for place, finding in enumerate(report.findings, 1)
        if finding.id in touching
        and number in TOUCHED_NUMBERS.get(finding.id, frozenset(get_args(Number)))
        and (finding.waived or finding.severity is not Severity.INFO)
        and _is_about(finding, report, result)
    )


def _is_about(finding: Finding, report: Report, result: Result) -> bool:
    """Whether it is this result that a finding of its id touches: the id alone does not tell it from one
    about another set, build, source model or device.
    """
    build_id = result.configuration.build_id
    build_ids = {b.build_id for b in report.builds} | {r.configuration.build_id for r in report.results}
    if finding.subject == "calibration":
        return all(b.calibration is not None for b in report.builds if b.build_id == build_id)
    subjects = build_ids | {_form(one) for one in build_ids} | {r.device.id for r in report.results}
    return finding.subject not in subjects - {build_id, _form(build_id), result.device.id}


def _form(build_id: str) -> str:
    """model / source: the form of the network that a build was made of."""
    return "/".join(build_id.split("/")[:_MODEL_AND_SOURCE])


def tally(report: Report) -> Mapping[Verdict, int]:
    """Number of results by verdict."""
    counts = Counter(r.verdict for r in report.results)
    return {verdict: counts[verdict] for verdict in ("pass", "fail", "inconclusive")}
