"""Repeating one case: what crashed crashes again, alone, and everything that it needs lies beside it."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from PIL import Image

from phoneproof.devices.device import Device
from phoneproof.devices.host import HostDevice
from phoneproof.errors import BusyError, CommandLineError, Interrupted, RunFolderError
from phoneproof.jobs.planning import Placement, RunnableBuild, plan_job
from phoneproof.protocol.event_files import read_events
from phoneproof.protocol.events import JobStarted
from phoneproof.protocol.job import SampleSet, read_job
from phoneproof.protocol.outputs import read_outputs
from phoneproof.runs.folder import held, opened
from phoneproof.runs.rerun import Repeat, Rerun, RerunOptions, outcome_in_run, rerun
from phoneproof.runs.rerun_cases import case_called, run_cases
from tests.devices.faulty_host import FAULTY, LIMITS
from tests.models.jobs import JobFiles, indices, run_to_end
from tests.runs.project import Project

HERE = Placement("cpu", False, 1)


def host(root: Path) -> Device:
    return HostDevice(root, FAULTY)


def run_of(project: Project, folder: Path, *faults: Mapping[str, str], samples: int = 4) -> Path:
    """A run with one job, in which each build misbehaves as its faults say: a sample is its own number."""
    files = JobFiles(folder / "store")
    model, numbers = files.model("m", b"any"), indices(files, samples)
    builds = [
        RunnableBuild(f"tiny/onnx/build-{n}", "faulty", model, numbers, None, fault)
        for n, fault in enumerate(faults)
    ]
    return carried_out(project, folder / "run", builds, files)


def carried_out(project: Project, run: Path, builds: list[RunnableBuild], files: JobFiles) -> Path:
    job = plan_job(builds, [HERE], None, LIMITS, {}).job
    with opened(run, project.plan, ("phoneproof", "run")) as begun:
        begun.say("planned", steps=("job/host/faulty",))
        begun.say("step_started", "job/host/faulty", key=job.job_id)
        run_to_end(host(run / "jobs" / "host"), job, files)
        begun.finish("job/host/faulty", job.job_id, {"job_id": job.job_id})
    return run


def repeated(run: Path, name: str, sample: int | None = None, times: int = 1) -> Rerun:
    return rerun(run, name, RerunOptions(sample=sample, times=times, host=host), Event())


@pytest.fixture(scope="module")
def crashed(blank: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its first build is sound, the second dies of sample 2 and fails on 3, the third does not load."""
    folder = tmp_path_factory.mktemp("crashed")
    return run_of(blank, folder, {}, {"2": "segfault", "3": "raise"}, {"load": "abort"})


def test_a_sample_that_crashed_crashes_again_alone(crashed: Path) -> None:
    done = repeated(crashed, "faulty/c001.infer", sample=2)
    (once,) = done.repeats
    assert (once.case_id, once.outcome) == ("c001.infer", "crashed")
    assert once.bad is not None
    assert (once.bad.cause, once.bad.code) == ("signal", 11)
    assert list(once.bad_samples) == [2]
    assert any("faulty_runtime.py" in line for line in once.log_tail)
    assert once.log is not None
    assert "faulty_runtime.py" in once.log.read_text()
    job = read_job((once.folder / "job.json").read_bytes())
    assert [case.case_id for case in job.cases] == ["c001.load", "c001.infer"]
    assert job.samples[0].count == 1
    assert read_events(once.folder)


def test_what_the_network_was_given_lies_beside_it_and_no_other_sample(crashed: Path) -> None:
    done = repeated(crashed, "c001.infer", sample=2)
    (path,) = done.inputs
    assert np.load(path).tolist() == [2]
    assert path.is_relative_to(done.folder)
    stored = [file for file in done.folder.rglob("*.bin") if "outputs" not in file.parts]
    assert {file.read_bytes() for file in stored} == {np.int32(2).tobytes()}


