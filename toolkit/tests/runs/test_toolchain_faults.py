"""A vendor's converter that crashes or hangs costs its own build; the report shows why."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from phoneproof.errors import WorkerError
from phoneproof.protocol.work import run_worker
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.runs import building
from phoneproof.runs.run import ExitCode, RunOptions, run
from tests.runs.project import Project, journal_of, report_of

BUILD_TIMEOUT_S = 10


def test_a_crash_and_a_hang_cost_their_own_builds(
    blank: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = blank.copy(tmp_path / "project", tmp_path / "store")
    project.change("[benchmark]", f"[limits]\nbuild_timeout_s = {BUILD_TIMEOUT_S}\n\n[benchmark]")
    faulty = replace(TOOLCHAINS["onnxruntime"], module="tests.runs.faulty_toolchain")
    monkeypatch.setattr(building, "TOOLCHAINS", {"onnxruntime": faulty})
    out = project.folder / "run"
    finished = run(project.plan, out, options=RunOptions(store=project.store))
    assert finished.exit_code == ExitCode.INCOMPLETE
    errors = {build.wanted.build_id: build.error for build in finished.builds}
    crash = errors.pop("tiny/onnx/onnx-int8-dynamic")
    hang = errors.pop("tiny/onnx/onnx-int8/entropy")
    assert isinstance(crash, WorkerError)
    assert "signal 11" in crash.what
    assert "terminate called after" in str(crash.facts["log_tail"])
    assert isinstance(hang, WorkerError)
    assert "did not finish" in hang.what
    assert "build_timeout_s" in str(hang.next_step)
    assert errors == {"tiny/onnx/onnx-float32": None, "tiny/onnx/onnx-int8": None}
    report = report_of(out)
    status = {build["build_id"].split("/", 2)[2]: build["status"] for build in report["builds"]}
    assert status == {
        "onnx-float32": "built",
        "onnx-int8": "built",
        "onnx-int8/entropy": "failed",
        "onnx-int8-dynamic": "failed",
    }
    assert {result["verdict"] for result in report["results"]} == {"pass"}
    page = (out / "report" / "index.html").read_text(encoding="utf-8")
    assert "terminate called after" in page
    assert crash.what in page
    assert hang.what in page
    failed = {line.step for line in journal_of(out) if line.entry == "step_failed"}
    assert failed == {"build/tiny/onnx/onnx-int8@entropy", "build/tiny/onnx/onnx-int8-dynamic"}

    # Once the vendor's fault is mended, the same command makes what is missing and no more.
    monkeypatch.undo()
    mended = run(project.plan, out, options=RunOptions(store=project.store))
    assert mended.exit_code == ExitCode.PASS
    made = [line.step for line in journal_of(out) if line.entry == "step_finished"]
    assert {step for step in made if made.count(step) > 1} == {"job/host/onnxruntime"}


@pytest.mark.parametrize(
    ("number", "named"), [(errno.ENOSPC, "StorageError"), (errno.EROFS, "StorageError"), (errno.EIO, None)]
)
def test_a_disk_that_refuses_is_no_fault_of_the_vendor(
    tmp_path: Path, number: int, named: str | None
) -> None:
    def work(*_: object) -> dict[str, object]:
        raise OSError(number, os.strerror(number), "model.bin")

    request = tmp_path / "request.json"
    request.write_text("{}")
    assert run_worker(work, [str(request)]) == 1
    record = json.loads((tmp_path / "error.json").read_text())
    assert record["class"] == named
    assert os.strerror(number) in record["what"]
