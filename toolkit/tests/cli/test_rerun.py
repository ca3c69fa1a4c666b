"""`phoneproof rerun` on real runs of the tiny project."""

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from tests.cli.conftest import Call
from tests.models.faulty_networks import fails_on_light_images
from tests.runs.project import Project
from tests.runs.shared import Finished


@pytest.fixture
def run(finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the finished run."""
    shutil.copytree(finished.run, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PHONEPROOF_STORE", str(finished.project.store))
    return Path("run")


def test_cases_are_listed_by_names_that_can_be_repeated(run: Path, call: Call) -> None:
    answer = call("rerun", run, "--list")
    assert answer.code == 0, answer
    names = [line.split()[0] for line in answer.out.splitlines()]
    listed = call("rerun", run, "--list", "--json").json["cases"]
    assert [case["case"] for case in listed] == names
    assert {"reference/tiny/onnx/c000.infer", "host/onnxruntime/c001.infer"} <= set(names)
    assert {case["outcome"] for case in listed} == {"passed"}
    assert "tiny/onnx/onnx-int8.infer, cpu, 1 thread" in answer.out


def test_a_sample_is_repeated_and_shown(run: Path, call: Call) -> None:
    answer = call("rerun", run, "--case", "tiny/onnx/onnx-int8-dynamic.infer", "--sample", "13", "--json")
    assert answer.code == 0, answer
    assert (answer.json["ended_badly"], answer.json["outcomes"]) == (0, {"passed": 1})
    values, picture = map(Path, answer.json["inputs"])
    pixels = np.array(Image.open(picture))
    assert pixels.shape == (12, 12, 3)
    assert np.allclose(np.load(values)[0], pixels.transpose(2, 0, 1) / 255, atol=1e-6)


def test_a_benchmark_is_repeated_with_its_baseline(run: Path, call: Call) -> None:
    answer = call("rerun", run, "--case", "tiny/onnx/onnx-int8.benchmark")
    assert answer.code == 0, answer
    assert "now:        passed" in answer.out
    assert "may not leave" not in answer.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--list"),
        (("--case", "onnxruntime/c001.infr"), "host/onnxruntime/c001.infer"),
        (("--case", "c000.load", "--sample", "0"), "no samples"),
        (("--case", "c000.infer", "--sample", "20"), "0 to 19"),
        (("--case", "c000.infer", "--times", "0"), "--times"),
    ],
)
def test_a_wrong_command_is_refused_before_anything_runs(
    run: Path, call: Call, arguments: tuple[str, ...], words: str
) -> None:
    answer = call("rerun", run, *arguments)
    assert answer.code == 2
    assert words in answer.err
    assert not (run / "reruns").exists()


def test_what_failed_in_the_run_is_said_to_fail_again(project: Project, call: Call) -> None:
    project.make_lean()
    project.change("may_leave = true", "may_leave = false")
    onnx.save(fails_on_light_images(), str(project.folder / "tiny.onnx"))
    call("run", "--out", "run")
    listed = call("rerun", "run", "--list", "--json").json["cases"]
    failed = next(case for case in listed if case["bad_samples"])
    sample = next(iter(failed["bad_samples"]))
    answer = call("rerun", "run", "--case", failed["case"], "--sample", sample, "--times", "2")
    assert answer.code == 1, answer
    assert "in the run: failed" in answer.out
    assert "2 of 2 times ended badly: 2 failed" in answer.out
    assert "error: " in answer.out
    assert ".png" in answer.out
    assert "may not leave" in answer.out
    assert answer.err.splitlines() == ["failed", "failed"]
