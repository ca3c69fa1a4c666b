"""job.json: work for one device. Prose and rules stand in protocol/PROTOCOL.md."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from phoneproof.errors import ProtocolError
from phoneproof.protocol.codec import dumps_canonical, from_dict, to_dict

PROTOCOL_MAJOR: Final = 1
PROTOCOL_MINOR: Final = 0

Interleaving = Literal["in_process", "by_process", "none"]


@dataclass(frozen=True)
class ProtocolVersion:
    """A reader refuses another major version, and a minor version above its own."""

    major: int = PROTOCOL_MAJOR
    minor: int = PROTOCOL_MINOR


@dataclass(frozen=True)
class FileRef:
    """A file of the job, kept on the device under its sha256. `name` is a file name or inner path."""

    name: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class ModelFiles:
    """A build's model: `entry` is the name of its one file, or of the folder that all `files` lie in."""

    entry: str
    files: tuple[FileRef, ...]


@dataclass(frozen=True)
class Configuration:
    """One way of running a build."""

    configuration_id: str
    build_id: str
    runtime: str
    accelerator: str
    allow_fallback: bool
    threads: int
    model: ModelFiles
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Shard:
    """`count` consecutive samples in one file."""

    file: FileRef
    count: int


@dataclass(frozen=True)
class RawInput:
    """Samples already in the build's input dtype and layout, little-endian, one after the other."""

    kind: Literal["raw"]
    name: str
    dtype: str
    shape: tuple[int, ...]
    shards: tuple[Shard, ...]


@dataclass(frozen=True)
class TableInput:
    """uint8 pixels, height x width x channels, and for each channel a table of 256 values in the input dtype.

    shape: of the build's input, batch included; layout says where its channels are.
    table: file of channels x 256 little-endian elements of dtype.
    """

    kind: Literal["u8+table"]
    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: Literal["nchw", "nhwc"]
    pixels_shape: tuple[int, int, int]
    shards: tuple[Shard, ...]
    table: FileRef


@dataclass(frozen=True)
class SampleSet:
    """The samples that cases draw from, for builds with the same input tensors."""

    samples_id: str
    count: int
    inputs: tuple[RawInput | TableInput, ...]


@dataclass(frozen=True)
class Keep:
    """What is kept of the outputs of an inference.

    full: all values. topk: the k largest values and their int32 indices along the last axis, largest first,
    the lower index first among equals. argmax: int32 index of the first largest along `axis`. none: nothing.
    """

    kind: Literal["full", "topk", "argmax", "none"]
    k: int | None = None
    axis: int | None = None


@dataclass(frozen=True)
class LoadCase:
    """Load a configuration. Always its first case."""

    kind: Literal["load"]
    case_id: str
    configuration: str


@dataclass(frozen=True)
class InferCase:
    """Run samples first … first + count - 1, one at a time, and keep their outputs."""

    kind: Literal["infer"]
    case_id: str
    configuration: str
    samples: str
    first: int
    count: int
    keep: Keep


@dataclass(frozen=True)
class BenchmarkCase:
    """Time a candidate, alone or in ABBA rounds with its baseline (A baseline, B candidate).

    Each side runs the first sample of its set over and over: samples for the candidate, baseline_samples for
    the baseline, whose inputs may be of another dtype.
    A visit is a stretch of runs of one side without a pause. It lasts about visit_ms, and at most
    max_runs_per_visit timed runs. A run faster than batch_below_ns is timed in batches that reach it.
    """

    kind: Literal["benchmark"]
    case_id: str
    candidate: str
    baseline: str | None
    samples: str
    baseline_samples: str | None
    rounds: int
    interleaving: Interleaving
    warmup_ms: int
    visit_ms: int
    max_runs_per_visit: int
    batch_below_ns: int
    pause_ms: int


Case = LoadCase | InferCase | BenchmarkCase


@dataclass(frozen=True)
class Limits:
    """When the supervisor ends the runner, and when it stops trying.

    interruptions_at_one_place: endings that nobody saw (host killed, reboot) at one case and sample, after
    which the case is blamed.
    """

    load_timeout_ms: int = 120_000
    sample_timeout_ms: int = 60_000
    round_timeout_ms: int = 120_000
    memory_bytes: int | None = None
    heartbeat_ms: int = 1_000
    bad_samples_per_case: int = 10
    max_attempts: int = 50
    start_failures: int = 3
    interruptions_at_one_place: int = 3


@dataclass(frozen=True)
class Job:
    """Work for one device. Cases run in order."""

    protocol: ProtocolVersion
    job_id: str
    configurations: tuple[Configuration, ...]
    samples: tuple[SampleSet, ...]
    cases: tuple[Case, ...]
    limits: Limits

    def case(self, case_id: str) -> Case:
        """The case of that id; KeyError if there is none."""
        return {case.case_id: case for case in self.cases}[case_id]

    def configuration(self, configuration_id: str) -> Configuration:
        """The configuration of that id; KeyError if there is none."""
        return {c.configuration_id: c for c in self.configurations}[configuration_id]

    def sample_set(self, samples_id: str) -> SampleSet:
        """The sample set of that id; KeyError if there is none."""
        return {s.samples_id: s for s in self.samples}[samples_id]

    def files(self) -> dict[str, FileRef]:
        """Every file the device needs, by sha256."""
        refs = [ref for c in self.configurations for ref in c.model.files]
        for one_input in (i for s in self.samples for i in s.inputs):
            refs += [shard.file for shard in one_input.shards]
            if isinstance(one_input, TableInput):
                refs.append(one_input.table)
        return {ref.sha256: ref for ref in refs}


