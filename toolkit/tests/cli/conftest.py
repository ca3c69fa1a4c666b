"""The tiny project of the runs' tests, and the command line called in this process."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from phoneproof.cli.main import main
from tests.runs.conftest import blank, finished
from tests.runs.project import Answer, Project

__all__ = ["blank", "call", "finished", "project"]

Call = Callable[..., Answer]


@pytest.fixture
def project(blank: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A copy of the project to change; the current folder and the store are its own."""
    copy = blank.copy(tmp_path / "project", tmp_path / "store")
    monkeypatch.chdir(copy.folder)
    monkeypatch.setenv("PHONEPROOF_STORE", str(copy.store))
    return copy


@pytest.fixture
def call() -> Call:
    """The command line in this process: its workers are processes all the same."""

    def called(*arguments: str | Path) -> Answer:
        result = CliRunner().invoke(main, list(map(str, arguments)), prog_name="phoneproof")
        return Answer(result.exit_code, result.stdout, result.stderr)

    return called
