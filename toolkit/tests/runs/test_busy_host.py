"""A machine that other programs use must not fake a speed: simulated, and on this machine."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from phoneproof.devices.device import JobResults
from phoneproof.devices.host import HostDevice
from phoneproof.devices.simulated import Waiting, steady_waiting
from phoneproof.harness.waiting import thread_waits
from phoneproof.protocol.events import Measured, RoundFinished
from phoneproof.protocol.job import Configuration, SampleSet
from phoneproof.protocol.schema_files import schema_text
from phoneproof.report.compare import compare_reports
from phoneproof.runs.measuring import timing_of
from phoneproof.runs.run import ExitCode
from phoneproof.verify.waiting import LARGEST_WAITING_SHARE
from tests.models.jobs import JobFiles, benchmark, configuration, job_of, load, run_to_end
from tests.models.small_convolution import convolution, images
from tests.runs.project import Project, write_project
from tests.runs.simulated_host import FLOAT, FLOAT_ID, INT8, Ended, Scene, end_of, only_int8

SCHEMA = jsonschema.Draft202012Validator(json.loads(schema_text("report")))
GATES = "speedup_min = 1.2\nlatency_max_ms = 1.0"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("busy")
    return only_int8(write_project(folder / "project", folder / "store"), GATES)


def play(project: Project, name: str, waiting: Waiting) -> Ended:
    ended = end_of(project, Scene(waiting=waiting), project.folder / name)
    SCHEMA.validate(json.loads((ended.folder / "report" / "report.json").read_text()))
    return ended


def only_the_baseline_waits(configuration: Configuration, timed_ns: int) -> int:
    return timed_ns // 4 if configuration.configuration_id == FLOAT_ID else 0


@pytest.mark.parametrize("waiting", [steady_waiting(0.25), only_the_baseline_waits])
def test_a_busy_host_gives_no_verdict_on_speed(project: Project, waiting: Waiting, tmp_path: Path) -> None:
    ended = play(project, f"run-{tmp_path.name}", waiting)
    comparison = ended.result(INT8).comparison
    assert comparison is not None
    assert comparison.verdict == "too_noisy"
    assert comparison.reason is not None
    assert comparison.reason.id == "machine_busy"
    assert comparison.reason.facts == {
        "share": pytest.approx(0.25, rel=1e-3),
        "largest": LARGEST_WAITING_SHARE,
    }
    # What was measured is still there to be seen.
    assert comparison.ratio == pytest.approx(2.0, rel=0.02)
    assert comparison.ci95 is not None
    assert ended.gates(INT8)["speed"] == "inconclusive"
    assert ended.gates(INT8)["parity"] == "pass"
    (finding,) = [one for one in ended.report.findings if one.id == "HOST-BUSY"]
    assert finding.subject == "simulated"
    assert finding.facts["share"] == pytest.approx(0.25, rel=1e-3)
    assert INT8 in finding.facts["builds"]  # type: ignore[operator]
    assert "HOST-BUSY" in ended.result(INT8).findings
    page = (ended.folder / "report" / "index.html").read_text()
    assert "The machine was busy with other work" in page
    assert "2.00\N{MULTIPLICATION SIGN} faster" not in page


def test_a_latency_above_its_limit_is_not_held_against_a_build_on_a_busy_host(project: Project) -> None:
    ended = play(project, "run-latency", steady_waiting(0.25))
    for build_id in (INT8, FLOAT):
        result = ended.result(build_id)
        assert result.latency is not None
        assert result.latency.validity == "INVALID"
        assert "machine_busy" in [reason.id for reason in result.latency.validity_reasons]
    assert ended.gates(INT8)["latency"] == "inconclusive"
    assert ended.exit_code == ExitCode.INCONCLUSIVE


@pytest.mark.parametrize("waiting", [steady_waiting(0.0), lambda configuration, timed_ns: None])
def test_a_quiet_host_and_one_that_does_not_tell_are_believed(
    project: Project, waiting: Waiting, tmp_path: Path
) -> None:
    ended = play(project, f"run-{tmp_path.name}", waiting)
    comparison = ended.result(INT8).comparison
    assert comparison is not None
    assert (comparison.verdict, comparison.reason) == ("faster", None)
    assert ended.gates(INT8)["speed"] == "pass"
    assert ended.gates(INT8)["latency"] == "fail"
    assert "HOST-BUSY" not in {one.id for one in ended.report.findings}
    for reason in (r for one in ended.report.results if one.latency for r in one.latency.validity_reasons):
        assert reason.id != "machine_busy"


def test_a_speed_of_a_busy_host_is_not_compared_with_another_run(project: Project) -> None:
    quiet = play(project, "run-before", steady_waiting(0.0))
    busy = play(project, "run-after", steady_waiting(0.25))
    found = compare_reports(quiet.report, busy.report)
    assert "speed" not in [change.id for change in found.changes]
    (speed,) = [one for one in found.not_compared if one.id == "speed"]
    assert speed.facts["why"] == "machine_busy"


@contextmanager
def burning(processes: int) -> Iterator[None]:
    """Programs that use a processor each, for at most a minute.

    Each in a session of its own: Linux shares processors out by session first (autogroup), and to one session
    of burners it owes no more than to the harness, which then never waits on two processors.
    """
    script = "import time\nprint(flush=True)\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
    command = [sys.executable, "-c", script]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) for _ in range(processes)
    ]
    try:
        for one in running:
            assert one.stdout is not None
            one.stdout.readline()  # it burns from now on
        yield
    finally:
        for one in running:
            one.kill()
            one.communicate()


def timed_pair(folder: Path) -> JobResults:
    """A network and one of a sixth of its layers, timed on this machine: about a second."""
    files = JobFiles(folder / "store")
    samples = SampleSet("images", 1, (files.raw_input("image", images(1, 16, 32)),))
    long, short = (convolution(16, 16, 32, layers=layers) for layers in (60, 10))
    job = job_of(
        [
            configuration("long", files.model("long.onnx", long)),
            configuration("short", files.model("short.onnx", short)),
        ],
        [samples],
        [
            load("long"),
            load("short"),
            benchmark("short", samples, "long", rounds=12, visit_ms=20, max_runs=100),
        ],
    )
    device = HostDevice(folder / "jobs")
    try:
        return run_to_end(device, job, files)
    finally:
        device.close()


def test_this_machine_notices_that_its_processors_are_used(tmp_path: Path) -> None:
    if thread_waits() is None:
        pytest.skip("this system does not tell of waiting")
    with burning(2 * len(os.sched_getaffinity(0))):
        results = timed_pair(tmp_path)
    rounds = [event for event in results.events if isinstance(event, RoundFinished)]
    assert len(rounds) == 12
    timing = timing_of(rounds, Measured(clock_resolution_ns=50))
    assert "machine_busy" in timing.summary.reasons
    comparison = timing.comparison
    assert comparison is not None
    assert (comparison.verdict, comparison.reason) == ("too_noisy", "machine_busy")
    assert comparison.ratio is not None
    assert comparison.interval is not None
    # The same times of a system that does not tell are believed.
    silent = timing_of([replace(one, waited_ns=None) for one in rounds], Measured(clock_resolution_ns=50))
    assert silent.waiting_share is None
    assert "machine_busy" not in silent.summary.reasons
    assert silent.comparison is not None
    assert silent.comparison.reason != "machine_busy"
