"""Repeating one case of a run on the host: for whoever has to find out why it ended as it did.

RUN/reruns/NNN/
    rerun.json        what was repeated, on what, and how it ended each time
    inputs/S/         what the network was given for sample S: .npy files, and .png for images
    samples/          the only sample, as the jobs read it
    NN/JOB/           each time's job: job.json, events, the harness' logs, outputs
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event as ThreadEvent
from typing import Any, Final

import phoneproof
from phoneproof.builds.store import default_store, storage_errors
from phoneproof.devices.device import Device
from phoneproof.devices.host import HostDevice
from phoneproof.devices.supervisor import HarnessCommand
from phoneproof.errors import DeviceError, Interrupted, PlanError
from phoneproof.plan.model import from_effective
from phoneproof.protocol.attempts import BadEnd, CaseEnd, Outcome, case_ends
from phoneproof.protocol.codec import to_dict
from phoneproof.protocol.events import AttemptEnded, JobStarted
from phoneproof.protocol.job import InferCase, configurations_of
from phoneproof.protocol.journal import RunRecord
from phoneproof.protocol.work import write_atomically
from phoneproof.recipes.runtime_table import READER_OF, RUNTIMES
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.runs.folder import held, read_record
from phoneproof.runs.hosts import MakeHost
from phoneproof.runs.planned import OF_EDGE
from phoneproof.runs.rerun_cases import RunCase, case_called, check_sample, run_cases
from phoneproof.runs.rerun_job import JobOfOne, job_of_one, write_inputs
from phoneproof.workers.environments import environment_of

RERUNS: Final = "reruns"
RERUN_FILE: Final = "rerun.json"

_POLL_S: Final = 0.05
_MOST_INPUTS: Final = 10
"""As many samples' inputs are written where the whole case was repeated; a case ends at its tenth bad one."""


@dataclass(frozen=True)
class Repeat:
    """How it ended one time.

    case_id, outcome, bad: of the first case that ended badly, which may be a load before the case asked for.
    bad_samples: by the run's numbers. log: the harness' in the attempt that is to blame, else its last;
    log_tail: what it said at the end of that attempt.
    """

    folder: Path
    case_id: str
    outcome: Outcome
    bad: BadEnd | None
    bad_samples: Mapping[int, BadEnd]
    log: Path | None
    log_tail: tuple[str, ...]
    runtimes: Mapping[str, str]
    environment: Mapping[str, Any]

    @property
    def passed(self) -> bool:
        """Whether every case of it did."""
        return self.outcome == "passed"


@dataclass(frozen=True)
class Rerun:
    """A case that was repeated. may_leave: whether the plan lets its data leave this machine."""

    folder: Path
    case: RunCase
    sample: int | None
    repeats: tuple[Repeat, ...]
    inputs: tuple[Path, ...]
    may_leave: bool

    @property
    def bad(self) -> int:
        """How many times it ended badly."""
        return sum(not one.passed for one in self.repeats)


@dataclass(frozen=True)
class RerunOptions:
    """How to repeat it. told: called after each time. host: stands in for the real host, given its folder."""

    sample: int | None = None
    times: int = 1
    store: Path | None = None
    told: Callable[[Repeat], None] = field(default=lambda _: None)
    host: MakeHost | None = None


def rerun(run: Path, name: str, options: RerunOptions, stop: ThreadEvent) -> Rerun:
    """Repeat the case of that name `options.times` times, each in a harness of its own.

    CommandLineError for a name or sample that the run does not have, RunFolderError for a folder that is no
    run; ToolchainError where the runtime is no longer installed; BusyError while the run goes on: it would
    spoil the run's timings. Interrupted when `stop` is set.
    """
    record = read_record(run)
    plan = from_effective(dict(record.plan), Path(record.plan_folder or "."), str(run))
    with held(run):
        chosen = case_called(run_cases(run), name)
        check_sample(chosen, options.sample)
        make = options.host or _host_for(chosen, record, options.store or default_store())
        folder = _new_folder(run)
        one = job_of_one(chosen, options.sample, folder / "samples")
        repeats: list[Repeat] = []
        for number in range(1, options.times + 1):
            repeats.append(_repeat(make(folder / f"{number:02d}"), one, stop))
            options.told(repeats[-1])
        inputs = tuple(
            path
            for sample in _samples_to_show(chosen, options.sample, repeats)
            for path in write_inputs(chosen, sample, folder / "inputs" / str(sample))
        )
        done = Rerun(folder, chosen, options.sample, tuple(repeats), inputs, plan.data.may_leave)
        with storage_errors(folder):
            write_atomically(folder / RERUN_FILE, _text(done, record))
    return done


def _host_for(chosen: RunCase, record: RunRecord, store: Path) -> MakeHost:
    """The host with the environment that has the case's runtime."""
    where = environment_of(TOOLCHAINS[_toolchain(chosen, record)], store)
    command = HarnessCommand(where.interpreter, where.python_path)
    return lambda root: HostDevice(root, command)


