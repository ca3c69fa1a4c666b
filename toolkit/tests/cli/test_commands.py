"""What the commands print and answer with, on a finished run."""

import json
import os
import pty
import re
import select
import shutil
import subprocess
from pathlib import Path

import pytest

from phoneproof.errors import ToolchainError
from phoneproof.protocol.journal import JournalLine, journal_text
from phoneproof.recipes.runtime_table import RUNTIMES, runtime_on_host
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.runs import health
from phoneproof.runs.folder import opened
from tests.cli.conftest import Call
from tests.runs.project import Project, journal_of, listing, report_of, write_images
from tests.runs.shared import Finished

BUILDS = ("onnx-float32", "onnx-int8", "onnx-int8/entropy", "onnx-int8-dynamic")


@pytest.fixture
def done(finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A copy of the finished project and its store, its run in `run`."""
    project = finished.project.copy(tmp_path / "project")
    shutil.copytree(finished.run, project.folder / "run")
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv("PHONEPROOF_STORE", str(project.store))
    return project


def test_a_run_answers_as_json(done: Project, call: Call) -> None:
    answer = call("run", "--out", "run", "--json")
    assert answer.code == 0, answer
    assert answer.err == ""
    content = answer.json
    about_the_builds = ["builds", "verdicts", "recommendation", "recommendations", "findings"]
    assert list(content) == ["run", "exit_code", *about_the_builds, "files"]
    assert content["findings"] == report_of(done.folder / "run")["findings"]
    assert "DATA-CALIBRATION-FEW" in {finding["id"] for finding in content["findings"]}
    both = dict.fromkeys(("tiny on android", "tiny on ios"), content["recommendation"])
    assert content["recommendations"] == both
    assert content["exit_code"] == 0
    assert [build["build_id"] for build in content["builds"]] == [f"tiny/onnx/{name}" for name in BUILDS]
    assert {build["status"] for build in content["builds"]} == {"built"}
    assert set(content["verdicts"].values()) == {"pass"}
    assert [Path(path).name for path in content["files"]] == [
        "report.json", "index.html", "report.csv", "junit.xml", "summary.md"
    ]  # fmt: skip
    assert call("run", "--out", "run", "--json").json == content


def test_errors_answer_as_json(done: Project, call: Call) -> None:
    done.change("rounds = 10", "rounds = 9")
    answer = call("run", "--out", "other", "--json")
    assert answer.code == 2
    assert answer.json["exit_code"] == 2
    assert answer.json["error"]["class"] == "PlanError"
    assert "rounds" in answer.json["error"]["where"]


def test_without_a_terminal_only_findings_are_said_and_with_v_every_step(done: Project, call: Call) -> None:
    quiet = call("run", "--out", "run")
    assert quiet.code == 0
    assert "DATA-CALIBRATION-FEW" in quiet.err
    assert "inspect/" not in quiet.err
    loud = call("run", "--out", "run", "-v")
    for word in ("audit", "inspect/tiny/onnx", "build/tiny/onnx/onnx-int8", "job/host/onnxruntime", "report"):
        assert word in loud.err
    assert "phoneproof compare" in quiet.out


def test_a_dry_run_lists_steps_and_writes_nothing(done: Project, call: Call) -> None:
    before = listing(done.folder, done.store)
    answer = call("run", "--out", "fresh", "--dry-run")
    assert answer.code == 0, answer
    states = {line.split()[1]: line.split()[0] for line in answer.out.splitlines()}
    assert states["job/host/onnxruntime"] == "MISS"
    assert set(states.values()) <= {"HIT", "likely", "MISS"}
    plain = call("run", "--out", "fresh", "--dry-run", "--json").json
    assert {step["step"]: step["state"] for step in plain["steps"]} == states
    assert listing(done.folder, done.store) == before


def test_a_report_is_written_again_equal(done: Project, call: Call) -> None:
    folder = done.folder / "run" / "report"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / "index.html").unlink()
    answer = call("report", "run")
    assert answer.code == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert call("report", "run", "--out", "elsewhere", "--json").json["exit_code"] == 0
    assert (done.folder / "elsewhere" / "index.html").read_bytes() == before["index.html"]


def test_runs_are_compared(done: Project, call: Call) -> None:
    same = call("compare", "run", "run")
    assert same.code == 0, same
    assert "4 results compared, 0 regressions" in same.out
    shutil.copytree("run", "worse")
    report = report_of(Path("worse"))
    for result in report["results"]:
        if result["configuration"]["build_id"].endswith("onnx-int8-dynamic"):
            result["verdict"] = "fail"
            facts = {"output": "head_out", "sqnr_db": 3.0, "limit_db": 10.0}
            result["reason"] = {"id": "parity_below", "facts": facts}
    Path("worse/report/report.json").write_text(json.dumps(report))
    worse = call("compare", "run", "worse")
    assert worse.code == 1, worse
    assert "onnx-int8-dynamic" in worse.out
    as_json = call("compare", "run", "worse", "--json")
    assert as_json.code == 1
    assert len(as_json.json["regressions"]) >= 1
    assert call("compare", "worse", "run").code == 0


def test_the_store_is_listed_and_pruned_and_the_run_keeps_its_builds(done: Project, call: Call) -> None:
    entries = call("store", "list", "--json").json["entries"]
    assert {entry["kind"] for entry in entries} >= {"builds", "ranges", "references", "samples", "facts"}
    assert str(len(entries)) in call("store", "list").out.splitlines()[-1]
    models = sorted(done.folder.glob("run/builds/**/model.onnx"))
    before = [path.read_bytes() for path in models]
    assert len(call("store", "prune", "--keep-gb", "0", "--unused-days", "1", "--json").json["removed"]) == 0
    removed = call("store", "prune", "--keep-gb", "0", "--json").json["removed"]
    assert len(removed) == len(entries)
    assert [path.read_bytes() for path in models] == before
    # What the run has of its own is enough, or is made again.
    answer = call("run", "--out", "run")
    assert answer.code == 0, answer.err


def test_a_run_that_another_process_works_on_is_left_to_it(done: Project, call: Call) -> None:
    with opened(done.folder / "run", done.plan, ()):
        before = listing(done.folder)
        answer = call("run", "--out", "run")
        assert answer.code == 3
        assert "Another phoneproof works on this run." in answer.err
        assert listing(done.folder) == before


def test_a_run_is_cloned(done: Project, call: Call) -> None:
    done.change("rounds = 10", "rounds = 12")
    answer = call("build", "--out", "clone", "-p", "phoneproof.toml")
    assert answer.code == 0
    shutil.rmtree("clone")
    answer = call("run", "--clone", "run", "--dry-run", "--json")
    assert answer.json["run"].endswith("runs/001")
    answer = call("run", "--clone", "run", "--out", "clone", "--json")
    assert answer.code == 0, answer.err
    clone, first = (json.loads(Path(name, "run.json").read_text()) for name in ("clone", "run"))
    assert clone["plan_sha256"] == first["plan_sha256"]
    assert clone["run_id"] != first["run_id"]


def test_runs_are_numbered_and_the_unfinished_one_is_gone_on_with(done: Project, call: Call) -> None:
    def folder_of(*arguments: str) -> str:
        return Path(call(*arguments, "--json").json["run"]).name

    assert folder_of("build") == "001"
    assert folder_of("build") == "001"
    assert folder_of("run", "--dry-run") == "001"
    done.change("rounds = 10", "rounds = 11")
    assert folder_of("build") == "002"
    assert {line.entry for line in journal_of(done.folder / "runs" / "001")} >= {"planned", "resumed"}
    second = done.folder / "runs" / "002"
    end = JournalLine(len(journal_of(second)), 0, "run_finished")
    with (second / "journal.jsonl").open("a", encoding="utf-8") as journal:
        journal.write(journal_text(end))
    assert folder_of("run", "--dry-run") == "003"


def test_init_writes_a_plan_that_runs(project: Project, call: Call) -> None:
    write_images(project.folder / "all", per_class=25, seed=5)
    answer = call("init", "--model", "tiny.onnx", "--data", "all", "-p", "new.toml")
    assert answer.code == 0, answer
    assert "phoneproof run -p new.toml" in answer.out
    assert "CHECK THIS" in Path("new.toml").read_text()
    assert not project.store.exists()
    answer = call("build", "-p", "new.toml", "--out", "run")
    assert answer.code == 0, answer.err
    assert call("init", "--model", "tiny.onnx", "-p", "new.toml", "--force").code == 0
    answer = call("run", "-p", "new.toml", "--out", "other")
    assert answer.code == 2
    assert "[data.calibration]" in answer.err
    assert "[data.evaluation]" in answer.err


def test_doctor_devices_and_toolchains(project: Project, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = call("doctor", "--deep")
    assert answer.code == 0, answer
    assert "onnxruntime" in answer.out
    assert str(project.store) in answer.out.replace("\n", "")
    for name in TOOLCHAINS:  # whole: what names are broken into cannot be searched
        assert f"toolchain {name} " in answer.out
    devices = call("devices", "--json").json["devices"]
    assert [device["device_id"] for device in devices] == ["host"]
    assert set(devices[0]["runtimes"]) == {runtime_on_host(name).name for name in RUNTIMES}
    assert all(devices[0]["runtimes"].values())
    assert "runtime onnxruntime:" in call("devices").out
    lines = call("toolchain", "list").out.splitlines()
    assert "onnxruntime  this interpreter" in lines
    assert "litert-torch  Run `phoneproof toolchain install litert-torch`." in lines
    rows = {row["name"]: row for row in call("toolchain", "list", "--json").json["toolchains"]}
    assert set(rows) == set(TOOLCHAINS)
    assert rows["onnxruntime"]["versions"].keys() == {"onnx", "onnxruntime"}

    def absent(*_: object) -> None:
        raise ToolchainError("The package onnx is not installed.", next_step="Install it.")

    monkeypatch.setattr(health, "environment_of", absent)
    answer = call("doctor", "--json")
    assert answer.code == 3  # the packages are here, and yet they cannot be used
    assert not any(part["usable"] for part in answer.json["parts"])
    assert "phoneproof toolchain install onnxruntime" in answer.json["parts"][0]["mend"]


def test_a_terminal_shows_the_live_screen(done: Project) -> None:
    master, terminal = pty.openpty()
    environment = {**done.child_environment(), "TERM": "xterm-256color", "COLUMNS": "100"}
    process = subprocess.Popen(
        done.command("build", "--out", "fresh"),
        cwd=done.folder,
        env=environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    shown = b""
    while select.select([master], [], [], 60)[0]:
        try:
            read = os.read(master, 65_536)
        except OSError:  # Linux says so when the other side has closed
            break
        if not read:
            break
        shown += read
    os.close(master)
    assert process.wait(60) == 0, shown
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert "inspect/tiny/onnx" in text
    assert "HIT: out of the store" in text
    assert b"\x1b[" in shown  # colours, and the cursor moved over the line of progress
    assert "0:00:0" in text  # time elapsed
    assert shown.count(b"\x1b[?25l") == shown.count(b"\x1b[?25h")  # the cursor is back
