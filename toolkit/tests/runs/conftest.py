"""The tiny project that the tests of this folder share."""

import pytest

from tests.runs.project import Project
from tests.runs.shared import Finished, blank_project, finished_project


@pytest.fixture(scope="session")
def blank(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project before any run. Tests change copies of it."""
    return blank_project(pytestconfig, tmp_path_factory)


@pytest.fixture(scope="session")
def finished(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The project after its first run. Tests change copies of it."""
    return finished_project(pytestconfig, tmp_path_factory)