def test_what_was_found_is_written_down(crashed: Path) -> None:
    done = repeated(crashed, "c001.infer", sample=2)
    content = json.loads((done.folder / "rerun.json").read_text())
    assert content["case"] == "host/faulty/c001.infer"
    assert content["sample"] == 2
    assert content["in_the_run"] == "crashed"
    assert content["ended_badly"] == 1
    (once,) = content["repeats"]
    assert once["bad"]["code"] == 11
    assert set(once["bad_samples"]) == {"2"}
    assert (done.folder / once["log"]).is_file()
    assert (done.folder / once["folder"] / "job.json").is_file()
    assert (done.folder / content["inputs"][0]).is_file()
    started = next(e for e in read_events(done.folder / once["folder"]) if isinstance(e, JobStarted))
    assert once["runtimes"] == dict(started.runtimes)


def test_a_sample_that_passed_passes(crashed: Path) -> None:
    done = repeated(crashed, "c001.infer", sample=1)
    assert done.bad == 0
    output = next(done.repeats[0].folder.glob("outputs/*.bin"))
    assert [float(tensors[0][0]) for _, tensors in read_outputs(output)] == [2.0]
    assert outcome_in_run(done.case, 1) == "passed"


def test_a_whole_case_names_its_bad_samples_by_the_runs_numbers(crashed: Path) -> None:
    done = repeated(crashed, "tiny/onnx/build-1.infer")
    (once,) = done.repeats
    assert {n: bad.outcome for n, bad in once.bad_samples.items()} == {2: "crashed", 3: "failed"}
    assert [int(np.load(path)[0]) for path in done.inputs] == [2, 3]
    sound = repeated(crashed, "tiny/onnx/build-0.infer")
    assert (sound.bad, sound.inputs) == (0, ())


def test_a_build_that_does_not_load_is_blamed_for_its_load(crashed: Path) -> None:
    done = repeated(crashed, "c002.infer", sample=0)
    (once,) = done.repeats
    assert (once.case_id, once.outcome) == ("c002.load", "crashed")
    assert once.bad is not None
    assert once.bad.code == 6
    assert outcome_in_run(done.case, 0) == "not_run"
    assert repeated(crashed, "c002.load").repeats[0].outcome == "crashed"


def test_the_run_itself_is_not_changed(crashed: Path) -> None:
    def content() -> dict[Path, bytes]:
        files = (path for path in crashed.rglob("*") if path.is_file() and "reruns" not in path.parts)
        return {path: path.read_bytes() for path in files}

    before = content()
    first, second = (repeated(crashed, "c000.infer", sample=0).folder for _ in range(2))
    assert content() == before
    assert int(second.name) == int(first.name) + 1


