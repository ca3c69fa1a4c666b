"""The simulated device's script: every fault has the outcome that a real one would have."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from phoneproof.devices.device import JobResults
from phoneproof.devices.simulated import (
    Behaviour,
    Fault,
    Loading,
    SimulatedDevice,
    SimulatedIdentity,
    Waiting,
    constant_latency,
    noisy_latency,
    steady_waiting,
)
from phoneproof.errors import DeviceError
from phoneproof.protocol.attempts import case_ends
from phoneproof.protocol.events import CaseFinished, JobStarted, RoundFinished, SampleStarted
from phoneproof.protocol.job import Configuration, Job, Limits
from phoneproof.protocol.outputs import read_outputs
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


def negated(_: Configuration, inputs: Mapping[str, NDArray[Any]]) -> tuple[NDArray[Any], ...]:
    return (-inputs["index"].astype(np.float32),)


def small_job(files: JobFiles, limits: Limits | None = None) -> Job:
    model, samples = files.model("m", b"any"), indices(files, 5)
    return job_of(
        [configuration("a", model, accelerator="npu"), configuration("b", model)],
        [samples],
        [
            load("a"),
            infer("a", samples),
            load("b"),
            infer("b", samples),
            benchmark("a", samples, "b", rounds=4, visit_ms=20, max_runs=30),
        ],
        limits,
    )


def run(folder: Path, behaviour: Behaviour, limits: Limits | None = None) -> tuple[Job, JobResults]:
    files = JobFiles(folder / "store")
    job = small_job(files, limits)
    return job, run_to_end(SimulatedDevice(folder / "jobs", behaviour), job, files)


def ends_of(job: Job, results: JobResults) -> dict[str, tuple[str, str | None]]:
    ends = case_ends(job, results.events)
    return {case_id: (end.outcome, end.bad.cause if end.bad else None) for case_id, end in ends.items()}


@pytest.mark.parametrize(
    ("kind", "outcome", "cause"),
    [
        ("error", "failed", "error"),
        ("crash", "crashed", "signal"),
        ("exit", "crashed", "exited"),
        ("timed_out", "timed_out", "timed_out"),
        ("low_memory", "killed_low_memory", "low_memory"),
    ],
)
def test_faults_at_each_place(kind: Any, outcome: str, cause: str, tmp_path: Path) -> None:
    at_sample = Behaviour(negated, faults=(Fault(kind, "a", "infer", 3),))
    job, results = run(tmp_path / "sample", at_sample)
    assert ends_of(job, results) == {
        "load-a": ("passed", None),
        "infer-a": (outcome, cause),
        "load-b": ("passed", None),
        "infer-b": ("passed", None),
        "benchmark-a": ("passed", None),
    }
    assert list(case_ends(job, results.events)["infer-a"].bad_samples) == [3]
    kept = {sample: tensors[0].tolist() for sample, tensors in read_outputs(results.outputs["infer-a"])}
    assert kept == {sample: [-float(sample)] for sample in (0, 1, 2, 4)}

    job, results = run(tmp_path / "load", Behaviour(negated, faults=(Fault(kind, "a", "load"),)))
    assert ends_of(job, results) == {
        "load-a": (outcome, cause),
        "infer-a": ("not_run", "load"),
        "load-b": ("passed", None),
        "infer-b": ("passed", None),
        "benchmark-a": ("not_run", "load"),
    }

    job, results = run(tmp_path / "benchmark", Behaviour(negated, faults=(Fault(kind, "a", "benchmark"),)))
    found = ends_of(job, results)
    assert found.pop("benchmark-a") == (outcome, cause)
    assert set(found.values()) == {("passed", None)}


def test_a_lost_device_comes_back_without_blame(tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    job = small_job(files)
    behaviour = Behaviour(negated, faults=(Fault("lost", "a", "infer", 2, times=1),))
    device = SimulatedDevice(tmp_path / "jobs", behaviour)
    device.submit(job, files.paths)
    with pytest.raises(DeviceError):
        wait_for_end(device, job.job_id)
    with pytest.raises(DeviceError):
        device.collect(job.job_id)
    results = run_to_end(device, job, files)
    assert set(ends_of(job, results).values()) == {("passed", None)}
    begun = [e.sample for e in results.events if isinstance(e, SampleStarted) and e.case_id == "infer-a"]
    assert begun == [0, 1, 2, 2, 3, 4]


def test_a_device_that_is_lost_at_one_place_again_and_again(tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    job = small_job(files)
    device = SimulatedDevice(tmp_path / "jobs", Behaviour(negated, faults=(Fault("lost", "a", "infer", 2),)))
    for _ in range(job.limits.interruptions_at_one_place):
        device.submit(job, files.paths)
        with pytest.raises(DeviceError):
            wait_for_end(device, job.job_id)
    results = run_to_end(device, job, files)
    ((sample, bad),) = case_ends(job, results.events)["infer-a"].bad_samples.items()
    assert (sample, bad.outcome, bad.cause, bad.confidence) == (2, "crashed", "interrupted", "low")


def test_slow_runs_time_out(tmp_path: Path) -> None:
    def slow_at_3(configuration: Configuration, run: int) -> int:
        return 3_000_000_000 if (configuration.configuration_id, run) == ("a", 3) else 1_000_000

    behaviour = Behaviour(negated, latency=slow_at_3)
    job, results = run(tmp_path, behaviour, Limits(sample_timeout_ms=2_000))
    ((sample, bad),) = case_ends(job, results.events)["infer-a"].bad_samples.items()
    assert (sample, bad.outcome) == (3, "timed_out")


def test_slow_loading_times_out(tmp_path: Path) -> None:
    behaviour = Behaviour(negated, loading=lambda one: Loading(load_ms=3_000))
    job, results = run(tmp_path, behaviour, Limits(load_timeout_ms=2_000))
    assert ends_of(job, results)["load-a"] == ("timed_out", "timed_out")


def test_a_fall_back_to_the_cpu_is_told(tmp_path: Path) -> None:
    def loading(configuration: Configuration) -> Loading:
        if configuration.accelerator == "npu":
            return Loading(accelerator_actual="cpu+npu", operators={"npu": 3, "cpu": 40})
        return Loading(accelerator_actual=None)

    _, results = run(tmp_path, Behaviour(negated, loading=loading))
    told = {e.case_id: e.measured for e in results.events if isinstance(e, CaseFinished)}
    assert told["load-a"].accelerator_actual == "cpu+npu"
    assert told["load-a"].operators == {"npu": 3, "cpu": 40}
    assert told["load-b"].accelerator_actual is None
    assert told["benchmark-a"].accelerator_actual == "cpu+npu"


def test_a_runtime_that_the_device_does_not_have(tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    model = files.model("m", b"any")
    job = job_of([configuration("a", model, "litert")], [], [load("a")])
    results = run_to_end(SimulatedDevice(tmp_path / "jobs", Behaviour(negated)), job, files)
    bad = case_ends(job, results.events)["load-a"].bad
    assert bad is not None
    assert bad.error is not None
    assert bad.error.type == "RuntimeUnavailableError"


def test_latencies_are_those_of_the_script(tmp_path: Path) -> None:
    behaviour = Behaviour(negated, latency=noisy_latency({"a": 1_000_000, "b": 4_000_000}, 0.05, seed=7))
    _, results = run(tmp_path / "one", behaviour)
    rounds = [event for event in results.events if isinstance(event, RoundFinished)]
    assert len(rounds) == 4
    baseline = np.concatenate([one.visits_ns[0] + one.visits_ns[3] for one in rounds])
    candidate = np.concatenate([one.visits_ns[1] + one.visits_ns[2] for one in rounds])
    assert np.median(candidate) == pytest.approx(1_000_000, rel=0.03)
    assert np.median(baseline) == pytest.approx(4_000_000, rel=0.05)
    # The same script gives the same events, clocks included; the supervisor's word has the real time.
    _, again = run(tmp_path / "two", behaviour)
    assert results.events[:-1] == again.events[:-1]


def test_sub_millisecond_runs_are_batched(tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    samples = indices(files, 1)
    case = benchmark("a", samples, batch_below_ns=1_000_000, visit_ms=10, max_runs=100)
    job = job_of([configuration("a", files.model("m", b"any"))], [samples], [load("a"), case])
    behaviour = Behaviour(negated, latency=constant_latency(30_000))
    results = run_to_end(SimulatedDevice(tmp_path / "jobs", behaviour), job, files)
    one = next(event for event in results.events if isinstance(event, RoundFinished))
    assert one.candidate_batch == 34
    assert one.visits_ns == ((34 * 30_000,) * 10,)
    assert one.waited_ns == (0,)


def test_waiting_for_a_processor_is_that_of_the_script(tmp_path: Path) -> None:
    def rounds(name: str, waiting: Waiting) -> list[RoundFinished]:
        _, results = run(tmp_path / name, Behaviour(negated, waiting=waiting))
        return [event for event in results.events if isinstance(event, RoundFinished)]

    for one in rounds("busy", steady_waiting(0.25)):
        assert one.waited_ns == tuple(round(0.25 * sum(visit)) for visit in one.visits_ns)
    assert {one.waited_ns for one in rounds("silent", lambda configuration, timed_ns: None)} == {None}


def test_nothing_can_pass_for_a_real_device(tmp_path: Path) -> None:
    identity = SimulatedIdentity(environment={"simulated": False, "battery": 0.1})
    device = SimulatedDevice(tmp_path / "jobs", Behaviour(negated), identity)
    assert device.describe().kind == "simulated"
    assert device.describe().environment == {"simulated": True, "battery": 0.1, "os": "simulated"}
    files = JobFiles(tmp_path / "store")
    begun = run_to_end(device, small_job(files), files).events[0]
    assert isinstance(begun, JobStarted)
    assert begun.environment["simulated"] is True
    assert begun.environment["battery"] == 0.1


def test_a_fault_needs_its_place() -> None:
    with pytest.raises(ValueError, match="sample"):
        Fault("crash", "a", "infer")
    with pytest.raises(ValueError, match="sample"):
        Fault("crash", "a", "load", 1)
