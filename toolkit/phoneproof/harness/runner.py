"""Runs the cases of a job that are left, and writes what happens as events."""

import platform
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from phoneproof.harness.attempt import CurrentAttempt, Done, case_error, measured
from phoneproof.harness.benchmark_case import benchmark
from phoneproof.harness.event_log import UNSTAMPED, EventLog
from phoneproof.harness.infer_case import infer
from phoneproof.harness.machine import environment, resident_bytes
from phoneproof.protocol.attempts import PendingCase, bad_samples, next_attempt
from phoneproof.protocol.event_files import read_events
from phoneproof.protocol.events import (
    CaseFinished,
    CaseStarted,
    Heartbeat,
    JobFinished,
    JobStarted,
    Measured,
)
from phoneproof.protocol.job import (
    Case,
    InferCase,
    Job,
    LoadCase,
    ProtocolVersion,
    configurations_of,
    read_job,
)
from phoneproof.runtimes.registry import installed_version


def run_job(folder: Path, runtime_modules: Mapping[str, str]) -> None:
    """One attempt at the job in `folder`: every case that next_attempt leaves, in order."""
    job = read_job((folder / "job.json").read_text(encoding="utf-8"))
    before = read_events(folder)
    following = next_attempt(job, before)
    if following is None:
        return
    attempt = CurrentAttempt(job, folder, runtime_modules, EventLog(folder, following.number))
    versions = _runtime_versions(job)
    facts = environment()
    begun = JobStarted("job_started", UNSTAMPED, ProtocolVersion(), job.job_id, facts, versions)
    attempt.log.write(begun)
    stop_heartbeat = _start_heartbeat(attempt)
    bad = bad_samples(job, before)
    not_loaded: set[str] = set()
    for pending in following.cases:
        case = job.case(pending.case_id)
        if not_loaded.isdisjoint(configurations_of(case)):
            # Closed between cases, so that a crash of one configuration's close is not the next one's crash.
            attempt.one_at_a_time.keep_only(configurations_of(case))
            passed = _run(attempt, case, pending, frozenset(bad.get(case.case_id, ())))
            if isinstance(case, LoadCase) and not passed:
                not_loaded.add(case.configuration)
    attempt.one_at_a_time.clear()
    stop_heartbeat()
    attempt.log.write(JobFinished("job_finished", UNSTAMPED))
    attempt.log.close()


def _run(attempt: CurrentAttempt, case: Case, pending: PendingCase, bad: frozenset[int]) -> bool:
    """One case from its start event to its end event; whether it passed."""
    attempt.open_case = case.case_id
    attempt.log.write(CaseStarted("case_started", UNSTAMPED, case.case_id, pending.next_sample))
    try:
        done, error = _execute(attempt, case, pending, bad), None
    except Exception as raised:  # noqa: BLE001 - a runtime may raise anything; it is the case's outcome
        done, error = Done(Measured()), case_error(raised)
    outcome: Literal["passed", "failed"] = "failed" if error else "passed"
    case_id, measurements = case.case_id, done.measured
    attempt.log.write(
        CaseFinished("case_finished", UNSTAMPED, case_id, outcome, error, measurements, done.output)
    )
    attempt.open_case = None
    return error is None


def _execute(attempt: CurrentAttempt, case: Case, pending: PendingCase, bad: frozenset[int]) -> Done:
    if isinstance(case, LoadCase):
        return Done(measured(attempt.one_at_a_time.get(attempt.job.configuration(case.configuration))))
    if isinstance(case, InferCase):
        return infer(attempt, case, case.first if pending.next_sample is None else pending.next_sample, bad)
    return benchmark(attempt, case)


def _runtime_versions(job: Job) -> dict[str, str]:
    """Version of each runtime that the job names and this machine has.

    Nothing of a runtime is imported for it: one that crashes or hangs at import must do so inside the load
    case of its own configurations.
    """
    versions = {"python": platform.python_version()}
    for name in sorted({c.runtime for c in job.configurations}):
        version = installed_version(name)
        if version is not None:
            versions[name] = version
    return versions


def _start_heartbeat(attempt: CurrentAttempt) -> Callable[[], None]:
    """Write a heartbeat now and then until the returned function is called."""
    stop = threading.Event()

    def keep_beating() -> None:
        while not stop.wait(attempt.job.limits.heartbeat_ms / 1_000):
            beat = Heartbeat("heartbeat", UNSTAMPED, attempt.open_case, resident_bytes())
            attempt.log.write(beat, sync=False)

    thread = threading.Thread(target=keep_beating, daemon=True, name="heartbeat")
    thread.start()

    def end() -> None:
        stop.set()
        thread.join()

    return end
