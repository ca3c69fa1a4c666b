"""This machine as a device: jobs run in a harness process, supervised by a thread."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import TimeoutExpired, run
from threading import Event as ThreadEvent
from threading import Thread
from typing import Final

from filelock import FileLock, Timeout

from phoneproof.devices.device import DeviceDescription, EventBatch, JobResults
from phoneproof.devices.job_folder import checked_text, lay_out, read_results
from phoneproof.devices.supervisor import HarnessCommand, Supervisor
from phoneproof.errors import BusyError, DeviceError, StorageError
from phoneproof.protocol.attempts import next_attempt
from phoneproof.protocol.events import Event
from phoneproof.protocol.job import Job
from phoneproof.workers.worker import worker_environment

_DESCRIBE_S: Final = 300.0


@dataclass
class _Running:
    """A submitted job. events: all so far; its thread appends to them and no one else."""

    job: Job
    folder: Path
    lock: FileLock
    events: list[Event] = field(default_factory=list)
    thread: Thread | None = None
    stop: ThreadEvent = field(default_factory=ThreadEvent)
    failure: BaseException | None = None

    @property
    def alive(self) -> bool:
        return self.thread is not None and self.thread.is_alive()


class HostDevice:
    """The host. root: folder in which each job gets a folder of its own."""

    def __init__(self, root: Path, command: HarnessCommand | None = None) -> None:
        self._root = root
        self._command = command or HarnessCommand()
        self._jobs: dict[str, _Running] = {}

    def describe(self) -> DeviceDescription:
        """See Device."""
        answer = self._root / "describe.json"
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            answer.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(
                f"The device's folder cannot be written: {error.strerror}.", where=str(self._root)
            ) from error
        command = self._command.arguments(f"--describe={answer.resolve()}")
        environment = worker_environment(self._command.python_path)
        try:
            # In a folder of its own: `python -m` looks for modules in the current one, which is the user's.
            done = run(
                command,
                env=environment,
                capture_output=True,
                timeout=_DESCRIBE_S,
                check=False,
                cwd=self._root,
            )
        except OSError as error:
            raise DeviceError(
                f"The interpreter of the host harness cannot be started: {error.strerror}.",
                where=str(self._command.interpreter),
                next_step="Run `phoneproof doctor --deep`.",
            ) from error
        except TimeoutExpired as error:
            raise DeviceError(
                f"The host harness did not describe this machine in {_DESCRIBE_S:.0f} s."
            ) from error
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
        # The machine's own name is nobody's business: reports are handed on.
        return DeviceDescription("host", "host", "host", content["runtimes"], content["environment"])

    def submit(self, job: Job, files: Mapping[str, Path]) -> str:
        """See Device. BusyError if another process runs this job in this folder."""
        checked_text(job)
        running = self._jobs.get(job.job_id)
        if running is not None and running.alive:
            return job.job_id
        folder = self._root / job.job_id[:16]
        lock = _locked(folder)
        try:
            lay_out(folder, job, files)
        except BaseException:
            lock.release()
            raise
        started = _Running(job, folder, lock)
        started.thread = Thread(target=_run, args=(started, self._command), daemon=True)
        self._jobs[job.job_id] = started
        started.thread.start()
        return job.job_id

    def events(self, job_id: str, after: int) -> EventBatch:
        """See Device. What ended the job's supervision is raised once all events are handed out."""
        running = self._known(job_id)
        # Asked before looking: what came until the thread ended is then in `events`.
        alive = running.alive
        new = tuple(running.events[after:])
        if alive or (new and running.failure is not None):
            return EventBatch(new, False)
        if running.failure is not None:
            raise running.failure
        finished = next_attempt(running.job, running.events) is None
        if not finished and not new:
            raise DeviceError("The job was stopped before its end.", where=f"host: {job_id[:16]}")
        return EventBatch(new, finished)

    def collect(self, job_id: str) -> JobResults:
        """See Device."""
        running = self._known(job_id)
        if running.alive or next_attempt(running.job, running.events) is not None:
            raise DeviceError("The job is not finished.", where=f"host: {job_id[:16]}")
        return read_results(running.folder, running.job)

    def close(self) -> None:
        """See Device."""
        for running in self._jobs.values():
            running.stop.set()
        for running in self._jobs.values():
            if running.thread is not None:
                running.thread.join()

    def _known(self, job_id: str) -> _Running:
        if job_id not in self._jobs:
            raise DeviceError("The job was not submitted.", where=f"host: {job_id[:16]}")
        return self._jobs[job_id]


def _locked(folder: Path) -> FileLock:
    """The lock of a job's folder: two supervisors would both launch a runner."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / "lock", timeout=0, thread_local=False)
        lock.acquire()
    except Timeout:
        raise BusyError(
            "Another phoneproof runs this job.", where=str(folder), next_step="Wait for its end."
        ) from None
    except OSError as error:
        raise StorageError(
            f"The job's folder cannot be made: {error.strerror}.",
            where=str(folder),
            next_step="Look at the free space and the permissions of this folder.",
        ) from error
    return lock


def _run(running: _Running, command: HarnessCommand) -> None:
    try:
        Supervisor(running.folder, running.job, command, running.events.extend).run(running.stop)
    except BaseException as error:  # noqa: BLE001 - handed to the thread that asks for events
        running.failure = error
    finally:
        running.lock.release()
