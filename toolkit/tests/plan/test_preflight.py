"""What can be seen wrong before anything is started."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from phoneproof.errors import (
    DataError,
    PhoneproofError,
    PlanError,
    SourceModelError,
    StorageError,
    ToolchainError,
)
from phoneproof.plan.preflight import EVERYTHING, Need, missing_here, preflight
from tests.plan.plans import RIGHT, changed, plan_of

ONNX_HEADER = b"\x08\x0a\x3a\x00"  # ir_version 10 and an empty graph
PLENTY = 10**12


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder in which the right plan has all that it names."""
    (tmp_path / "digits.onnx").write_bytes(ONNX_HEADER)
    (tmp_path / "images" / "0").mkdir(parents=True)
    (tmp_path / "images" / "0" / "a.PNG").write_bytes(b"not looked into")
    return tmp_path


def found(
    folder: Path, text: str = RIGHT, needs: frozenset[Need] = EVERYTHING, free: int = PLENTY
) -> tuple[PhoneproofError, ...]:
    return preflight(
        plan_of(folder, text),
        out=folder / "runs" / "new",
        needs=needs,
        package_check=lambda name: None,
        free_bytes=lambda folder: free,
    )


def only(errors: tuple[PhoneproofError, ...]) -> PhoneproofError:
    (error,) = errors
    assert error.where
    assert error.next_step
    return error


CALIBRATION = '{ kind = "image_folder", path = "images", take = 200 }'
EVALUATION = '{ kind = "image_folder", path = "images", skip = 200 }'


def test_a_plan_that_can_run_passes(project: Path) -> None:
    assert found(project) == ()


def test_a_missing_model_is_named_with_line_and_path(project: Path) -> None:
    (project / "digits.onnx").unlink()
    error = only(found(project))
    assert isinstance(error, SourceModelError)
    assert error.where == f"{project}/phoneproof.toml:3: models #1.source: {project}/digits.onnx"


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04zip", b"<html>", b"\x08\x0a\x3a\x7f"], ids=["empty", "zip", "html", "cut"]
)
def test_what_is_no_onnx_model_is_refused(project: Path, content: bytes) -> None:
    (project / "digits.onnx").write_bytes(content)
    assert isinstance(only(found(project)), SourceModelError)


def test_a_static_recipe_without_calibration_says_what_is_missing(project: Path) -> None:
    text = changed(f"calibration = {CALIBRATION}\n", "")
    error = only(found(project, text))
    assert isinstance(error, DataError)
    assert "digits/onnx/onnx-int8 needs a calibration set" in error.what
    assert error.facts["builds"] == ("digits/onnx/onnx-int8", "digits/onnx/onnx-int8/entropy")
    assert found(project, text, needs=frozenset({Need.VERIFY})) == ()


def test_judging_needs_an_evaluation_set_and_building_does_not(project: Path) -> None:
    text = changed(f"evaluation = {EVALUATION}\n", "")
    assert "[data.evaluation]" in (only(found(project, text)).next_step or "")
    assert found(project, text, needs=frozenset({Need.BUILD})) == ()


def test_all_faults_come_at_once(project: Path) -> None:
    (project / "digits.onnx").unlink()
    (project / "images" / "0" / "a.PNG").unlink()
    kinds = [type(error) for error in found(project, free=0)]
    assert kinds == [SourceModelError, DataError, DataError, StorageError]


def test_a_misspelt_folder_is_suggested_and_not_taken(project: Path) -> None:
    text = changed('path = "images", skip = 200', 'path = "image"')
    error = only(found(project, text))
    assert isinstance(error, DataError)
    assert (
        error.next_step == "Correct the path; it starts from the folder of the plan. Did you mean 'images'?"
    )


def test_a_file_where_a_folder_is_meant_is_refused(project: Path) -> None:
    error = only(found(project, changed('path = "images", skip = 200', 'path = "digits.onnx"')))
    assert error.what == "It is no folder."


def test_names_that_no_file_can_have_are_refused(project: Path) -> None:
    long = "n" * 300
    text = changed('source = "digits.onnx"', f'source = "{long}.onnx"')
    text = changed('path = "images", skip = 200', f'path = "{long}"', text)
    text = changed('["top1", "top5"]', f'["{long}:f"]', text)
    errors = found(project, text)
    assert [type(error) for error in errors] == [SourceModelError, DataError, PlanError]
    assert all(error.next_step for error in errors)


def test_a_pipe_is_not_waited_for(project: Path) -> None:
    os.mkfifo(project / "set")
    errors = found(project, changed(EVALUATION, '{ kind = "npz", path = "set" }'))
    assert only(errors).what == "It is no file."


def _npy(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.zeros((2, 3), np.float32))


def _npz(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, image=np.zeros((2, 3), np.float32))


def _csv(path: Path) -> None:
    path.write_text("path;label\na.png;1\n", encoding="utf-8")


def _text(path: Path) -> None:
    path.write_text("something else", encoding="utf-8")


