"""One tiny project for all tests of this folder, and one undisturbed run of it."""

import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.runs.project import Project, write_project


@dataclass(frozen=True)
class Finished:
    """A project with a run that nothing disturbed, and how long it took. Tests read it and change copies."""

    project: Project
    run: Path
    seconds: float


@pytest.fixture(scope="session")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project before any run; its store is not there."""
    folder = tmp_path_factory.mktemp("blank")
    return write_project(folder / "project", folder / "store")


@pytest.fixture(scope="session")
def finished(blank: Project, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The project after its first run."""
    project = blank.copy(tmp_path_factory.mktemp("finished") / "project")
    begun = time.monotonic()
    answer = project.call("run", "--out", "run")
    assert answer.code == 0, answer.err
    return Finished(project, project.folder / "run", time.monotonic() - begun)
