"""What a report says, as data. `report.json` is this in JSON (protocol/schema/report.schema.json).

Facts only: verdicts, reasons and findings are ids with facts, and `sentences` makes the words. A value that
was not measured is None, never a number; no float is NaN or infinite. Strings that came from a model, a data
set or a device are foreign text, kept as they came.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from phoneproof.builds.manifest import FloatOperator
from phoneproof.devices.device import DeviceKind
from phoneproof.errors import Fact
from phoneproof.findings import Finding
from phoneproof.protocol.attempts import Outcome
from phoneproof.report.audited import ModelAudit
from phoneproof.report.edge import EdgeInput, EdgeResult
from phoneproof.verify.diagnosis import Cause, Leg
from phoneproof.verify.verdicts import GateResult, Reason, Verdict

REPORT_VERSION: Final = 2

Speed = Literal["faster", "slower", "no_difference", "too_noisy"]
Validity = Literal["VALID", "INVALID"]
Interval = tuple[float, float]


@dataclass(frozen=True)
class RunFacts:
    """The run that the report is of.

    created: ISO 8601 with a zone. command: argument list as started. host: facts of the machine.
    title, client: as the plan gives them, for the head of the page.
    """

    id: str
    created: str
    phoneproof_version: str
    plan_sha256: str
    command: tuple[str, ...]
    seed: int
    host: Mapping[str, Fact]
    title: str | None = None
    client: str | None = None


@dataclass(frozen=True)
class ReportedModel:
    """One source model. sha256: of the file, or of a directory's sorted (path, sha256) list. audit: what its
    inspection told; None in reports of runs that did not audit it.
    """

    name: str
    source: str
    format: str
    sha256: str
    size_bytes: int
    audit: ModelAudit | None = None


@dataclass(frozen=True)
class BuildError:
    """Why a build failed. log_tail: last lines of the toolchain's log, foreign text."""

    what: str
    where: str | None
    next_step: str | None
    facts: Mapping[str, Fact] = field(default_factory=dict)
    log_tail: str = ""


@dataclass(frozen=True)
class Calibration:
    """What ranges were estimated from. sha256: digest of the calibration set."""

    samples: int
    method: str
    sha256: str


@dataclass(frozen=True)
class ReportedBuild:
    """One build, made or failed.

    recipe: None for a build that was made elsewhere (`file =` in the plan).
    size_bytes, sha256: None when it failed. cached: taken from the build store, not made in this run.
    operators: number of operators by the dtype they compute in.
    """

    build_id: str
    recipe: str | None
    source: str
    status: Literal["built", "failed"]
    size_bytes: int | None
    sha256: str | None
    operators: Mapping[str, int]
    float_operators: tuple[FloatOperator, ...]
    cached: bool
    error: BuildError | None
    tool_versions: Mapping[str, str]
    calibration: Calibration | None


@dataclass(frozen=True)
class Configuration:
    """One way of running a build. With the device's id it is the key of a result."""

    build_id: str
    runtime: str
    accelerator_requested: str
    allow_fallback: bool
    threads: int


@dataclass(frozen=True)
class ReportedDevice:
    """Where it ran. That it is simulated or a replay is said beside every number."""

    id: str
    name: str
    kind: DeviceKind
    os: str
    facts: Mapping[str, Fact] = field(default_factory=dict)


@dataclass(frozen=True)
class Latency:
    """Time of one inference; the invoke only, warm-up and first inference apart.

    runs: every timed run in `runs_unit`, in order; one run is `batch` inferences in a row.
    *_ms: milliseconds of one inference, so a run's time divided by `batch`.
    p50_ms ... p999_ms: None where there are too few runs for that percentile.
    first_ms: the first inference after loading. load_ms: loading the build.
    validity_reasons: why INVALID, as ids with facts.
    """

    median_ms: float
    p50_ms: float | None
    p90_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    p999_ms: float | None
    min_ms: float
    mean_ms: float
    first_ms: float | None
    load_ms: float | None
    peak_memory_bytes: int | None
    runs: tuple[int, ...]
    batch: int
    validity: Validity
    validity_reasons: tuple[Reason, ...] = ()
    runs_unit: Literal["ns"] = "ns"


@dataclass(frozen=True)
class Comparison:
    """Speed against the baseline, measured interleaved.

    baseline: build_id. ratio: baseline's time over this build's, so 2.0 is twice as fast; None without a
    round. ci95: 95 % interval of the ratio. rounds: number of ABBA rounds behind it.
    reason: why too_noisy, else None.
    """

    baseline: str
    ratio: float | None
    ci95: Interval | None
    verdict: Speed
    rounds: int
    reason: Reason | None = None

    @property
    def counted_interval(self) -> Interval | None:
        """The interval where it can be relied on: that of a busy machine may lie far from a quiet one's."""
        return None if self.reason is not None and self.reason.id == "machine_busy" else self.ci95


