"""One tiny project and one undisturbed run of it for all tests of a session, in whichever folder they are."""

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


_BLANK = pytest.StashKey[Project]()
_FINISHED = pytest.StashKey[Finished]()


def blank_project(config: pytest.Config, folders: pytest.TempPathFactory) -> Project:
    """The project before any run; its store is not there."""
    if _BLANK not in config.stash:
        folder = folders.mktemp("blank")
        config.stash[_BLANK] = write_project(folder / "project", folder / "store")
    return config.stash[_BLANK]


def finished_project(config: pytest.Config, folders: pytest.TempPathFactory) -> Finished:
    """The project after its first run."""
    if _FINISHED not in config.stash:
        project = blank_project(config, folders).copy(folders.mktemp("finished") / "project")
        begun = time.monotonic()
        answer = project.call("run", "--out", "run")
        assert answer.code == 0, answer.err
        seconds = time.monotonic() - begun
        config.stash[_FINISHED] = Finished(project, project.folder / "run", seconds)
    return config.stash[_FINISHED]