def test_of_several_times_each_is_told_and_counted(blank: Project, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    run = run_of(blank, tmp_path, {"1": "once-segfault", "state": str(state)})
    told: list[Repeat] = []

    def forget(one: Repeat) -> None:
        told.append(one)
        (state / "1.done").unlink()  # it happens again the next time

    done = rerun(run, "c000.infer", RerunOptions(1, 3, told=forget, host=host), Event())
    assert [one.outcome for one in done.repeats] == ["passed", "crashed", "crashed"]
    assert told == list(done.repeats)
    assert done.bad == 2
    assert len({one.folder for one in done.repeats}) == 3


def test_names_are_exact_and_a_wrong_one_is_answered_with_the_nearest(crashed: Path) -> None:
    cases = run_cases(crashed)
    assert len({case.name for case in cases}) == len(cases) == 6
    for case in cases:
        for given in (case.name, case.case.case_id, case.build_name, f"faulty/{case.case.case_id}"):
            assert case_called(cases, given) == case
    with pytest.raises(CommandLineError, match=r"Did you mean 'host/faulty/c001\.infer'") as refused:
        case_called(cases, "faulty/c001.infr")
    assert refused.value.exit_code == 2
    with pytest.raises(CommandLineError, match="--list"):
        case_called(cases, "nothing like it at all")


def test_a_name_of_several_cases_is_refused_with_all_of_them(crashed: Path) -> None:
    cases = run_cases(crashed)
    elsewhere = [replace(case, place="host/other") for case in cases]
    with pytest.raises(CommandLineError, match=r"host/faulty/c000\.infer, host/other/c000\.infer"):
        case_called([*cases, *elsewhere], "c000.infer")


def test_an_id_alone_never_means_a_source_models_case(crashed: Path) -> None:
    cases = run_cases(crashed)
    reference = [replace(case, place="reference/tiny/onnx") for case in cases]
    both = [*reference, *cases]
    assert case_called(both, "c001.infer").name == "host/faulty/c001.infer"
    assert case_called(both, "reference/tiny/onnx/c001.infer") == reference[3]


@pytest.mark.parametrize(("name", "sample"), [("c000.infer", 4), ("c000.load", 0)])
def test_a_sample_that_the_case_does_not_have_is_refused(crashed: Path, name: str, sample: int) -> None:
    before = sorted(crashed.rglob("*"))
    with pytest.raises(CommandLineError) as refused:
        repeated(crashed, name, sample)
    assert refused.value.where == "--sample"
    assert sorted(crashed.rglob("*")) == before


def test_a_case_that_a_kill_left_open_can_be_repeated(crashed: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(crashed, run)
    for folder in (run / "jobs" / "host").iterdir():
        shutil.rmtree(folder / "events", ignore_errors=True)
        (folder / "attempts.jsonl").unlink(missing_ok=True)
    done = repeated(run, "c001.infer", sample=2)
    assert done.case.end is None
    assert outcome_in_run(done.case, 2) is None
    assert done.repeats[0].outcome == "crashed"


def test_a_run_in_which_nothing_was_run_says_so(blank: Project, tmp_path: Path) -> None:
    with opened(tmp_path / "run", blank.plan, ()) as begun:
        begun.say("planned", steps=())
    with pytest.raises(RunFolderError, match="No case"):
        run_cases(tmp_path / "run")
    with pytest.raises(RunFolderError, match="no run here"):
        repeated(tmp_path / "nowhere", "c000.infer")
    assert not (tmp_path / "nowhere").exists()


def test_a_run_that_goes_on_is_not_disturbed(crashed: Path) -> None:
    with held(crashed), pytest.raises(BusyError):
        repeated(crashed, "c000.infer")


def test_it_can_be_stopped(blank: Project, tmp_path: Path) -> None:
    run = run_of(blank, tmp_path, {}, samples=1)
    stop = Event()
    stop.set()
    with pytest.raises(Interrupted):
        rerun(run, "c000.infer", RerunOptions(host=host), stop)


def test_an_image_is_written_as_the_picture_that_it_is(blank: Project, tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    pixels = np.random.default_rng(1).integers(0, 256, (3, 5, 7, 3), dtype=np.uint8)
    table = np.tile(np.arange(256, dtype=np.float32) / 255, (3, 1))
    index = np.arange(3, dtype=np.int32).reshape(3, 1)
    inputs = (
        files.raw_input("index", index, [2, 1]),
        replace(files.table_input("picture", pixels, table), name="a/b: c"),
    )
    build = RunnableBuild(
        "tiny/onnx/x", "faulty", files.model("m", b"any"), SampleSet("s", 3, inputs), None, {}
    )
    run = carried_out(blank, tmp_path / "run", [build], files)
    done = repeated(run, "c000.infer", sample=2)
    number, values, picture = done.inputs
    assert (values.name, picture.name) == ("1-a_b_c.npy", "1-a_b_c.png")
    assert np.load(number).tolist() == [2]
    assert np.array_equal(np.load(values), (pixels[2].transpose(2, 0, 1) / np.float32(255))[None])
    assert np.array_equal(np.array(Image.open(picture)), pixels[2])
    assert done.bad == 0
