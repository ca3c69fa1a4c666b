"""A runner and its supervisor as a state machine: driven by next_attempt alone, killed where a test says.

The device keeps its files as bytes. A fault strikes after a number of written bytes, which tears a line, or
at a place of the job each time it is reached. The outputs are a set of samples, kept apart from the events,
so that a test can see what the events must not lose.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from phoneproof.protocol.attempts import PendingCase, bad_samples, next_attempt
from phoneproof.protocol.events import (
    AttemptEnded,
    CaseError,
    CaseFinished,
    CaseStarted,
    EndCause,
    Event,
    JobFinished,
    JobStarted,
    Measured,
    RoundFinished,
    RunnerEvent,
    SampleFailed,
    SampleStarted,
    Stamp,
    event_line,
    in_order,
    parse_event_file,
)
from phoneproof.protocol.job import BenchmarkCase, FileRef, InferCase, Job, LoadCase, ProtocolVersion

NO_STAMP = Stamp(1, 0, 0, 0)
Place = tuple[str, int | None]


class Killed(Exception):  # noqa: N818 - an end, not an error
    """The runner's process is gone."""


@dataclass
class Faults:
    """crashes: places that kill the runner each time. refused: samples the runtime refuses.

    cuts: bytes after which an attempt is killed, one for each of the first attempts. unseen: attempts on
    whose end the supervisor says nothing, because it died too. power_cuts: attempts after which the outputs
    of the open case are lost but for the given number.
    """

    crashes: frozenset[Place] = frozenset()
    refused: frozenset[Place] = frozenset()
    cuts: tuple[int | None, ...] = ()
    unseen: frozenset[int] = frozenset()
    power_cuts: dict[int, int] = field(default_factory=dict)


@dataclass
class Device:
    """What outlives the processes, and a record of what was run for the tests."""

    job: Job
    faults: Faults
    files: dict[int, bytes] = field(default_factory=dict)
    words: list[AttemptEnded] = field(default_factory=list)
    outputs: dict[str, set[int]] = field(default_factory=dict)
    crashed: set[Place] = field(default_factory=set)
    attempts: int = 0

    def events(self, numbers: Iterable[int] | None = None) -> tuple[Event, ...]:
        """All events; `numbers` is the order in which the files are read."""
        events: list[Event] = []
        for number in self.files if numbers is None else numbers:
            events += parse_event_file(self.files[number], f"{number:04d}.jsonl", number)
        return (*events, *self.words)

    def attempt(self) -> bool:
        """One attempt; False if the rule says that none is left."""
        before = in_order(self.events())
        following = next_attempt(self.job, before)
        if following is None:
            return False
        self.attempts += 1
        number = following.number
        bad = {case: set(samples) for case, samples in bad_samples(self.job, before).items()}
        runner = _Runner(self, number, bad)
        try:
            runner.run(following.cases)
            word: tuple[EndCause, int] = ("exited", 0)
        except Killed:
            word = ("signal", 9)
        if self.attempts not in self.faults.unseen:
            stamp = Stamp(number, len(self.words), 0, 0)
            self.words.append(AttemptEnded("attempt_ended", stamp, word[0], word[1], "high"))
        if self.attempts in self.faults.power_cuts:
            for kept in self.outputs.values():
                lost = sorted(kept)[self.faults.power_cuts[self.attempts] :]
                kept.difference_update(lost if runner.open_outputs is kept else ())
        return True


class _Runner:
    def __init__(self, device: Device, number: int, bad: dict[str, set[int]]) -> None:
        self._device = device
        self._job = device.job
        self._number = number
        self._bad = bad
        self._seq = 0
        cuts = device.faults.cuts
        self._left = cuts[device.attempts - 1] if device.attempts <= len(cuts) else None
        self.open_outputs: set[int] | None = None
        device.files[number] = b""

    def run(self, cases: tuple[PendingCase, ...]) -> None:
        self._write(JobStarted("job_started", NO_STAMP, ProtocolVersion(), self._job.job_id, {}, {}))
        for pending in cases:
            case = self._job.case(pending.case_id)
            self._write(CaseStarted("case_started", NO_STAMP, case.case_id, pending.next_sample))
            self._reach(case.case_id, None)
            output = None
            if isinstance(case, InferCase):
                if not self._infer(case, pending.next_sample or 0):
                    continue
                output = FileRef(f"outputs/{case.case_id}.bin", "0" * 64, 8)
            elif isinstance(case, BenchmarkCase):
                self._benchmark(case)
            else:
                assert isinstance(case, LoadCase)
            self._write(
                CaseFinished("case_finished", NO_STAMP, case.case_id, "passed", None, Measured(), output)
            )
            self.open_outputs = None
        self._write(JobFinished("job_finished", NO_STAMP))

    def _infer(self, case: InferCase, next_sample: int) -> bool:
        bad = self._bad.setdefault(case.case_id, set())
        kept = self.open_outputs = self._device.outputs.setdefault(case.case_id, set())
        missing = set(range(case.first, next_sample)) - kept - bad
        next_sample = min(missing, default=next_sample)
        kept.difference_update(range(next_sample, case.first + case.count))
        for sample in range(next_sample, case.first + case.count):
            if sample in bad:
                continue
            self._write(SampleStarted("sample_started", NO_STAMP, case.case_id, sample))
            self._reach(case.case_id, sample)
            if (case.case_id, sample) in self._device.faults.refused:
                error = CaseError("Refused", "")
                self._write(SampleFailed("sample_failed", NO_STAMP, case.case_id, sample, error))
                bad.add(sample)
                if len(bad) >= self._job.limits.bad_samples_per_case:
                    return False
            else:
                kept.add(sample)
        return True

    def _benchmark(self, case: BenchmarkCase) -> None:
        pair = case.baseline is not None
        for number in range(case.rounds):
            visits = ((5,), (3,), (3,), (5,)) if pair else ((3,),)
            self._write(
                RoundFinished(
                    "round_finished",
                    NO_STAMP,
                    case.case_id,
                    number,
                    "ABBA" if pair else "B",
                    1 if pair else None,
                    1,
                    visits,
                    (0,) * len(visits),
                )
            )

    def _reach(self, case_id: str, sample: int | None) -> None:
        if (case_id, sample) in self._device.faults.crashes:
            self._device.crashed.add((case_id, sample))
            raise Killed

    def _write(self, event: RunnerEvent) -> None:
        line = event_line(replace(event, stamp=Stamp(self._number, self._seq, self._seq, 0))).encode()
        self._seq += 1
        if self._left is not None:
            cut = line[: self._left]
            self._left -= len(cut)
            self._device.files[self._number] += cut
            if len(cut) < len(line):
                raise Killed
        else:
            self._device.files[self._number] += line
