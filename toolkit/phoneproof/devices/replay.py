"""A device that answers with what another one recorded: job folders, as the host or a phone left them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from phoneproof.devices.device import DeviceDescription, EventBatch, JobResults
from phoneproof.devices.job_folder import JOB_FILE, checked_text, read_results
from phoneproof.errors import DeviceError, StorageError
from phoneproof.protocol.attempts import next_attempt
from phoneproof.protocol.event_files import read_events
from phoneproof.protocol.events import Event, FactValue, JobStarted
from phoneproof.protocol.job import Job, read_job

_DEVICE_ID: Final = "replay"


@dataclass
class _Recording:
    """A recorded job. shown: number of its events handed out so far."""

    job: Job
    folder: Path
    events: tuple[Event, ...]
    shown: int = 0


class ReplayDevice:
    """A recording. folder: job folders side by side; nothing in it is changed.

    events_per_call: how many new events a call of `events` hands out, as if the job were under way.
    """

    def __init__(self, folder: Path, *, events_per_call: int = 16) -> None:
        self._folder = folder
        self._events_per_call = events_per_call
        self._jobs: dict[str, _Recording] = {}

    def describe(self) -> DeviceDescription:
        """See Device: the recorded device as its last job_started tells, marked as a replay."""
        started = [
            event
            for folder in self._recorded().values()
            for event in read_events(folder)
            if isinstance(event, JobStarted)
        ]
        if not started:
            raise DeviceError("No recorded job was begun.", where=str(self._folder))
        last = max(started, key=lambda event: event.stamp.wall_ms)
        facts: dict[str, FactValue] = {**last.environment, "replay": True}
        name = f"Recording {self._folder.name}"
        return DeviceDescription(_DEVICE_ID, name, "replay", dict(last.runtimes), facts)

    def submit(self, job: Job, files: Mapping[str, Path]) -> str:
        """See Device. DeviceError for a job that was not recorded; files are not needed."""
        checked_text(job)
        if job.job_id in self._jobs:
            return job.job_id
        folder = self._recorded().get(job.job_id)
        if folder is None:
            raise DeviceError(
                "The job was not recorded.",
                where=f"{self._folder}: {job.job_id[:16]}",
                next_step="Run the job on the real device, or use the plan that was recorded.",
            )
        self._jobs[job.job_id] = _Recording(job, folder, read_events(folder))
        return job.job_id

    def events(self, job_id: str, after: int) -> EventBatch:
        """See Device. DeviceError at the end of a recording that stops before the job's end."""
        recording = self._known(job_id)
        recording.shown = min(len(recording.events), recording.shown + self._events_per_call)
        new = recording.events[after : recording.shown]
        all_shown = recording.shown == len(recording.events)
        finished = all_shown and next_attempt(recording.job, recording.events) is None
        if all_shown and not new and not finished:
            raise DeviceError("The recording stops before the job's end.", where=str(recording.folder))
        return EventBatch(new, finished)

    def collect(self, job_id: str) -> JobResults:
        """See Device."""
        recording = self._known(job_id)
        if (
            recording.shown < len(recording.events)
            or next_attempt(recording.job, recording.events) is not None
        ):
            raise DeviceError("The job is not finished.", where=str(recording.folder))
        return read_results(recording.folder, recording.job)

    def close(self) -> None:
        """See Device."""
        self._jobs.clear()

    def _recorded(self) -> dict[str, Path]:
        """Folder of each recorded job, by its id."""
        try:
            found = sorted(self._folder.glob(f"*/{JOB_FILE}"))
            return {read_job(path.read_bytes()).job_id: path.parent for path in found}
        except OSError as error:
            raise StorageError(
                f"The recording cannot be read: {error.strerror}.", where=str(self._folder)
            ) from error

    def _known(self, job_id: str) -> _Recording:
        if job_id not in self._jobs:
            raise DeviceError("The job was not submitted.", where=f"{_DEVICE_ID}: {job_id[:16]}")
        return self._jobs[job_id]
