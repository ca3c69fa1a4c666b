"""Installing toolchains from the command line."""

from pathlib import Path

import pytest

from phoneproof.recipes.toolchain_table import TOOLCHAINS
from tests.cli.conftest import Call
from tests.runs.project import Project


def test_the_toolchain_of_pytorch_to_tflite_can_be_asked_for(
    project: Project, call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without an index the installation begins, with the tested versions, and fails for want of packages."""
    (tmp_path / "wheels").mkdir()
    settings = tmp_path / "uv.toml"
    settings.write_text(f"no-index = true\nfind-links = [{str(tmp_path / 'wheels')!r}]\n", encoding="utf-8")
    monkeypatch.setenv("UV_CONFIG_FILE", str(settings))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    answer = call("toolchain", "install", "litert-torch")
    assert answer.code == 3, answer
    assert TOOLCHAINS["litert-torch"].pin_file in answer.err
    assert "The toolchain litert-torch could not be installed." in answer.err
    assert answer.out == ""
