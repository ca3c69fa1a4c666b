"""The seam to whatever runs jobs: the host, a phone, a browser, a farm's phone."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from phoneproof.protocol.events import Event, FactValue
from phoneproof.protocol.job import Job

DeviceKind = Literal["host", "phone", "browser", "farm", "simulated", "replay"]


@dataclass(frozen=True)
class DeviceDescription:
    """What a device says of itself before it gets a job.

    runtimes: version of each runtime that its harness has; None where the harness knows the runtime but this
    device cannot load it. environment: as in the job_started event.
    """

    device_id: str
    name: str
    kind: DeviceKind
    runtimes: Mapping[str, str | None]
    environment: Mapping[str, FactValue]


@dataclass(frozen=True)
class EventBatch:
    """Events that came since the last call. finished: the job has come to its end, no more will come."""

    events: tuple[Event, ...]
    finished: bool


@dataclass(frozen=True)
class JobResults:
    """All that a finished job left. outputs: file of each infer case that kept something, checked."""

    folder: Path
    events: tuple[Event, ...]
    outputs: Mapping[str, Path]


class Device(Protocol):
    """A place where jobs run. Not safe for several threads; one queue per device."""

    def describe(self) -> DeviceDescription:
        """What the device is. DeviceError if it cannot be reached."""

    def submit(self, job: Job, files: Mapping[str, Path]) -> str:
        """Take a job and begin it; the job's id.

        files: a local path for each sha256 in job.files(). A job that was begun before goes on where it
        stopped; one that is finished stays so. StorageError if a file does not have its digest.
        """

    def events(self, job_id: str, after: int) -> EventBatch:
        """The job's events from number `after` on, at once; DeviceError for a job that was not submitted."""

    def collect(self, job_id: str) -> JobResults:
        """What a finished job left. DeviceError while it is not finished."""

    def close(self) -> None:
        """Stop what runs, without blame for the case under way. Safe twice; never raises."""
