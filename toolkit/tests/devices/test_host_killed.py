"""The supervisor's own process is killed: its runner goes with it, and the next one finishes the job."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from phoneproof.devices.host import HostDevice
from phoneproof.devices.job_folder import checked_text
from phoneproof.errors import BusyError, DeviceError
from phoneproof.protocol.attempts import case_ends
from phoneproof.protocol.event_files import read_events
from phoneproof.protocol.events import (
    AttemptEnded,
    CaseFinished,
    Event,
    JobFinished,
    RoundFinished,
    SampleStarted,
)
from phoneproof.protocol.job import Case, Job
from tests.devices.faulty_host import FAULTY, LIMITS, SIMULATED, all_but, kept
from tests.models.jobs import JobFiles, benchmark, configuration, indices, infer, job_of, load, run_to_end

TOOLKIT = Path(__file__).parents[2]


def start(folder: Path, job: Job, files: JobFiles) -> subprocess.Popen[bytes]:
    (folder / "job.json").write_text(checked_text(job), encoding="utf-8")
    places = {digest: str(path) for digest, path in files.paths.items()}
    (folder / "files.json").write_text(json.dumps(places), encoding="utf-8")
    script = SIMULATED / "host_script.py"
    arguments = [folder / "jobs", folder / "job.json", folder / "files.json"]
    environment = {**os.environ, "PYTHONPATH": str(TOOLKIT)}
    return subprocess.Popen([sys.executable, str(script), *map(str, arguments)], env=environment)


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def events_so_far(folder: Path, job: Job) -> tuple[Event, ...]:
    return read_events(folder / "jobs" / job.job_id[:16])


def kill_when(folder: Path, job: Job, files: JobFiles, seen: Callable[[tuple[Event, ...]], bool]) -> None:
    """Start the job in a process, kill the process once `seen`, and wait until its runner is gone."""
    process = start(folder, job, files)
    until(lambda: seen(events_so_far(folder, job)))
    runners = psutil.Process(process.pid).children(recursive=True)
    assert runners
    process.send_signal(signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(runners, timeout=5)
    assert alive == []


def test_the_next_device_goes_on_at_the_sample_under_way(tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    model, samples = files.model("m", b"any"), indices(files, 9)
    slow = dict.fromkeys(("3", "4", "5"), "slow")
    job = job_of(
        [configuration("good", model, "faulty"), configuration("slow", model, "faulty", options=slow)],
        [samples],
        [load("good"), infer("good", samples), load("slow"), infer("slow", samples)],
        LIMITS,
    )

    def at_sample_4(events: tuple[Event, ...]) -> bool:
        return any(
            isinstance(e, SampleStarted) and e.case_id == "infer-slow" and e.sample == 4 for e in events
        )

    kill_when(tmp_path, job, files, at_sample_4)
    device = HostDevice(tmp_path / "jobs", FAULTY)
    results = run_to_end(device, job, files)
    ends = case_ends(job, results.events)
    assert {end.outcome for end in ends.values()} == {"passed"}
    assert kept(results, "infer-good") == kept(results, "infer-slow") == all_but(9)
    begun = Counter((e.case_id, e.sample) for e in results.events if isinstance(e, SampleStarted))
    repeated = {key for key, times in begun.items() if times > 1}
    assert len(repeated) == 1
    assert repeated <= {("infer-slow", 4), ("infer-slow", 5)}
    ends_seen = Counter(e.case_id for e in results.events if isinstance(e, CaseFinished))
    assert set(ends_seen.values()) == {1}
    words = [e.cause for e in results.events if isinstance(e, AttemptEnded)]
    assert words == ["interrupted", "exited"]


def test_an_interrupted_benchmark_starts_again_whole(tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    model, samples = files.model("m", b"any"), indices(files, 1)
    slow = {"0": "slow"}
    job = job_of(
        [configuration("base", model, "faulty"), configuration("slow", model, "faulty", options=slow)],
        [samples],
        [load("base"), load("slow"), benchmark("slow", samples, "base", rounds=3, visit_ms=1, max_runs=1)],
        LIMITS,
    )
    kill_when(tmp_path, job, files, lambda events: any(isinstance(e, RoundFinished) for e in events))
    results = run_to_end(HostDevice(tmp_path / "jobs", FAULTY), job, files)
    rounds = [(e.stamp.attempt, e.round) for e in results.events if isinstance(e, RoundFinished)]
    assert [number for attempt, number in rounds if attempt == 2] == [0, 1, 2]
    assert case_ends(job, results.events)["benchmark-slow"].outcome == "passed"


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path: Path) -> None:
    """Each sample once but for those under way, every output right, nobody blamed."""
    files = JobFiles(tmp_path / "store")
    model, samples = files.model("m", b"any"), indices(files, 40)
    slow = {str(sample): "slow" for sample in range(0, 40, 2)}
    names = ("one", "two", "three")
    job = job_of(
        [configuration(name, model, "faulty", options=slow) for name in names],
        [samples],
        [case for name in names for case in (load(name), infer(name, samples))],
        replace(LIMITS, interruptions_at_one_place=1_000),
    )
    draw = random.Random(3)
    kills = 0
    while True:
        process = start(tmp_path, job, files)
        try:
            assert process.wait(draw.uniform(0.1, 2.5)) == 0
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
    assert kills > 3
    results = run_to_end(HostDevice(tmp_path / "jobs", FAULTY), job, files)
    assert {end.outcome for end in case_ends(job, results.events).values()} == {"passed"}
    for name in names:
        assert kept(results, f"infer-{name}") == all_but(40)
    begun = Counter((e.case_id, e.sample) for e in results.events if isinstance(e, SampleStarted))
    assert sum(begun.values()) - len(begun) <= kills


def slow_job(files: JobFiles) -> Job:
    model, samples = files.model("m", b"any"), indices(files, 4)
    slow = {str(sample): "slow" for sample in range(4)}
    cases: list[Case] = [load("slow"), infer("slow", samples)]
    return job_of([configuration("slow", model, "faulty", options=slow)], [samples], cases, LIMITS)


def test_closing_blames_nobody_and_a_second_device_is_kept_out(tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    job = slow_job(files)
    first, second = HostDevice(tmp_path / "jobs", FAULTY), HostDevice(tmp_path / "jobs", FAULTY)
    first.submit(job, files.paths)
    with pytest.raises(BusyError):
        second.submit(job, files.paths)

    def has_begun() -> bool:
        return any(isinstance(event, SampleStarted) for event in first.events(job.job_id, 0).events)

    until(has_begun)
    first.close()
    first.close()
    seen = len(first.events(job.job_id, 0).events)
    with pytest.raises(DeviceError):
        first.events(job.job_id, seen)
    results = run_to_end(second, job, files)
    assert kept(results, "infer-slow") == all_but(4)
    assert {end.outcome for end in case_ends(job, results.events).values()} == {"passed"}


def test_what_a_dead_machine_left_in_the_files_is_cut(tmp_path: Path) -> None:
    """A torn word, garbage after the events of an attempt nobody saw the end of, and an empty event file."""
    files = JobFiles(tmp_path / "store")
    job = slow_job(files)
    folder = tmp_path / "jobs" / job.job_id[:16]

    def at_sample_1(events: tuple[Event, ...]) -> bool:
        return any(isinstance(e, SampleStarted) and e.sample == 1 for e in events)

    kill_when(tmp_path, job, files, at_sample_1)
    with (folder / "events" / "0001.jsonl").open("ab") as file:
        file.write(b"\x00" * 300 + b"\n\x00\x00")
    (folder / "attempts.jsonl").write_bytes(b'{"event":"attempt_en')
    (folder / "events" / "0002.jsonl").touch()
    results = run_to_end(HostDevice(tmp_path / "jobs", FAULTY), job, files)
    assert kept(results, "infer-slow") == all_but(4)
    assert {end.outcome for end in case_ends(job, results.events).values()} == {"passed"}
    assert isinstance(results.events[-2], JobFinished)
