"""Whatever a toolchain's worker does, its own builds fail, with cause and log, and the others go on."""

from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from phoneproof.errors import PhoneproofError, ToolchainError, WorkerError
from phoneproof.runs.run import ExitCode, FinishedRun
from tests.runs.project import Project, journal_of
from tests.runs.stood_in import BUILDS, MAKERS, StoodIn, be_here, stand_in

ENDS = {
    "segfault": "crashed with signal 11",
    "abort": "crashed with signal 6",
    "kill-itself": "signal 9",
    "exit": "exited with code 3 and no answer",
    "raise": "the graph has no kernel",
}
"""How a worker can end by itself, and what is said of it."""

MEMORY_GB = 0.3
TIMEOUT_S = 8

SPOILT = {
    "no-folder": "build.json is missing",
    "no-manifest": "build.json is missing",
    "half-a-manifest": "build.json cannot be read",
    "another-build": "build.json tells of another build",
    "manifest-of-elsewhere": "'../request.json' is missing",
    "no-model": "",  # of a package one file of two: another digest
    "truncated-after-all": "is not the one that build.json tells of",
    "no-findings": "has no findings",
}
"""What a worker can hand over and say that all is well, and what is said of it."""

NO_MODELS = {"empty": "", "noise": "no whole model"}
"""As SPOILT, and build.json is true of the file; only the file is no model."""


@pytest.fixture(scope="module")
def others(blank: Project, tmp_path_factory: pytest.TempPathFactory) -> StoodIn:
    """The project with a store in which every baseline is, so that a test makes what it asks for only."""
    folder = tmp_path_factory.mktemp("others")
    project = blank.copy(folder / "project", folder / "project-store")
    stood_in = stand_in(project, BUILDS)
    faults = dict.fromkeys(MAKERS.values(), "raise")
    stood_in.say(faults)
    with pytest.MonkeyPatch.context() as patch:
        be_here(patch, stood_in)
        errors_of(stood_in.build("run-of-others"))
    return stood_in


def errors_of(finished: FinishedRun) -> dict[str, PhoneproofError]:
    return {b.wanted.build_id: b.error for b in finished.builds if b.error is not None}


def tail_of(error: PhoneproofError) -> str:
    tail = error.facts["log_tail"]
    assert isinstance(tail, tuple)
    return "\n".join(tail)


def mended(stood_in: StoodIn, missing: set[str], first: FinishedRun) -> None:
    """Without the fault the same command makes what is missing, and nothing else."""
    before = journal_of(first.folder)
    stood_in.say()
    stood_in.worked()
    second = stood_in.build()
    assert errors_of(second) == {}
    assert second.exit_code == ExitCode.PASS
    begun = [line for line in stood_in.worked() if line.startswith("begin ")]
    again = [line.step for line in journal_of(first.folder)[len(before) :] if line.entry == "step_started"]
    assert len(begun) == len(again) == len(set(again)), (begun, again)
    assert {step.partition("/")[2].replace("@", "/") for step in again if step} >= missing


def said_of(fault: str) -> str:
    return {**ENDS, **SPOILT, **NO_MODELS}[fault]


def check_errors(errors: Mapping[str, PhoneproofError], faults: Mapping[str, str]) -> None:
    """Each build has the error of its worker's fault, with the log."""
    assert set(errors) == set(faults)
    for build_id, error in errors.items():
        fault = faults[build_id]
        assert isinstance(error, WorkerError if fault in ENDS else ToolchainError)
        assert said_of(fault) in error.what, (build_id, fault)
        verb = "converting" if fault in ENDS else "wrote"
        assert f"vendor: {verb} {MAKERS[build_id].split()[0]}" in tail_of(error)
        assert Path(str(error.facts["log"])).is_file()
        if fault not in ENDS:
            assert error.next_step is not None


@pytest.mark.parametrize("first", [0, len(BUILDS) - 1])
def test_each_toolchain_fails_in_another_way(
    others: StoodIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    stood_in = others.copy(tmp_path / "project")
    be_here(monkeypatch, stood_in)
    drawn = [*ENDS, *SPOILT, *NO_MODELS][first:]
    faults = dict(zip(BUILDS, drawn, strict=False))
    stood_in.say({MAKERS[build_id]: fault for build_id, fault in faults.items()})
    finished = stood_in.build()
    assert finished.exit_code == ExitCode.INCOMPLETE
    check_errors(errors_of(finished), faults)
    failed = {line.step for line in journal_of(finished.folder) if line.entry == "step_failed"}
    assert failed == {f"build/{build_id}" for build_id in faults}
    mended(stood_in, set(faults), finished)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [*ENDS, *SPOILT, *NO_MODELS])
def test_each_toolchain_fails_in_each_way(
    others: StoodIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    stood_in = others.copy(tmp_path / "project")
    be_here(monkeypatch, stood_in)
    stood_in.say(dict.fromkeys(MAKERS.values(), fault))
    failing = set(BUILDS)
    if fault in NO_MODELS:  # TorchScript has no header that says what it is
        failing -= {"tiny/pytorch/torch-qnnpack-int8"} if fault == "noise" else set()
    check_errors(errors_of(stood_in.build()), dict.fromkeys(failing, fault))


@pytest.mark.slow
def test_each_toolchain_needs_more_memory_than_it_may_have(
    others: StoodIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stood_in = others.copy(tmp_path / "project")
    be_here(monkeypatch, stood_in)
    stood_in.project.change("[[devices]]", f"[limits]\nmemory_gb = {MEMORY_GB}\n\n[[devices]]")
    stood_in.say(dict.fromkeys(MAKERS.values(), "eat-memory"))
    errors = errors_of(stood_in.build())
    assert set(errors) == set(BUILDS)
    for error in errors.values():
        assert isinstance(error, WorkerError)
        assert "needed more memory than it may have" in error.what
        assert "limits.memory_gb" in str(error.next_step)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["hang", "hang-with-gil"])
def test_each_toolchain_hangs(
    others: StoodIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    stood_in = others.copy(tmp_path / "project")
    be_here(monkeypatch, stood_in)
    monkeypatch.setattr(psutil, "cpu_count", lambda: len(BUILDS))  # they hang at the same time
    stood_in.project.change("[[devices]]", f"[limits]\nbuild_timeout_s = {TIMEOUT_S}\n\n[[devices]]")
    stood_in.say(dict.fromkeys(MAKERS.values(), fault))
    finished = stood_in.build()
    errors = errors_of(finished)
    assert set(errors) == set(BUILDS)
    for error in errors.values():
        assert isinstance(error, WorkerError)
        assert "did not finish" in error.what
        assert "build_timeout_s" in str(error.next_step)
    mended(stood_in, set(BUILDS), finished)
