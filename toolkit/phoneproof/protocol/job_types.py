"""The parts of job.json as types. Prose and rules stand in protocol/PROTOCOL.md."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

PROTOCOL_MAJOR: Final = 1
PROTOCOL_MINOR: Final = 0

FILES_FOLDER: Final = "files"

Interleaving = Literal["in_process", "by_process", "none"]


@dataclass(frozen=True)
class ProtocolVersion:
    """A reader refuses another major version, and a minor version above its own."""

    major: int = PROTOCOL_MAJOR
    minor: int = PROTOCOL_MINOR


@dataclass(frozen=True)
class FileRef:
    """A file: `name` is a file name or inner path, sha256 is 64 lower-case hexadecimal digits."""

    name: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class ModelFiles:
    """A build's model: `entry` is the name of its one file, or of the folder that all `files` lie in.

    A folder is laid out as it is, at files/<entry>; its files' names begin with `entry` and a slash. Two
    models may have one entry only if they have the same files.
    """

    entry: str
    files: tuple[FileRef, ...]

    @property
    def is_folder(self) -> bool:
        """Whether the model is a folder, not one file."""
        return not (len(self.files) == 1 and self.files[0].name == self.entry)


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
        """Every file the device needs, by its path below `files/`.

        That is `<sha256>/<name>`, but for the files of a model that is a folder: their `name` as it is.
        """
        paths: dict[str, FileRef] = {}
        for one in self.configurations:
            is_folder = one.model.is_folder
            paths |= {ref.name if is_folder else stored_path(ref): ref for ref in one.model.files}
        for one_input in (i for s in self.samples for i in s.inputs):
            paths |= {stored_path(shard.file): shard.file for shard in one_input.shards}
            if isinstance(one_input, TableInput):
                paths[stored_path(one_input.table)] = one_input.table
        return paths


def stored_path(ref: FileRef) -> str:
    """Where a file that is no part of a folder lies below `files/`."""
    return f"{ref.sha256}/{ref.name}"


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