def configurations_of(case: Case) -> tuple[str, ...]:
    """Ids of the configurations that a case runs, the baseline first."""
    if isinstance(case, BenchmarkCase):
        return (case.candidate,) if case.baseline is None else (case.baseline, case.candidate)
    return (case.configuration,)


def samples_of(case: InferCase | BenchmarkCase) -> tuple[str, ...]:
    """Ids of the sample sets that a case draws from, the baseline's first."""
    if isinstance(case, BenchmarkCase) and case.baseline_samples is not None:
        return (case.baseline_samples, case.samples)
    return (case.samples,)


def new_job(
    configurations: tuple[Configuration, ...],
    samples: tuple[SampleSet, ...],
    cases: tuple[Case, ...],
    limits: Limits,
) -> Job:
    """A job with its id: sha256 of the canonical form without `job_id`. ProtocolError if it is not sound."""
    draft = Job(ProtocolVersion(), "", configurations, samples, cases, limits)
    job = Job(draft.protocol, _digest(draft), configurations, samples, cases, limits)
    check_job(job)
    return job


def _digest(job: Job) -> str:
    content = to_dict(job)
    del content["job_id"]
    return hashlib.sha256(dumps_canonical(content).encode()).hexdigest()


def read_job(text: str) -> Job:
    """Parse job.json. Versions are compared before anything else is looked at."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ProtocolError(f"Not JSON: {error}.", where="job.json") from None
    check_version(content, "job.json")
    job = from_dict(Job, content)
    if job.job_id != _digest(job):
        raise ProtocolError("The job does not have the digest that it names.", where="job.json: job_id")
    check_job(job)
    return job


def check_version(content: object, where: str) -> None:
    """Refuse what a program of another protocol version wrote."""
    version = content.get("protocol") if isinstance(content, dict) else None
    if not isinstance(version, dict):
        raise ProtocolError("No protocol version.", where=where)
    major, minor = version.get("major"), version.get("minor")
    if major != PROTOCOL_MAJOR or not isinstance(minor, int) or minor > PROTOCOL_MINOR:
        raise ProtocolError(
            f"Protocol {major}.{minor}, but this program speaks {PROTOCOL_MAJOR}.{PROTOCOL_MINOR}.",
            where=where,
            next_step="Install the same version of phoneproof and of its harness.",
        )


def check_job(job: Job) -> None:
    """ProtocolError for ids used twice or undefined, ranges outside the samples, or a late load case."""
    for kind, ids in (
        ("configuration", [c.configuration_id for c in job.configurations]),
        ("samples", [s.samples_id for s in job.samples]),
        ("case", [c.case_id for c in job.cases]),
    ):
        for one in ids:
            if ids.count(one) > 1 or not is_plain_id(one):
                raise ProtocolError(
                    f"The {kind} id {one[:80]!r} is used twice or not plain.", where="job.json"
                )
    loaded: set[str] = set()
    for case in job.cases:
        _check_case(job, case, loaded)
    for ref in job.files().values():
        if not is_inner_path(ref.name):
            raise ProtocolError(f"The file name {ref.name[:80]!r} leaves its folder.", where="job.json")


def is_plain_id(text: str) -> bool:
    """Whether a text can name a case: 1 to 100 of a-z, 0-9, `-`, `_` and `.`, the first not a dot."""
    plain = all(c.isascii() and (c.islower() or c.isdigit() or c in "-_.") for c in text)
    return plain and 1 <= len(text) <= 100 and not text.startswith(".")


def is_inner_path(name: str) -> bool:
    """Whether a relative path stays inside its folder on every system."""
    parts = name.split("/")
    forbidden = set('\\:\0"<>|?*')
    return bool(name) and all(p not in ("", ".", "..") and not forbidden & set(p) for p in parts)


def _check_case(job: Job, case: Case, loaded: set[str]) -> None:
    where = f"job.json: case {case.case_id}"
    known = {c.configuration_id: c for c in job.configurations}
    for one in configurations_of(case):
        if one not in known:
            raise ProtocolError(f"Unknown configuration {one!r}.", where=where)
    if isinstance(case, LoadCase):
        loaded.add(case.configuration)
        return
    if not set(configurations_of(case)) <= loaded:
        raise ProtocolError("A configuration's first case must be its load case.", where=where)
    sets = {s.samples_id: s for s in job.samples}
    for samples_id in samples_of(case):
        if samples_id not in sets:
            raise ProtocolError(f"Unknown samples {samples_id!r}.", where=where)
    if isinstance(case, InferCase):
        if case.first < 0 or case.count < 1 or case.first + case.count > sets[case.samples].count:
            raise ProtocolError("The range lies outside the samples.", where=where)
    elif case.baseline is not None and known[case.baseline].runtime != known[case.candidate].runtime:
        raise ProtocolError("Baseline and candidate must share one runtime.", where=where)
    elif {case.baseline is None, case.baseline_samples is None, case.interleaving == "none"} == {True, False}:
        raise ProtocolError("Interleaving `none` goes with no baseline, and only then.", where=where)


__all__ = [
    "PROTOCOL_MAJOR",
    "PROTOCOL_MINOR",
    "BenchmarkCase",
    "Case",
    "Configuration",
    "FileRef",
    "InferCase",
    "Job",
    "Keep",
    "Limits",
    "LoadCase",
    "ModelFiles",
    "ProtocolVersion",
    "RawInput",
    "SampleSet",
    "Shard",
    "TableInput",
    "check_job",
    "configurations_of",
    "new_job",
    "read_job",
    "samples_of",
]
