"""Packages of toolchains that are absent, older than what works, or newer than what is tested."""

from collections import Counter
from pathlib import Path

import pytest

from phoneproof.errors import PhoneproofError, SeveralErrors, ToolchainError
from phoneproof.recipes import toolchain_table
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.runs.run import ExitCode
from tests.runs.project import Project
from tests.runs.stood_in import BUILDS, SHARING, TESTED, Packages, be_here, stand_in

NEWER = "99.1"


def refused(
    blank: Project, folder: Path, monkeypatch: pytest.MonkeyPatch, packages: Packages
) -> list[PhoneproofError]:
    """What a run that needs every toolchain is refused with, before anything is started or written."""
    stood_in = stand_in(blank.copy(folder / "project", folder / "store"), {**BUILDS, **SHARING})
    be_here(monkeypatch, stood_in)
    monkeypatch.setattr(toolchain_table, "metadata", packages)
    with pytest.raises((ToolchainError, SeveralErrors)) as raised:
        stood_in.build()
    assert raised.value.exit_code == ExitCode.INCOMPLETE
    assert not (stood_in.project.folder / "run").exists()
    assert not stood_in.project.store.exists()
    assert stood_in.worked() == []
    return list(raised.value.errors) if isinstance(raised.value, SeveralErrors) else [raised.value]


@pytest.mark.parametrize("package", TESTED)
@pytest.mark.parametrize("found", [None, "0.0.1"], ids=["absent", "older"])
def test_every_toolchain_without_its_package_names_the_command_that_installs_it(
    blank: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, found: str | None
) -> None:
    errors = refused(blank, tmp_path, monkeypatch, Packages({package: found}))
    without = {name for name, row in TOOLCHAINS.items() if package in row.least_versions}
    assert {error.where for error in errors} == {f"toolchain {name}" for name in without}
    for error in errors:
        name = str(error.where).removeprefix("toolchain ")
        assert error.next_step == f"Run `phoneproof toolchain install {name}`."
        assert package in error.what
        assert ("is not installed" if found is None else "older than") in error.what
        assert error.facts["package"] == package


def test_each_newer_package_is_one_warning_of_each_toolchain_that_uses_it(
    blank: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them, however many builds the toolchain makes."""
    every = {**BUILDS, **SHARING}
    names = ("tiny/onnx/onnx-int8-dynamic", "tiny/keras/tflite-int8-dynamic", "tiny/keras/tflite-int8")
    chosen = {name: every[name] for name in names}
    stood_in = stand_in(blank.copy(tmp_path / "project", tmp_path / "store"), chosen)
    be_here(monkeypatch, stood_in)
    monkeypatch.setattr(toolchain_table, "metadata", Packages(dict.fromkeys(TESTED, NEWER)))
    finished = stood_in.build()
    assert finished.exit_code == ExitCode.PASS
    untested = [f for f in finished.findings if f.id == "TOOL-UNTESTED-VERSION"]
    expected = {
        (name, package) for name in ("onnxruntime", "tflite") for package in TOOLCHAINS[name].least_versions
    }
    assert Counter((f.subject, f.facts["package"]) for f in untested) == dict.fromkeys(expected, 1)
    assert all(
        (f.facts["version"], f.facts["tested"]) == (NEWER, TESTED[str(f.facts["package"])]) for f in untested
    )