@dataclass(frozen=True)
class Size:
    """Size against the baseline. ratio: bytes / baseline_bytes, so 0.25 is a quarter."""

    baseline_bytes: int
    bytes: int
    ratio: float


@dataclass(frozen=True)
class Accuracy:
    """Accuracy on n samples of the evaluation set, the same ones for reference and build.

    drop: reference_value - value. ci95: 95 % interval of the drop, paired.
    reason: why there is no interval, else None.
    """

    metric: str
    n: int
    value: float
    reference_value: float | None
    drop: float | None
    ci95: Interval | None
    reason: Reason | None = None


@dataclass(frozen=True)
class WorstSlice:
    """The slice along one axis of an output that agrees least with the reference."""

    axis: int
    index: int


@dataclass(frozen=True)
class WorstSample:
    """The sample whose output agrees least. sqnr_db: None when it is equal.

    id: the sample's name in its set, foreign text; None where the plan keeps names out of reports.
    """

    index: int
    sqnr_db: float | None
    id: str | None = None


@dataclass(frozen=True)
class Parity:
    """How far one output is from the reference's over n samples.

    sqnr_db: signal to quantization noise in dB; None with exact=True when the outputs are equal, and None
    with exact=False when it is not defined (a reference of zeros, a value that is not finite).
    worst_slice_db: the same of the worst slice. reason: why sqnr_db is not defined, else None.
    """

    output: str
    n: int
    sqnr_db: float | None
    exact: bool
    mse: float | None
    worst_slice_db: float | None
    worst_slice: WorstSlice | None
    worst_sample: WorstSample | None
    reason: Reason | None = None


@dataclass(frozen=True)
class CaseResult:
    """How one case of a job ended.

    cause, confidence: of a crash (`SIGSEGV`, `certain`). sample: the input that it is pinned to.
    error: text of the runtime or harness, foreign.
    """

    case_id: str
    kind: str
    outcome: Outcome
    cause: str | None = None
    confidence: str | None = None
    sample: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Result:
    """All that is known of one configuration on one device.

    accelerator_actual: None when unknown, and unknown never passes.
    edge, outcomes: number of cases by outcome, edge inputs apart.
    findings: ids of the findings that touch these numbers, waived ones too.
    edge_results: one for each edge input that was run. operators_by_accelerator: number of operators on
    each, as the runtime reports it; None where it does not tell.
    remedies: what to try against a loss of accuracy.
    baseline: the float build that others are compared to.
    accuracy: by the first of the plan's metrics that has a value. more_accuracy: by those after it.
    """

    configuration: Configuration
    recipe: str | None
    device: ReportedDevice
    accelerator_actual: str | None
    latency: Latency | None
    comparison: Comparison | None
    size: Size | None
    accuracy: Accuracy | None
    parity: tuple[Parity, ...] | None
    edge: Mapping[Outcome, int]
    outcomes: Mapping[Outcome, int]
    cases: tuple[CaseResult, ...]
    gates: tuple[GateResult, ...]
    verdict: Verdict
    reason: Reason
    findings: tuple[str, ...] = ()
    baseline: bool = False
    more_accuracy: tuple[Accuracy, ...] = ()
    edge_results: tuple[EdgeResult, ...] = ()
    operators_by_accelerator: Mapping[str, int] | None = None
    remedies: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """Where along the chain a build on a device (its id) begins to differ."""

    build_id: str
    device: str
    cause: Cause
    legs: tuple[Leg, ...]
    facts: Mapping[str, Fact] = field(default_factory=dict)


@dataclass(frozen=True)
class Recommendation:
    """The build to ship, or None with the reason. device: the id of the device whose numbers say so."""

    build_id: str | None
    device: str | None
    reason: Reason


Platform = Literal["android", "ios", "host"]


@dataclass(frozen=True)
class ModelRecommendation(Recommendation):
    """The build of one model to ship on one platform. model: its name, the first part of its builds' ids."""

    model: str
    platform: Platform


@dataclass(frozen=True)
class NotMeasured:
    """Something that a reader may expect and that this run did not measure."""

    what: str
    reason: Reason


@dataclass(frozen=True)
class Reproduce:
    """What it takes to get the same again. hashes: sha256 by what it is of."""

    command: tuple[str, ...]
    hashes: Mapping[str, str]
    versions: Mapping[str, str]
    seed: int


@dataclass(frozen=True)
class Report:
    """The whole report.

    recommendation: the only one; where there are several models or platforms with different builds, build_id
    is None and `recommendations` has one for each model and platform.
    """

    run: RunFacts
    models: tuple[ReportedModel, ...]
    findings: tuple[Finding, ...]
    builds: tuple[ReportedBuild, ...]
    results: tuple[Result, ...]
    diagnosis: tuple[Diagnosis, ...]
    recommendation: Recommendation
    not_measured: tuple[NotMeasured, ...]
    reproduce: Reproduce
    recommendations: tuple[ModelRecommendation, ...] = ()
    edge_inputs: tuple[EdgeInput, ...] = ()
    version: int = REPORT_VERSION
