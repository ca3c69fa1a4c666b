"""Builds run side by side as memory and processors allow; a stop in the middle leaves no process."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from phoneproof.runs.handed_over import read_manifest
from tests.runs.evidence import check_run
from tests.runs.project import Project, journal_of
from tests.runs.stood_in import BUILDS, SHARING, StoodIn, be_here, stand_in
from tests.runs.test_killed import descendants_are_gone

TOGETHER = 4
FEW = ("tiny/onnx/onnx-int8-dynamic", "tiny/keras/tflite-int8-dynamic", "tiny/pytorch/torch-qnnpack-int8")
INSTALLED = {name: text for name, text in {**BUILDS, **SHARING}.items() if "tflite-float16" not in name}
"""Without litert-torch, which shares its environment with no other toolchain: processes of their own see what
is really installed."""


def give(monkeypatch: pytest.MonkeyPatch, free_bytes: int, processors: int) -> None:
    """The machine that this process believes to be on."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=free_bytes))
    monkeypatch.setattr(psutil, "cpu_count", lambda: processors)


def most_at_once(lines: list[str]) -> int:
    under_way = most = 0
    for line in lines:
        under_way += 1 if line.startswith("begin ") else -1
        most = max(most, under_way)
    return most


@pytest.fixture
def plain(blank: Project, tmp_path: Path) -> StoodIn:
    return stand_in(blank.copy(tmp_path / "project", tmp_path / "store"), INSTALLED)


@pytest.fixture
def few(blank: Project, tmp_path: Path) -> StoodIn:
    chosen = {name: INSTALLED[name] for name in FEW}
    return stand_in(blank.copy(tmp_path / "project", tmp_path / "store"), chosen)


@pytest.mark.parametrize(
    ("free_bytes", "processors"),
    [(1, 16), pytest.param(10**13, 1, marks=pytest.mark.slow)],
    ids=["memory", "processors"],
)
def test_builds_run_one_by_one_where_there_is_room_for_one(
    few: StoodIn, monkeypatch: pytest.MonkeyPatch, free_bytes: int, processors: int
) -> None:
    be_here(monkeypatch, few)
    give(monkeypatch, free_bytes, processors)
    assert all(build.error is None for build in few.build().builds)
    lines = few.worked()
    assert len([line for line in lines if line.startswith("begin phoneproof.toolchains")]) > len(FEW)
    assert most_at_once(lines) == 1


def test_builds_run_side_by_side_where_there_is_room(few: StoodIn, monkeypatch: pytest.MonkeyPatch) -> None:
    be_here(monkeypatch, few)
    give(monkeypatch, 10**13, TOGETHER)
    few.say(meet=TOGETHER)  # none goes on before so many have begun
    finished = few.build()
    assert all(build.error is None for build in finished.builds)
    assert most_at_once(few.worked()) == TOGETHER
    lines = journal_of(finished.folder)
    begun = [
        line.step for line in lines if line.entry == "step_started" and str(line.step).startswith("build/")
    ]
    assert sorted(map(str, begun)) == sorted(
        f"build/{b.wanted.build_id.replace('/entropy', '@entropy')}" for b in finished.builds
    )


HANGING = {
    "in-builds": {
        "phoneproof.toolchains.executorch executorch-int8-dynamic": "hang",
        "phoneproof.toolchains.coreml coreml-int8-weights": "hang-with-gil",
    },
    "in-an-export-and-ranges": {
        "phoneproof.sources.export_onnx": "hang",
        "phoneproof.quantize.calibrate_torch": "hang",
    },
}


def until_they_hang(stood_in: StoodIn, faults: Mapping[str, str], process: "subprocess.Popen[bytes]") -> None:
    """Until every piece of work that hangs was begun."""
    while not all(f"begin {what}\n" in stood_in.events.read_text(encoding="utf-8") for what in faults):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("place", "how"),
    [
        ("in-builds", "ctrl-c"),
        ("in-an-export-and-ranges", "killed"),
        pytest.param("in-builds", "killed", marks=pytest.mark.slow),
        pytest.param("in-an-export-and-ranges", "ctrl-c", marks=pytest.mark.slow),
    ],
)
def test_what_is_stopped_in_the_middle_leaves_nothing_running_and_goes_on(
    plain: StoodIn, place: str, how: str
) -> None:
    faults = HANGING[place]
    plain.say(faults)
    run = plain.project.folder / "run"
    process = plain.project.start("build", "--out", "run", start_new_session=True)
    try:
        until_they_hang(plain, faults, process)
        if how == "killed":
            process.kill()
            process.communicate()
        else:
            os.killpg(process.pid, signal.SIGINT)
            _, err = process.communicate(timeout=60)
            assert process.returncode == 130, err
            assert "The same command goes on" in err.decode()
    finally:
        process.kill()  # where the test has failed before
    assert descendants_are_gone(plain.project.store)
    done = {line.step for line in journal_of(run) if line.entry == "step_finished"}
    assert not [line for line in journal_of(run) if line.entry == "step_failed"]
    plain.say()
    finish(plain, run, done)


def finish(stood_in: StoodIn, run: Path, done: set[str | None]) -> None:
    """The same command comes to the end and begins nothing that was finished."""
    before = len(journal_of(run)) if run.exists() else 0
    answer = stood_in.project.call("build", "--out", "run")
    assert answer.code == 0, answer.err
    again = {line.step for line in journal_of(run)[before:] if line.entry == "step_started"}
    assert not again & done
    check_run(run)


def made_in(run: Path) -> dict[str, str]:
    """sha256 of every build's model, by its folder."""
    folders = sorted((run / "builds").glob("*/*/*"))
    return {folder.relative_to(run).as_posix(): read_manifest(folder).sha256 for folder in folders}


@pytest.mark.slow
def test_kills_at_random_moments_of_a_plan_of_all_toolchains(
    blank: Project, plain: StoodIn, tmp_path: Path
) -> None:
    begun = time.monotonic()
    assert plain.project.call("build", "--out", "run").code == 0
    seconds = time.monotonic() - begun
    wanted = made_in(plain.project.folder / "run")
    assert len(wanted) > len(INSTALLED)
    draw = random.Random(7)
    for number in range(4):
        other = stand_in(blank.copy(tmp_path / f"{number}", tmp_path / f"{number}-store"), INSTALLED)
        run = other.project.folder / "run"
        for _ in range(3):
            process = other.project.start("build", "--out", "run")
            time.sleep(draw.uniform(0, seconds))
            process.kill()
            process.communicate()
            assert descendants_are_gone(other.project.store)
        done = (
            {line.step for line in journal_of(run) if line.entry == "step_finished"}
            if run.exists()
            else set()
        )
        finish(other, run, done)
        assert made_in(run) == wanted