def _header_only(path: Path) -> None:
    path.write_text("path;label\n", encoding="utf-8")


LABELLED_CSV = '{ kind = "csv", path = "set", label_column = "label", delimiter = ";" }'
SETS: list[tuple[str, Callable[[Path], None], str]] = [
    ('{ kind = "npz", path = "set" }', _npz, ""),
    ('{ kind = "npz", path = "set" }', _text, "not an .npz archive"),
    ('{ kind = "npy", path = "set", labels_path = "set" }', _npy, ""),
    ('{ kind = "npy", path = "set", labels_path = "set" }', _text, "not an .npy file"),
    ('{ kind = "npy", path = "set", labels_path = "set" }', Path.touch, "is empty"),
    (LABELLED_CSV, _csv, ""),
    (LABELLED_CSV, _header_only, "no lines below its header"),
    (LABELLED_CSV, Path.touch, "no lines below its header"),
    (LABELLED_CSV, _npy, "cannot be read"),
    (LABELLED_CSV.replace('"label"', '"lable"'), _csv, "no column 'lable'"),
    (LABELLED_CSV.replace(";", ","), _csv, "no column 'path'"),
]


@pytest.mark.parametrize(("table", "write", "what"), SETS)
def test_files_of_sets_are_looked_at(
    project: Path, table: str, write: Callable[[Path], None], what: str
) -> None:
    write(project / "set")
    errors = found(project, changed(EVALUATION, table))
    assert what in only(errors).what if what else errors == ()


def test_a_misspelt_column_is_suggested(project: Path) -> None:
    _csv(project / "set")
    error = only(found(project, changed(EVALUATION, LABELLED_CSV.replace('"label"', '"lable"'))))
    assert error.next_step == "Did you mean 'label'?"


ENTRY_POINTS = [
    ("mine:f1", "def f1(): ...", ""),
    ("mine:acuracy", "def accuracy(): ...", "Did you mean 'accuracy'?"),
    ("mine:f1", "if True:\n    from math import sqrt as f1", ""),
    ("mine:f1", "from math import *", ""),
    ("mine:f1", "def __getattr__(name): ...", ""),
    ("mine:f1", "globals().update(a=1)", ""),
    ("mine:method", "class A:\n    def method(self): ...", "Known: 'A'"),
    ("mine:f1", "def f1(:", "Mend the file"),
    ("mein:f1", "def f1(): ...", "Modules are looked for in"),
    ("json:dumps", "", ""),
    ("json.decoder:JSONDecoder", "", ""),
    ("json.decoders:JSONDecoder", "", "Modules are looked for in"),
    ("math:sqrt", "", ""),
]


@pytest.mark.parametrize(("entry_point", "source", "next_step"), ENTRY_POINTS)
def test_entry_points_are_found_without_running_them(
    project: Path, entry_point: str, source: str, next_step: str
) -> None:
    ran = project / "ran"
    guard = f"import pathlib\npathlib.Path({str(ran)!r}).touch()\n"
    (project / "mine.py").write_text(source + "\n" + guard, encoding="utf-8")
    errors = found(project, changed('["top1", "top5"]', f'["{entry_point}"]'))
    if next_step:
        error = only(errors)
        assert isinstance(error, PlanError)
        assert next_step in (error.next_step or "")
    else:
        assert errors == ()
    assert not ran.exists()


def test_each_package_is_asked_for_once_and_its_problem_told(project: Path) -> None:
    asked: list[str] = []
    problem = ToolchainError("absent", where="toolchain onnxruntime", next_step="install it")

    def check(name: str) -> PhoneproofError:
        asked.append(name)
        return problem

    errors = preflight(plan_of(project), out=project, package_check=check, free_bytes=lambda folder: PLENTY)
    assert errors == (problem,)
    assert asked == ["onnxruntime"]


def test_an_absent_package_is_found_by_its_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_here("onnxruntime") is None
    monkeypatch.setattr(sys, "path", [])
    error = missing_here("onnxruntime")
    assert isinstance(error, ToolchainError)
    assert "phoneproof toolchain install onnxruntime" in (error.next_step or "")


def test_a_disk_without_room_for_the_builds_is_refused(project: Path) -> None:
    error = only(found(project, free=100_000_000))
    assert isinstance(error, StorageError)
    assert error.exit_code == 3
    assert error.where == str(project)


def test_the_preflight_loads_no_vendors_package(project: Path) -> None:
    plan_of(project)
    code = """
import pathlib, sys
from phoneproof.plan.model import read_plan
from phoneproof.plan.preflight import preflight
folder = pathlib.Path(sys.argv[1])
assert preflight(read_plan(folder / "phoneproof.toml"), out=folder, free_bytes=lambda f: 10**12) == ()
heavy = {"onnx", "onnxruntime", "torch", "scipy", "tensorflow", "jinja2"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run(
        [sys.executable, "-c", code, str(project)], check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
