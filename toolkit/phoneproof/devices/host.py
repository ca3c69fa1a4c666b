"""This machine as a device: jobs run in a harness process, supervised by a thread."""

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import TimeoutExpired, run
from threading import Event as ThreadEvent
from threading import Thread

from phoneproof.devices.device import DeviceDescription, EventBatch, JobResults
from phoneproof.devices.job_folder import lay_out, read_results
from phoneproof.devices.supervisor import HarnessCommand, supervise
from phoneproof.errors import DeviceError
from phoneproof.protocol.attempts import next_attempt
from phoneproof.protocol.event_files import EventTail, read_events
from phoneproof.protocol.job import Job
from phoneproof.workers.worker import worker_environment


@dataclass
class _Running:
    job: Job
    folder: Path
    thread: Thread
    tail: EventTail
    stop: ThreadEvent = field(default_factory=ThreadEvent)
    failure: BaseException | None = None


class HostDevice:
    """The host. root: folder in which each job gets a folder of its own."""

    def __init__(self, root: Path, command: HarnessCommand | None = None) -> None:
        self._root = root
        self._command = command or HarnessCommand()
        self._jobs: dict[str, _Running] = {}

    def describe(self) -> DeviceDescription:
        """See Device."""
        self._root.mkdir(parents=True, exist_ok=True)
        answer = self._root / "describe.json"
        command = self._command.arguments(f"--describe={answer.resolve()}")
        environment = worker_environment(self._command.python_path)
        try:
            done = run(command, env=environment, capture_output=True, timeout=120, check=False)
        except TimeoutExpired as error:
            raise DeviceError("The host harness did not describe this machine in 120 s.") from error
        if done.returncode != 0:
            tail = tuple(done.stderr.decode("utf-8", "replace").splitlines()[-20:])
            raise DeviceError(
                "The host harness does not start.",
                where="host",
                next_step="Run `phoneproof doctor --deep`.",
                exit_code=done.returncode,
                log_tail=tail,
            )
        content = json.loads(answer.read_text(encoding="utf-8"))
        return DeviceDescription(
            "host", platform.node() or "host", "host", content["runtimes"], content["environment"]
        )

    def submit(self, job: Job, files: Mapping[str, Path]) -> str:
        """See Device."""
        running = self._jobs.get(job.job_id)
        if running is not None and running.thread.is_alive():
            return job.job_id
        folder = self._root / job.job_id[:16]
        lay_out(folder, job, files)
        thread = Thread(target=self._run, args=(job.job_id,), daemon=True, name=f"host {job.job_id[:8]}")
        started = _Running(job, folder, thread, EventTail(folder))
        self._jobs[job.job_id] = started
        started.thread.start()
        return job.job_id

    def events(self, job_id: str, after: int) -> EventBatch:
        """See Device."""
        running = self._known(job_id)
        # Asked before reading: events written until the thread ended are then in what is read.
        finished = not running.thread.is_alive()
        if finished and running.failure is not None:
            raise running.failure
        return EventBatch(tuple(running.tail.read()[after:]), finished)

    def collect(self, job_id: str) -> JobResults:
        """See Device."""
        running = self._known(job_id)
        if running.thread.is_alive() or next_attempt(running.job, read_events(running.folder)) is not None:
            raise DeviceError("The job is not finished.", where=f"host: {job_id[:16]}")
        return read_results(running.folder)

    def close(self) -> None:
        """See Device."""
        for running in self._jobs.values():
            running.stop.set()
        for running in self._jobs.values():
            running.thread.join()

    def _known(self, job_id: str) -> _Running:
        if job_id not in self._jobs:
            raise DeviceError("The job was not submitted.", where=f"host: {job_id[:16]}")
        return self._jobs[job_id]

    def _run(self, job_id: str) -> None:
        running = self._jobs[job_id]
        try:
            supervise(running.folder, running.job, self._command, running.stop)
        except BaseException as error:  # noqa: BLE001 - handed to the thread that asks for events
            running.failure = error
