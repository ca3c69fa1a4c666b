"""Runtimes that really crash, hang, eat memory or write nonsense: each ends its own sample, the rest runs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from phoneproof.devices.device import JobResults
from phoneproof.devices.host import HostDevice
from phoneproof.devices.supervisor import HarnessCommand
from phoneproof.errors import DeviceError
from phoneproof.protocol.attempts import CaseEnd, case_ends
from phoneproof.protocol.events import AttemptEnded
from phoneproof.protocol.job import Case, Job
from phoneproof.protocol.outputs import read_outputs
from tests.devices.faulty_host import FAULTY, LIMITS, all_but, kept
from tests.models.jobs import (
    JobFiles,
    benchmark,
    configuration,
    indices,
    infer,
    job_of,
    load,
    run_to_end,
    wait_for_end,
)

CRASHES: dict[str, tuple[str, str, int | None, str]] = {
    "segfault": ("crashed", "signal", 11, "high"),
    "abort": ("crashed", "signal", 6, "high"),
    "exit": ("crashed", "exited", 3, "high"),
    "sys-exit": ("crashed", "exited", 4, "high"),
    "kill-itself": ("crashed", "signal", 9, "low"),
    "hang": ("timed_out", "timed_out", 6, "high"),
    "hang-with-gil": ("timed_out", "timed_out", 6, "high"),
    "eat-memory": ("killed_low_memory", "low_memory", 9, "high"),
    "print-garbage-and-die": ("crashed", "signal", 6, "high"),
    "half-a-line": ("crashed", "exited", 9, "high"),
    "garbage-line": ("crashed", "protocol", None, "high"),
    "foreign-event": ("crashed", "protocol", None, "high"),
}
"""Outcome, cause, code and confidence that each must have."""


def run_faulty(folder: Path, job: Job, files: JobFiles) -> JobResults:
    device = HostDevice(folder / "jobs", FAULTY)
    results = run_to_end(device, job, files)
    device.close()
    return results


def only_bad(end: CaseEnd) -> tuple[int, tuple[str, str, int | None, str]]:
    assert len(end.bad_samples) == 1
    ((sample, bad),) = end.bad_samples.items()
    return sample, (bad.outcome, bad.cause, bad.code, bad.confidence)


def test_each_fault_is_pinned_to_its_sample_and_the_rest_runs(tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    model, samples = files.model("m", b"any"), indices(files, 5)
    names = ["before", *CRASHES, "after"]
    job = job_of(
        [
            configuration(name, model, "faulty", options={"2": name} if name in CRASHES else {})
            for name in names
        ],
        [samples],
        [case for name in names for case in (load(name), infer(name, samples))],
        replace(LIMITS, sample_timeout_ms=3_000),
    )
    results = run_faulty(tmp_path, job, files)
    ends = case_ends(job, results.events)
    assert {name: only_bad(ends[f"infer-{name}"]) for name in CRASHES} == {
        name: (2, expected) for name, expected in CRASHES.items()
    }
    for name in names:
        assert kept(results, f"infer-{name}") == all_but(5, *([2] if name in CRASHES else []))
        assert ends[f"load-{name}"].outcome == "passed"
    words = [event for event in results.events if isinstance(event, AttemptEnded)]
    assert [word.cause for word in words] == [cause for _, cause, _, _ in CRASHES.values()] + ["exited"]
    for fault in ("segfault", "hang"):
        log = words[list(CRASHES).index(fault)].log_tail
        assert any("faulty_runtime.py" in line for line in log)


def test_what_a_runtime_raises_or_answers_wrongly_fails_one_sample(tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    model, samples = files.model("m", b"any"), indices(files, 10)
    faults = {
        "1": "raise",
        "2": "raise-unreadable",
        "3": "nothing",
        "4": "strings",
        "5": "wrong-shape",
        "6": "nan",
        "7": "print-garbage",
        "8": "fork",
    }
    job = job_of(
        [configuration("bad", model, "faulty", options=faults)],
        [samples],
        [load("bad"), infer("bad", samples)],
        LIMITS,
    )
    results = run_faulty(tmp_path, job, files)
    end = case_ends(job, results.events)["infer-bad"]
    errors = {sample: bad.error for sample, bad in end.bad_samples.items()}
    assert {sample: error.type for sample, error in errors.items() if error} == {
        1: "VendorError",
        2: "UnreadableError",
        3: "TypeError",
        4: "ProtocolError",
    }
    assert errors[1] is not None
    assert errors[1].message == "the graph has no kernel for Ünïcode"
    outputs = dict(read_outputs(results.outputs["infer-bad"]))
    assert sorted(outputs) == [0, 5, 6, 7, 8, 9]
    # What is wrong in the values is for verify to judge: the harness hands it on as it came.
    assert outputs[5][0].shape == (3, 5)
    assert np.isnan(outputs[6][0]).all()
    assert outputs[8][0].tolist() == [16.0]
    assert [event.cause for event in results.events if isinstance(event, AttemptEnded)] == ["exited"]


def test_faults_outside_of_inference(tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    model, samples = files.model("m", b"any"), indices(files, 3)
    names = {
        "load-raises": {"load": "raise"},
        "load-dies": {"load": "segfault"},
        "load-exits": {"load": "sys-exit"},
        "close-raises": {"close": "raise"},
        "close-dies": {"close": "segfault"},
        "good": {},
    }
    job = job_of(
        [
            configuration("import-dies", model, "dying"),
            *(configuration(name, model, "faulty", options=options) for name, options in names.items()),
        ],
        [samples],
        [case for name in ("import-dies", *names) for case in (load(name), infer(name, samples))],
        LIMITS,
    )
    results = run_faulty(tmp_path, job, files)
    ends = case_ends(job, results.events)
    found = {
        case_id: (end.outcome, end.bad.cause if end.bad else None)
        for case_id, end in ends.items()
        if end.outcome != "passed"
    }
    assert found == {
        "load-import-dies": ("crashed", "signal"),
        "infer-import-dies": ("not_run", "load"),
        "load-load-raises": ("failed", "error"),
        "infer-load-raises": ("not_run", "load"),
        "load-load-dies": ("crashed", "signal"),
        "infer-load-dies": ("not_run", "load"),
        "load-load-exits": ("crashed", "exited"),
        "infer-load-exits": ("not_run", "load"),
    }
    for name in ("close-raises", "close-dies", "good"):
        assert kept(results, f"infer-{name}") == all_but(3)


def test_nothing_that_a_runtime_started_outlives_the_job(tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    model, samples = files.model("m", b"any"), indices(files, 3)
    options = {"0": "leave-a-child", "1": "leave-a-thread"}
    job = job_of(
        [configuration("bad", model, "faulty", options=options)],
        [samples],
        [load("bad"), infer("bad", samples)],
        LIMITS,
    )
    results = run_faulty(tmp_path, job, files)
    assert kept(results, "infer-bad") == all_but(3)
    child = int((results.folder / "left-child.txt").read_text(encoding="ascii"))
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_too_many_bad_samples_end_the_case_and_only_it(tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    model, samples = files.model("m", b"any"), indices(files, 8)
    options = {"1": "exit", "2": "raise", "4": "raise"}
    job = job_of(
        [configuration("bad", model, "faulty", options=options), configuration("good", model, "faulty")],
        [samples],
        [load("bad"), infer("bad", samples), load("good"), infer("good", samples)],
        replace(LIMITS, bad_samples_per_case=3),
    )
    results = run_faulty(tmp_path, job, files)
    ends = case_ends(job, results.events)
    assert {s: bad.cause for s, bad in ends["infer-bad"].bad_samples.items()} == {
        1: "exited",
        2: "error",
        4: "error",
        5: "bad_samples",
        6: "bad_samples",
        7: "bad_samples",
    }
    # What did run is not lost with the rest.
    assert kept(results, "infer-bad") == {0: 0.0, 3: 6.0}
    assert ends["infer-good"].outcome == "passed"


@pytest.mark.parametrize("interleaving", ["in_process", pytest.param("by_process", marks=pytest.mark.slow)])
def test_a_benchmark_that_crashes_is_blamed_and_the_next_one_runs(interleaving: str, tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    model, samples = files.model("m", b"any"), indices(files, 1)
    state = str(tmp_path)
    names = {
        "base": {},
        "dies": {"0": "segfault"},
        "exits": {"0": "exit"},
        "raises": {"0": "raise"},
        "good": {"state": state},
    }
    job = job_of(
        [configuration(name, model, "faulty", options=options) for name, options in names.items()],
        [samples],
        [
            *map(load, names),
            *(benchmark(n, samples, "base", interleaving, 1, 1) for n in ("dies", "exits", "raises", "good")),
        ],
        LIMITS,
    )
    results = run_faulty(tmp_path, job, files)
    ends = case_ends(job, results.events)
    found = {
        name: (end.outcome, end.bad.cause, end.bad.code) if end.bad else (end.outcome,)
        for name, end in ((n, ends[f"benchmark-{n}"]) for n in ("dies", "exits", "raises", "good"))
    }
    assert found == {
        "dies": ("crashed", "signal", 11),
        "exits": ("crashed", "exited", 3),
        "raises": ("failed", "error", None),
        "good": ("passed",),
    }
    bad = ends["benchmark-raises"].bad
    assert bad is not None
    assert bad.error is not None
    assert "Ünïcode" in bad.error.message


def test_a_harness_that_does_not_start(tmp_path: Path) -> None:
    """Not the fault of any case: all are not run, with the reason, and the log says why."""
    files = JobFiles(tmp_path / "store")
    model, samples = files.model("m", b"any"), indices(files, 2)
    cases: list[Case] = [load("good"), infer("good", samples)]
    job = job_of([configuration("good", model, "faulty")], [samples], cases, LIMITS)
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no module named phoneproof >&2; exit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    device = HostDevice(tmp_path / "jobs", HarnessCommand(interpreter=broken))
    with pytest.raises(DeviceError) as raised:
        device.describe()
    assert raised.value.facts["exit_code"] == 1
    results = run_to_end(device, job, files)
    ends = case_ends(job, results.events)
    assert {end.bad.cause for end in ends.values() if end.bad} == {"start"}
    words = [event for event in results.events if isinstance(event, AttemptEnded)]
    assert len(words) == job.limits.start_failures
    assert words[0].log_tail == ("no module named phoneproof",)


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    model, samples = files.model("m", b"any"), indices(files, 1)
    job = job_of([configuration("good", model, "faulty")], [samples], [load("good")], LIMITS)
    device = HostDevice(tmp_path / "jobs", HarnessCommand(interpreter=tmp_path / "no-python"))
    with pytest.raises(DeviceError):
        device.describe()
    device.submit(job, files.paths)
    with pytest.raises(DeviceError, match="interpreter"):
        wait_for_end(device, job.job_id)
