"""Full, read-only and several disks: one message with place and next step, and the run goes on after it."""

from dataclasses import replace
from pathlib import Path

from tests.runs.disks import fill, read_only, small_disk
from tests.runs.evidence import check_folder, check_journal, comparable
from tests.runs.project import Answer, Project
from tests.runs.shared import Finished
from tests.runs.test_killed import until_it_does

ROOM_MIB = 216
"""A little more than the preflight wants to be free."""


def refused_by(answer: Answer, place: Path, next_step: str) -> None:
    assert answer.code == 3, answer
    assert answer.out == ""
    assert answer.err.count("error: ") == 1, answer.err
    assert "Traceback" not in answer.err
    assert "phoneproof has a fault" not in answer.err
    assert str(place) in answer.err
    assert next_step in answer.err


def test_a_disk_that_is_too_small_is_refused_before_anything_is_started(
    blank: Project, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", 8) as disk:
        answer = blank.call("run", "--out", disk / "run")
        refused_by(answer, disk, "choose another folder with --out")
        assert list(disk.iterdir()) == []
    assert not blank.store.exists()


def test_a_disk_that_fills_under_the_run_stops_it_and_with_room_it_goes_on(
    finished: Finished, blank: Project, tmp_path: Path
) -> None:
    project = blank.copy(tmp_path / "project", tmp_path / "store")
    with small_disk(tmp_path / "disk", ROOM_MIB) as disk:
        run = disk / "run"
        process = project.start("run", "--out", run)
        until_it_does(project, run, "ranges", process)
        filler = fill(disk)
        out, err = process.communicate(timeout=120)
        refused_by(Answer(process.returncode, out.decode(), err.decode()), disk, "run the same command again")
        filler.unlink()
        answer = project.call("run", "--out", run)
        assert answer.code == 0, answer.err
        assert comparable(run) == comparable(finished.run)
        check_journal(run, 1)
        check_folder(run, project.store)


def test_a_full_disk_under_the_store_stops_the_run_and_with_room_it_goes_on(
    blank: Project, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", 4) as disk:
        project = blank.copy(tmp_path / "project", disk / "store")
        filler = fill(disk, left=16_384)
        answer = project.call("build", "--out", "run")
        refused_by(answer, disk, "Free some space")
        filler.unlink()
        answer = project.call("build", "--out", "run")
        assert answer.code == 0, answer.err
        check_folder(project.folder / "run", project.store)


def test_read_only_folders_are_refused(blank: Project, tmp_path: Path) -> None:
    with read_only(tmp_path / "locked") as locked:
        answer = blank.call("run", "--out", locked / "run")
        refused_by(answer, locked, "Choose another with --out")
        project = blank.copy(tmp_path / "project", locked)
        answer = project.call("run", "--out", "run")
        refused_by(answer, locked, "PHONEPROOF_STORE")
        assert not (project.folder / "run").exists()
        answer = project.call("init", "--model", "tiny.onnx", "-p", locked / "new.toml")
        refused_by(answer, locked, "")


def test_a_relative_store_serves_a_run(blank: Project, tmp_path: Path) -> None:
    project = replace(blank.copy(tmp_path / "project"), store=Path("stored"))
    project.make_lean()
    answer = project.call("run", "--out", "run")
    assert answer.code == 0, answer.err
    check_folder(project.folder / "run", project.folder / "stored")
