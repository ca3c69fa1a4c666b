"""The runner of a simulated device: one attempt at a job, event by event, on a clock of its own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from phoneproof.devices.event_follower import events_file
from phoneproof.devices.simulated_behaviour import ENDINGS, Behaviour, Fault, FaultKind, Place
from phoneproof.errors import RuntimeUnavailableError, StorageError
from phoneproof.protocol.attempts import Attempt, PendingCase
from phoneproof.protocol.events import (
    OUTPUTS_FOLDER,
    CaseError,
    CaseFinished,
    CaseStarted,
    Confidence,
    EndCause,
    Event,
    FactValue,
    JobFinished,
    JobStarted,
    Measured,
    RoundFinished,
    RunnerEvent,
    SampleFailed,
    SampleStarted,
    Stamp,
    event_line,
)
from phoneproof.protocol.job import (
    FILES_FOLDER,
    BenchmarkCase,
    Case,
    Configuration,
    FileRef,
    InferCase,
    Job,
    LoadCase,
    ProtocolVersion,
    configurations_of,
)
from phoneproof.protocol.outputs import OutputWriter, apply_keep
from phoneproof.protocol.pace import Pace, pace_for
from phoneproof.protocol.sample_files import SampleReader

_UNSTAMPED: Final = Stamp(0, 0, 0, 0)
_EPOCH_MS: Final = 1_750_000_000_000


class RunnerEnded(Exception):  # noqa: N818 - an end, scripted, not an error
    """The simulated process is gone. cause None: with the device, so that nobody saw it."""

    def __init__(self, cause: EndCause | None, code: int | None, confidence: Confidence) -> None:
        super().__init__(cause)
        self.cause = cause
        self.code = code
        self.confidence: Confidence = confidence


class ScriptedError(Exception):
    """What the simulated runtime raises for a fault of kind `error`."""


@dataclass
class SimulatedClock:
    """Time that passes only when something is simulated to take it."""

    monotonic_ns: int = 0

    def pass_ns(self, duration_ns: int) -> None:
        """Let time pass."""
        self.monotonic_ns += duration_ns

    def stamp(self, attempt: int, seq: int) -> Stamp:
        """A stamp of now."""
        return Stamp(attempt, seq, self.monotonic_ns, _EPOCH_MS + self.monotonic_ns // 1_000_000)


@dataclass
class SimulatedRunner:
    """Writes the events of one attempt. happened: how often each fault came so far, kept between attempts."""

    folder: Path
    job: Job
    attempt: Attempt
    behaviour: Behaviour
    runtimes: Mapping[str, str | None]
    environment: Mapping[str, FactValue]
    bad: Mapping[str, frozenset[int]]
    clock: SimulatedClock
    happened: dict[Fault, int] = field(default_factory=dict)
    _seq: int = 0

    def run(self) -> Iterator[Event]:
        """Each event once it is in its file. RunnerEnded where a fault ends the process."""
        events_file(self.folder, self.attempt.number).parent.mkdir(exist_ok=True)
        versions = {name: version for name, version in self.runtimes.items() if version is not None}
        begun = JobStarted(
            "job_started", _UNSTAMPED, ProtocolVersion(), self.job.job_id, self.environment, versions
        )
        yield self._write(begun)
        not_loaded: set[str] = set()
        for pending in self.attempt.cases:
            case = self.job.case(pending.case_id)
            if not not_loaded.isdisjoint(configurations_of(case)):
                continue
            yield self._write(CaseStarted("case_started", _UNSTAMPED, case.case_id, pending.next_sample))
            finished: CaseFinished | None = None
            for event in self._case(case, pending):
                finished = event if isinstance(event, CaseFinished) else None
                yield self._write(event)
            if isinstance(case, LoadCase) and (finished is None or finished.error is not None):
                not_loaded.add(case.configuration)
        yield self._write(JobFinished("job_finished", _UNSTAMPED))

    def _write(self, event: RunnerEvent) -> Event:
        stamped = replace(event, stamp=self.clock.stamp(self.attempt.number, self._seq))
        with events_file(self.folder, self.attempt.number).open("ab") as file:
            file.write(event_line(stamped).encode())
        self._seq += 1
        return stamped

    def _case(self, case: Case, pending: PendingCase) -> Iterator[RunnerEvent]:
        try:
            if isinstance(case, LoadCase):
                yield _finished(case, self._load(case.configuration))
            elif isinstance(case, InferCase):
                yield from self._infer(
                    case, case.first if pending.next_sample is None else pending.next_sample
                )
            else:
                yield from self._benchmark(case)
        except (RunnerEnded, StorageError):
            raise
        except Exception as raised:  # noqa: BLE001 - an answer may raise anything; it is the case's outcome
            error = CaseError(type(raised).__name__, str(raised)[:4_000])
            yield CaseFinished("case_finished", _UNSTAMPED, case.case_id, "failed", error, Measured(), None)

    def _load(self, configuration_id: str) -> Measured:
        configuration = self.job.configuration(configuration_id)
        if self.runtimes.get(configuration.runtime) is None:
            raise RuntimeUnavailableError(f"This device has no runtime {configuration.runtime!r}.")
        self._fault(configuration_id, "load", None)
        loading = self.behaviour.loading(configuration)
        self._take(round(loading.load_ms * 1e6), self.job.limits.load_timeout_ms)
        return Measured(
            load_ms=loading.load_ms,
            peak_memory_bytes=loading.peak_memory_bytes,
            accelerator_actual=loading.accelerator_actual,
            operators=loading.operators,
        )

    def _infer(self, case: InferCase, next_sample: int) -> Iterator[RunnerEvent]:
        told = self._load(case.configuration)
        if case.keep.kind == "none":
            yield from self._samples(case, next_sample, None)
            yield _finished(case, told)
            return
        path = self.folder / OUTPUTS_FOLDER / f"{case.case_id}.bin"
        path.parent.mkdir(exist_ok=True)
        with OutputWriter(path, next_sample) as writer:
            yield from self._samples(case, next_sample, writer)
            yield _finished(case, told, writer.close())

    def _samples(
        self, case: InferCase, next_sample: int, writer: OutputWriter | None
    ) -> Iterator[RunnerEvent]:
        configuration = self.job.configuration(case.configuration)
        reader = SampleReader(self.job.sample_set(case.samples), self.folder / FILES_FOLDER)
        bad = self.bad.get(case.case_id, frozenset())
        failed = len(bad)
        for sample in range(next_sample, case.first + case.count):
            if sample in bad:
                continue
            yield SampleStarted("sample_started", _UNSTAMPED, case.case_id, sample)
            try:
                self._fault(case.configuration, "infer", sample)
                kept = apply_keep(case.keep, self.behaviour.answer(configuration, reader.read(sample)))
                if writer is not None:
                    writer.append(sample, kept)
            except (RunnerEnded, StorageError):
                raise
            except Exception as raised:  # noqa: BLE001 - the same of a sample
                error = CaseError(type(raised).__name__, str(raised)[:4_000])
                yield SampleFailed("sample_failed", _UNSTAMPED, case.case_id, sample, error)
                failed += 1
                if failed >= self.job.limits.bad_samples_per_case:
                    return
            self._take(self.behaviour.latency(configuration, sample), self.job.limits.sample_timeout_ms)

    def _benchmark(self, case: BenchmarkCase) -> Iterator[RunnerEvent]:
        self._fault(case.candidate, "benchmark", None)
        told = self._load(case.candidate)
        candidate = _Side(self.behaviour, self.job.configuration(case.candidate), case)
        baseline = None
        if case.baseline is not None:
            self._load(case.baseline)
            baseline = _Side(self.behaviour, self.job.configuration(case.baseline), case)
        order = [candidate] if baseline is None else [baseline, candidate, candidate, baseline]
        for number in range(case.rounds):
            visits = tuple(side.visit() for side in order)
            waits = [side.waited_ns(visit) for side, visit in zip(order, visits, strict=True)]
            known = tuple(one for one in waits if one is not None)
            self._take(sum(map(sum, visits)), self.job.limits.round_timeout_ms)
            yield RoundFinished(
                "round_finished",
                _UNSTAMPED,
                case.case_id,
                number,
                "B" if baseline is None else "ABBA",
                baseline.pace.batch if baseline else None,
                candidate.pace.batch,
                visits,
                known if len(known) == len(visits) else None,
            )
            self.clock.pass_ns(case.pause_ms * 1_000_000)
        measured = replace(
            told,
            first_ms=candidate.first_ms,
            baseline_first_ms=baseline.first_ms if baseline else None,
            clock_resolution_ns=1,
        )
        yield _finished(case, measured)

    def _take(self, duration_ns: int, limit_ms: int) -> None:
        """Let a step take its time; one that takes more than it may is ended by the supervisor."""
        self.clock.pass_ns(min(duration_ns, limit_ms * 1_000_000))
        if duration_ns > limit_ms * 1_000_000:
            raise RunnerEnded(*ENDINGS["timed_out"])

    def _fault(self, configuration: str, at: Place, sample: int | None) -> None:
        for fault in self.behaviour.faults:
            if (fault.configuration, fault.at, fault.sample) != (configuration, at, sample):
                continue
            if fault.times is not None and self.happened.get(fault, 0) >= fault.times:
                continue
            self.happened[fault] = self.happened.get(fault, 0) + 1
            _happen(fault.kind)


class _Side:
    """One side of a benchmark."""

    def __init__(self, behaviour: Behaviour, configuration: Configuration, case: BenchmarkCase) -> None:
        self._latency = behaviour.latency
        self._waiting = behaviour.waiting
        self._configuration = configuration
        self._runs = 0
        first_ns = self._run_ns()
        self.first_ms = first_ns / 1e6
        self.pace: Pace = pace_for(first_ns, case)

    def visit(self) -> tuple[int, ...]:
        """Each timed batch in ns."""
        return tuple(sum(self._run_ns() for _ in range(self.pace.batch)) for _ in range(self.pace.runs))

    def waited_ns(self, visit: tuple[int, ...]) -> int | None:
        """What the threads waited in a visit."""
        return self._waiting(self._configuration, sum(visit))

    def _run_ns(self) -> int:
        self._runs += 1
        return self._latency(self._configuration, self._runs - 1)


def _happen(kind: FaultKind) -> None:
    if kind == "error":
        raise ScriptedError("the simulated runtime raised this")
    if kind == "lost":
        raise RunnerEnded(None, None, "high")
    raise RunnerEnded(*ENDINGS[kind])


def _finished(case: Case, measured: Measured, output: FileRef | None = None) -> CaseFinished:
    return CaseFinished("case_finished", _UNSTAMPED, case.case_id, "passed", None, measured, output)
