"""A disk without room ends a launch, not a case; with room again the same job goes on to its end."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from phoneproof.devices.host import HostDevice
from phoneproof.errors import StorageError
from phoneproof.protocol.attempts import case_ends
from phoneproof.protocol.events import AttemptEnded
from phoneproof.protocol.job import Case, Job, Keep
from tests.devices.faulty_host import FAULTY, LIMITS, all_but, kept
from tests.models.jobs import (
    JobFiles,
    configuration,
    indices,
    infer,
    job_of,
    load,
    run_to_end,
    wait_for_end,
)

SIZE = 4 * 2**20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    reason = "only on Linux"
    mounted = False
    if sys.platform == "linux":
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        mounted, reason = done.returncode == 0, f"no tmpfs can be mounted: {done.stderr.strip()}"
    if not mounted:
        # In CI this may not be left out unnoticed.
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path, left: int) -> Path:
    """Fill the disk but for `left` bytes; the file to remove to make room."""
    filler = disk / "filler"
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    filler.write_bytes(b"x" * (free - left))
    return filler


def hungry_job(files: JobFiles, state: Path, keep: Keep, count: int) -> Job:
    """Sample 3 fills the disk itself, once: the harness then cannot write what follows."""
    model, samples = files.model("m", b"any"), indices(files, count)
    options = {"3": "once-fill-disk", "state": str(state)}
    return job_of(
        [configuration("hungry", model, "faulty", options=options), configuration("other", model, "faulty")],
        [samples],
        [load("hungry"), infer("hungry", samples, keep), load("other"), infer("other", samples)],
        LIMITS,
    )


def plain_job(files: JobFiles) -> Job:
    model, samples = files.model("m", b"any"), indices(files, 6)
    cases: list[Case] = [load("other"), infer("other", samples)]
    return job_of([configuration("other", model, "faulty")], [samples], cases, LIMITS)


def test_no_room_to_lay_the_job_out(small_disk: Path, tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    job = plain_job(files)
    filler = fill(small_disk, 0)
    device = HostDevice(small_disk / "jobs", FAULTY)
    with pytest.raises(StorageError):
        device.submit(job, files.paths)
    filler.unlink()
    results = run_to_end(device, job, files)
    assert kept(results, "infer-other") == all_but(6)


def test_too_little_room_to_launch(small_disk: Path, tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    job = plain_job(files)
    filler = fill(small_disk, 200_000)
    device = HostDevice(small_disk / "jobs", FAULTY)
    device.submit(job, files.paths)
    with pytest.raises(StorageError, match="bytes are free"):
        wait_for_end(device, job.job_id)
    filler.unlink()
    assert kept(run_to_end(device, job, files), "infer-other") == all_but(6)


# Events alone go on for a while in the room that is left in their file's last block: so more samples.
@pytest.mark.parametrize(("keep", "count"), [("full", 6), ("none", 120)])
def test_the_disk_fills_while_the_job_runs(
    keep: Literal["full", "none"], count: int, small_disk: Path, tmp_path: Path
) -> None:
    files = JobFiles(tmp_path / "store")
    job = hungry_job(files, tmp_path, Keep(keep), count)
    device = HostDevice(small_disk / "jobs", FAULTY)
    device.submit(job, files.paths)
    with pytest.raises(StorageError) as raised:
        wait_for_end(device, job.job_id)
    assert str(small_disk) in str(raised.value.where)
    assert raised.value.next_step is not None
    with pytest.raises(StorageError):
        device.events(job.job_id, len(device.events(job.job_id, 0).events))
    # As long as there is no room, each try says so again and begins no attempt.
    for _ in range(4):
        device.submit(job, files.paths)
        with pytest.raises(StorageError):
            wait_for_end(device, job.job_id)
    (small_disk / "jobs" / job.job_id[:16] / "filler").unlink()
    results = run_to_end(HostDevice(small_disk / "jobs", FAULTY), job, files)
    ends = case_ends(job, results.events)
    assert {end.outcome for end in ends.values()} == {"passed"}
    assert kept(results, "infer-other") == all_but(count)
    if keep == "full":
        assert kept(results, "infer-hungry") == all_but(count)
    causes = [event.cause for event in results.events if isinstance(event, AttemptEnded)]
    assert set(causes) == {"interrupted", "exited"}
    assert len(causes) == 2


def test_a_read_only_disk(small_disk: Path, tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    job = plain_job(files)
    remount = ["mount", "-o", "remount,ro", str(small_disk)]
    subprocess.run(remount, check=True)
    device = HostDevice(small_disk / "jobs", FAULTY)
    with pytest.raises(StorageError):
        device.describe()
    with pytest.raises(StorageError) as raised:
        device.submit(job, files.paths)
    assert raised.value.next_step is not None