def _toolchain(chosen: RunCase, record: RunRecord) -> str:
    runtime = chosen.configuration.runtime
    if not chosen.is_of_a_reference:
        return RUNTIMES[runtime].toolchain
    plan = from_effective(dict(record.plan), Path(record.plan_folder or "."))
    key = chosen.place.partition("/")[2].removesuffix(OF_EDGE)
    for model in plan.models:
        if model.key == key:
            return READER_OF[model.format]
    raise PlanError(f"The run's plan has no model {key!r}.", where=chosen.name)


def _new_folder(run: Path) -> Path:
    """The next folder below RUN/reruns. The run is held, so nobody else makes one."""
    reruns = run / RERUNS
    taken = [int(path.name) for path in reruns.glob("*") if path.name.isdecimal()]
    folder = reruns / f"{max(taken, default=0) + 1:03d}"
    with storage_errors(run):
        folder.mkdir(parents=True)
    return folder


def _repeat(device: Device, one: JobOfOne, stop: ThreadEvent) -> Repeat:
    try:
        job_id = device.submit(one.job, one.files)
        while not device.events(job_id, 0).finished:
            if stop.is_set():
                raise Interrupted("The rerun was stopped.")
            time.sleep(_POLL_S)
        results = device.collect(job_id)
    except DeviceError as error:
        if stop.is_set():
            raise Interrupted("The rerun was stopped.") from error
        raise
    finally:
        device.close()
    ends = case_ends(one.job, results.events)
    last = ends[one.job.cases[-1].case_id]
    shown = next((end for end in ends.values() if end.outcome not in ("passed", "not_run")), last)
    # After a crash at a sample another attempt carries the case to its end: its log tells of nothing.
    attempt = None if shown.bad is None else shown.bad.attempt
    words = [e for e in results.events if isinstance(e, AttemptEnded) and e.stamp.attempt == attempt]
    logs = sorted((results.folder / "logs").glob("*.txt" if attempt is None else f"{attempt:04d}.txt"))
    started = next((event for event in results.events if isinstance(event, JobStarted)), None)
    return Repeat(
        folder=results.folder,
        case_id=shown.case_id,
        outcome=shown.outcome,
        bad=shown.bad,
        bad_samples=_numbered(one, shown),
        log=logs[-1] if logs else None,
        log_tail=words[-1].log_tail if words else (),
        runtimes={} if started is None else started.runtimes,
        environment={} if started is None else started.environment,
    )


def _numbered(one: JobOfOne, end: CaseEnd) -> Mapping[int, BadEnd]:
    """Samples that ended badly, by the run's numbers."""
    if one.sample is None:
        return end.bad_samples
    return {one.sample + number: bad for number, bad in end.bad_samples.items()}


def _samples_to_show(chosen: RunCase, sample: int | None, repeats: list[Repeat]) -> list[int]:
    """The sample asked for; of a whole case, those that ended badly at any time."""
    if not isinstance(chosen.case, InferCase):
        return []
    if sample is not None:
        return [sample]
    bad = {n for one in repeats for n, end in one.bad_samples.items() if end.outcome != "not_run"}
    return sorted(bad)[:_MOST_INPUTS]


def _text(done: Rerun, record: RunRecord) -> str:
    """rerun.json. Paths are below the folder, which may be sent on as a whole."""
    chosen = done.case
    content = {
        "phoneproof_version": phoneproof.__version__,
        "run": record.run_id,
        "written_ms": time.time_ns() // 1_000_000,
        "case": chosen.name,
        "sample": done.sample,
        "configurations": [to_dict(chosen.job.configuration(c)) for c in configurations_of(chosen.case)],
        "in_the_run": outcome_in_run(chosen, done.sample),
        "times": len(done.repeats),
        "ended_badly": done.bad,
        "repeats": [_repeat_json(one, done.folder) for one in done.repeats],
        "inputs": [path.relative_to(done.folder).as_posix() for path in done.inputs],
    }
    return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _repeat_json(one: Repeat, folder: Path) -> dict[str, Any]:
    return {
        "folder": one.folder.relative_to(folder).as_posix(),
        "case_id": one.case_id,
        "outcome": one.outcome,
        "bad": None if one.bad is None else to_dict(one.bad),
        "bad_samples": {str(number): to_dict(bad) for number, bad in one.bad_samples.items()},
        "log": None if one.log is None else one.log.relative_to(folder).as_posix(),
        "log_tail": list(one.log_tail),
        "runtimes": dict(one.runtimes),
        "environment": dict(one.environment),
    }


def outcome_in_run(chosen: RunCase, sample: int | None) -> Outcome | None:
    """How the case, or its sample, ended in the run; None where it did not come to an end."""
    if chosen.end is None:
        bad = None if sample is None else chosen.bad.get(sample)
        return None if bad is None else bad.outcome
    listed = chosen.end.bad_samples
    if sample is None or not listed:  # a case that was not begun has one end for all its samples
        return chosen.end.outcome
    return listed[sample].outcome if sample in listed else "passed"
