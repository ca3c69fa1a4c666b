"""A plan that names no evaluation set is enough to build, and not to judge."""

from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.runs.project import Project, journal_of

LINE = 'evaluation = { kind = "image_folder", path = "evaluation" }\n'


@pytest.fixture
def no_evaluation(project: Project) -> Project:
    project.change(LINE, "")
    return project


def test_builds_are_made_without_an_evaluation_set(no_evaluation: Project, call: Call) -> None:
    foreseen = call("build", "--out", "run", "--dry-run")
    assert foreseen.code == 0, foreseen
    assert "samples/evaluation" not in foreseen.out
    assert "samples/calibration/tiny/onnx" in foreseen.out
    answer = call("build", "--out", "run", "--json")
    assert answer.code == 0, answer
    assert {build["status"] for build in answer.json["builds"]} == {"built"}
    steps = {line.step for line in journal_of(Path("run")) if line.step is not None}
    assert "samples/calibration/tiny/onnx" in steps
    assert not any(step.startswith("samples/evaluation") for step in steps)


def test_nothing_is_judged_without_an_evaluation_set(no_evaluation: Project, call: Call) -> None:
    answer = call("run", "--out", "run")
    assert answer.code == 2
    assert "Add [data.evaluation]" in answer.err
    assert not Path("run").exists()


def test_sets_that_share_samples_are_told_when_only_building(project: Project, call: Call) -> None:
    shared = project.folder / "evaluation" / "light" / "03.png"
    (project.folder / "calibration" / "light" / "again.png").write_bytes(shared.read_bytes())
    answer = call("build", "--out", "run")
    assert answer.code == 0, answer
    assert "DATA-OVERLAP" in answer.err
