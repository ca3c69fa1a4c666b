"""A device that is simulated in this process: no runtime, no model, no time, but the whole protocol.

Its latencies are made up. Everything that it says carries `simulated`: its kind, and a fact of the
environment in each job_started.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from phoneproof.devices.attempt_words import recover, write_word
from phoneproof.devices.device import DeviceDescription, EventBatch, JobResults
from phoneproof.devices.job_folder import lay_out, read_results
from phoneproof.devices.simulated_behaviour import (
    Behaviour,
    Fault,
    Loading,
    Waiting,
    constant_latency,
    noisy_latency,
    steady_waiting,
)
from phoneproof.devices.simulated_runner import RunnerEnded, SimulatedClock, SimulatedRunner
from phoneproof.errors import DeviceError, PhoneproofError, StorageError
from phoneproof.protocol.attempts import bad_samples, next_attempt
from phoneproof.protocol.event_files import read_events
from phoneproof.protocol.events import EndCause, Event, FactValue
from phoneproof.protocol.job import Job
from phoneproof.workers.watched import Ending

_ENVIRONMENT: Final[Mapping[str, FactValue]] = {"simulated": True, "os": "simulated"}
_RUNTIMES: Final[Mapping[str, str | None]] = {"onnxruntime": "simulated", "source": "simulated"}


@dataclass(frozen=True)
class SimulatedIdentity:
    """What a simulated device says of itself. environment: further facts; `simulated` is always one."""

    device_id: str = "simulated"
    name: str = "Simulated device"
    runtimes: Mapping[str, str | None] = field(default_factory=lambda: dict(_RUNTIMES))
    environment: Mapping[str, FactValue] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, FactValue]:
        """The environment with the facts that mark it as simulated, which nothing overrides."""
        return {**self.environment, **_ENVIRONMENT}


@dataclass
class _Running:
    job: Job
    folder: Path
    events: list[Event]
    steps: Iterator[Event]
    finished: bool = False
    failure: PhoneproofError | None = None


class SimulatedDevice:
    """A simulated device. root: folder in which each job gets a folder of its own.

    events_per_call: a job goes on only while its events are asked for, by this many events a call.
    """

    def __init__(
        self,
        root: Path,
        behaviour: Behaviour,
        identity: SimulatedIdentity | None = None,
        *,
        events_per_call: int = 16,
    ) -> None:
        self._root = root
        self._behaviour = behaviour
        self._identity = identity or SimulatedIdentity()
        self._events_per_call = events_per_call
        self._clock = SimulatedClock()
        self._happened: dict[Fault, int] = {}
        self._jobs: dict[str, _Running] = {}

    def describe(self) -> DeviceDescription:
        """See Device."""
        one = self._identity
        return DeviceDescription(one.device_id, one.name, "simulated", one.runtimes, one.facts)

    def submit(self, job: Job, files: Mapping[str, Path]) -> str:
        """See Device."""
        running = self._jobs.get(job.job_id)
        if running is not None and running.failure is None:
            lay_out(running.folder, job, files)
            return job.job_id
        folder = self._root / job.job_id[:16]
        lay_out(folder, job, files)
        try:
            recover(folder, job)
            events = list(read_events(folder))
        except OSError as error:
            raise StorageError(f"The job's folder cannot be read: {error}.", where=str(folder)) from error
        self._jobs[job.job_id] = _Running(job, folder, events, self._steps(folder, job))
        return job.job_id

    def events(self, job_id: str, after: int) -> EventBatch:
        """See Device. DeviceError once the device is lost: submit takes the job up again."""
        running = self._known(job_id)
        goal = len(running.events) + self._events_per_call
        while len(running.events) < goal and not running.finished and running.failure is None:
            self._step(running)
        new = tuple(running.events[after:])
        if running.failure is not None and not new:
            raise running.failure
        return EventBatch(new, running.finished)

    def collect(self, job_id: str) -> JobResults:
        """See Device."""
        running = self._known(job_id)
        if not running.finished:
            raise DeviceError("The job is not finished.", where=f"{self._identity.device_id}: {job_id[:16]}")
        return read_results(running.folder, running.job)

    def close(self) -> None:
        """See Device. A job under way is forgotten, as when a phone is unplugged; its folder stays."""
        self._jobs.clear()

    def _step(self, running: _Running) -> None:
        try:
            running.events.append(next(running.steps))
        except StopIteration:
            running.finished = True
        except PhoneproofError as error:
            running.failure = error
        except OSError as error:
            running.failure = StorageError(
                f"The disk refused the files of a job: {error.strerror}.", where=str(running.folder)
            )

    def _steps(self, folder: Path, job: Job) -> Iterator[Event]:
        """Every event of every attempt until the job is at its end."""
        while True:
            before = read_events(folder)
            attempt = next_attempt(job, before)
            if attempt is None:
                return
            bad = {case_id: frozenset(found) for case_id, found in bad_samples(job, before).items()}
            one = self._identity
            runner = SimulatedRunner(
                folder,
                job,
                attempt,
                self._behaviour,
                one.runtimes,
                one.facts,
                bad,
                self._clock,
                self._happened,
            )
            ending = Ending("exited", 0, "high", 0)
            cause: EndCause = "exited"
            try:
                yield from runner.run()
            except RunnerEnded as end:
                if end.cause is None:
                    raise DeviceError("The simulated device was lost.", where=one.device_id) from None
                cause, ending = end.cause, Ending("signal", end.code, end.confidence, 0)
            yield write_word(folder, attempt.number, cause, ending, {}, ())

    def _known(self, job_id: str) -> _Running:
        if job_id not in self._jobs:
            raise DeviceError(
                "The job was not submitted.", where=f"{self._identity.device_id}: {job_id[:16]}"
            )
        return self._jobs[job_id]


__all__ = [
    "Behaviour",
    "Fault",
    "Loading",
    "SimulatedDevice",
    "SimulatedIdentity",
    "Waiting",
    "constant_latency",
    "noisy_latency",
    "steady_waiting",
]
