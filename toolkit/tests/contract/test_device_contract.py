"""What every device must do, whatever it is."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from phoneproof.devices.device import Device
from phoneproof.devices.host import HostDevice
from phoneproof.devices.replay import ReplayDevice
from phoneproof.devices.simulated import Behaviour, Fault, SimulatedDevice, SimulatedIdentity
from phoneproof.devices.supervisor import HarnessCommand
from phoneproof.errors import DeviceError, PhoneproofError, ProtocolError, StorageError
from phoneproof.protocol.attempts import case_ends
from phoneproof.protocol.codec import to_dict
from phoneproof.protocol.events import CaseStarted, Event, JobStarted, SampleStarted, in_order
from phoneproof.protocol.job import Configuration, Job, Limits, ProtocolVersion, job_digest
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

SIMULATED = Path(__file__).parents[1] / "simulated"
COUNT = 6
CRASHING = 2


@dataclass(frozen=True)
class Subject:
    """One kind of device with the job it is given. open: a new device object on the same root."""

    kind: str
    open: Callable[[], Device]
    job: Job
    files: JobFiles


def crashing_job(files: JobFiles) -> Job:
    """Two configurations; sample 2 crashes the first one."""
    model, samples = files.model("m", b"any"), indices(files, COUNT)
    return job_of(
        [
            configuration("bad", model, "faulty", options={str(CRASHING): "segfault"}),
            configuration("good", model, "faulty"),
        ],
        [samples],
        [
            load("bad"),
            infer("bad", samples),
            load("good"),
            infer("good", samples),
            benchmark("good", samples, rounds=2, max_runs=3),
        ],
        Limits(load_timeout_ms=30_000),
    )


def doubled(_: Configuration, inputs: Mapping[str, NDArray[Any]]) -> tuple[NDArray[Any], ...]:
    return (2 * inputs["index"].astype(np.float32),)


def host(root: Path) -> HostDevice:
    command = HarnessCommand(python_path=(SIMULATED,), runtimes={"faulty": "faulty_runtime:runtime"})
    return HostDevice(root, command)


def simulated(root: Path) -> SimulatedDevice:
    behaviour = Behaviour(doubled, faults=(Fault("crash", "bad", "infer", CRASHING),))
    return SimulatedDevice(root, behaviour, SimulatedIdentity(runtimes={"faulty": "1.0"}), events_per_call=3)


def replay(root: Path, files: JobFiles, job: Job) -> ReplayDevice:
    if not root.exists():
        run_to_end(simulated(root), job, files)
    return ReplayDevice(root, events_per_call=3)


@pytest.fixture(params=["host", "simulated", "replay"])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    files = JobFiles(tmp_path / "store")
    job = crashing_job(files)
    root = tmp_path / "jobs"
    opened: list[Device] = []
    makers: dict[str, Callable[[], Device]] = {
        "host": lambda: host(root),
        "simulated": lambda: simulated(root),
        "replay": lambda: replay(root, files, job),
    }

    def open_device() -> Device:
        opened.append(makers[request.param]())
        return opened[-1]

    yield Subject(request.param, open_device, job, files)
    for device in opened:
        device.close()


def test_a_device_describes_itself(subject: Subject) -> None:
    description = subject.open().describe()
    assert description.kind == subject.kind
    assert description.runtimes["faulty"] == "1.0"
    assert description.device_id
    if subject.kind != "host":
        assert description.environment["simulated"] is True


def test_a_job_runs_to_its_end(subject: Subject) -> None:
    device = subject.open()
    results = run_to_end(device, subject.job, subject.files)
    ends = case_ends(subject.job, results.events)
    assert {case_id: end.outcome for case_id, end in ends.items()} == {
        "load-bad": "passed",
        "infer-bad": "crashed",
        "load-good": "passed",
        "infer-good": "passed",
        "benchmark-good": "passed",
    }
    ((sample, bad),) = ends["infer-bad"].bad_samples.items()
    assert (sample, bad.cause, bad.code, bad.confidence) == (CRASHING, "signal", 11, "high")
    for case_id, samples in (
        ("infer-bad", [s for s in range(COUNT) if s != CRASHING]),
        ("infer-good", list(range(COUNT))),
    ):
        outputs = {sample: tensors[0].tolist() for sample, tensors in read_outputs(results.outputs[case_id])}
        assert outputs == {sample: [2.0 * sample] for sample in samples}


def test_events_come_once_in_order_and_whole(subject: Subject) -> None:
    device = subject.open()
    device.submit(subject.job, subject.files.paths)
    events = wait_for_end(device, subject.job.job_id)
    assert tuple(events) == in_order(events)
    assert isinstance(events[0], JobStarted)
    results = device.collect(subject.job.job_id)
    assert tuple(events) == results.events
    # A reader may begin anywhere, and the end stays the end.
    for after in (0, 5, len(events)):
        batch = device.events(subject.job.job_id, after)
        assert batch.finished
        assert list(batch.events) == events[after:]


def test_a_case_starts_before_it_is_done(subject: Subject) -> None:
    events = run_to_end(subject.open(), subject.job, subject.files).events
    begun: set[str] = set()
    for event in events:
        if isinstance(event, CaseStarted):
            begun.add(event.case_id)
        elif isinstance(event, SampleStarted):
            assert event.case_id in begun


def test_submitting_again_changes_nothing(subject: Subject) -> None:
    device = subject.open()
    assert device.submit(subject.job, subject.files.paths) == subject.job.job_id
    assert device.submit(subject.job, subject.files.paths) == subject.job.job_id
    events = wait_for_end(device, subject.job.job_id)
    device.submit(subject.job, subject.files.paths)
    assert wait_for_end(device, subject.job.job_id) == events
    assert device.collect(subject.job.job_id).events == tuple(events)


def test_an_unknown_job(subject: Subject) -> None:
    device = subject.open()
    with pytest.raises(DeviceError):
        device.events("0" * 64, 0)
    with pytest.raises(DeviceError):
        device.collect("0" * 64)


def test_collecting_too_early(subject: Subject) -> None:
    device = subject.open()
    device.submit(subject.job, subject.files.paths)
    with pytest.raises(DeviceError):
        device.collect(subject.job.job_id)


def test_a_changed_output_is_not_handed_on(subject: Subject) -> None:
    device = subject.open()
    path = run_to_end(device, subject.job, subject.files).outputs["infer-good"]
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    with pytest.raises(StorageError):
        device.collect(subject.job.job_id)
    path.unlink()
    with pytest.raises(StorageError):
        device.collect(subject.job.job_id)


def test_another_protocol_version_is_refused(subject: Subject) -> None:
    draft = replace(subject.job, protocol=ProtocolVersion(2, 0))
    job = replace(draft, job_id=job_digest(to_dict(draft)))
    with pytest.raises(ProtocolError, match=r"2\.0"):
        subject.open().submit(job, subject.files.paths)


@pytest.mark.parametrize("name", ["../../escaped", "/escaped", "a/../../escaped", "con:x", ".. /escaped"])
def test_names_that_leave_the_folder_are_refused(name: str, subject: Subject, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    configurations = subject.job.configurations
    ref = replace(configurations[0].model.files[0], name=name)
    model = replace(configurations[0].model, entry=name, files=(ref,))
    draft = replace(
        subject.job, configurations=(replace(configurations[0], model=model), *configurations[1:])
    )
    job = replace(draft, job_id=job_digest(to_dict(draft)))
    with pytest.raises(ProtocolError):
        subject.open().submit(job, subject.files.paths)
    assert not list(tmp_path.parent.glob("escaped*"))
    assert [path for path in sorted(tmp_path.iterdir()) if path not in before] in ([], [tmp_path / "jobs"])


@pytest.mark.parametrize("job_id", ["../../escaped", "f" * 64])
def test_a_job_id_that_is_not_its_digest_is_refused(job_id: str, subject: Subject) -> None:
    with pytest.raises(ProtocolError):
        subject.open().submit(replace(subject.job, job_id=job_id), subject.files.paths)


def test_closing_twice(subject: Subject) -> None:
    device = subject.open()
    device.submit(subject.job, subject.files.paths)
    device.close()
    device.close()


def test_a_new_object_goes_on_where_the_old_one_stopped(subject: Subject) -> None:
    first = subject.open()
    first.submit(subject.job, subject.files.paths)
    seen: list[Event] = []
    while not any(isinstance(event, SampleStarted) for event in seen):
        seen += first.events(subject.job.job_id, len(seen)).events
    first.close()
    results = run_to_end(subject.open(), subject.job, subject.files)
    assert list(results.events[: len(seen)]) == seen
    outcomes = {case_id: end.outcome for case_id, end in case_ends(subject.job, results.events).items()}
    assert outcomes["infer-bad"] == "crashed"
    assert outcomes["infer-good"] == outcomes["benchmark-good"] == "passed"
    outputs = [sample for sample, _ in read_outputs(results.outputs["infer-bad"])]
    assert outputs == [s for s in range(COUNT) if s != CRASHING]


@pytest.mark.parametrize("kind", ["host", "simulated"])
def test_a_missing_or_changed_file_is_refused(kind: str, tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    job = crashing_job(files)
    device: Device = host(tmp_path / "jobs") if kind == "host" else simulated(tmp_path / "jobs")
    digest = job.configurations[0].model.files[0].sha256
    with pytest.raises(StorageError):
        device.submit(job, {key: path for key, path in files.paths.items() if key != digest})
    shutil.copy(files.paths[digest], tmp_path / "changed")
    (tmp_path / "changed").write_bytes(b"all")
    with pytest.raises(StorageError):
        device.submit(job, {**files.paths, digest: tmp_path / "changed"})
    with pytest.raises(DeviceError):
        device.events(job.job_id, 0)


def test_a_job_that_was_not_recorded(tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    job = crashing_job(files)
    other = job_of(job.configurations, job.samples, job.cases[:2], job.limits)
    device = replay(tmp_path / "jobs", files, job)
    with pytest.raises(DeviceError) as raised:
        device.submit(other, files.paths)
    assert raised.value.next_step is not None


def test_a_recording_that_stops_too_early(tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    job = crashing_job(files)
    device = replay(tmp_path / "jobs", files, job)
    folder = tmp_path / "jobs" / job.job_id[:16]
    (folder / "events" / "0002.jsonl").unlink()
    attempts = (folder / "attempts.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "attempts.jsonl").write_text(attempts[0], encoding="utf-8")
    device.submit(job, files.paths)
    with pytest.raises(DeviceError):
        wait_for_end(device, job.job_id)
    with pytest.raises(DeviceError):
        device.collect(job.job_id)


def test_a_recording_with_a_foreign_event(tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    job = crashing_job(files)
    device = replay(tmp_path / "jobs", files, job)
    path = tmp_path / "jobs" / job.job_id[:16] / "events" / "0001.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    event = json.loads(lines[1])
    event["case_id"] = "../../escaped"
    lines[1] = json.dumps(event) + "\n"
    path.write_text("".join(lines), encoding="utf-8")
    with pytest.raises(PhoneproofError):
        run_to_end(device, job, files)
