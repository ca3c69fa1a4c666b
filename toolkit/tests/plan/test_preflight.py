"""What can be seen wrong before anything is started."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from phoneproof.errors import (
    BuildFileError,
    DataError,
    PhoneproofError,
    PlanError,
    SourceModelError,
    StorageError,
    ToolchainError,
)
from phoneproof.plan.preflight import EVERYTHING, Need, missing_here, needed_toolchains, preflight
from phoneproof.recipes.rows import RECIPES
from phoneproof.recipes.runtime_table import ONNX_EXPORTERS, READER_OF, runtime_on_host
from phoneproof.recipes.table import SourceFormat
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from tests.own_path import OWN_PATH
from tests.plan.plans import RIGHT, changed, plan_of, text_of

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


def test_own_edge_inputs_are_looked_for_where_they_are_tried(project: Path) -> None:
    own = '[edge]\nown = { kind = "image_folder", path = "imagse" }\n\n[benchmark]'
    error = only(found(project, changed("[benchmark]", own)))
    assert "edge.own.path" in (error.where or "")
    assert "'images'" in (error.next_step or "")
    off = changed("[benchmark]", own.replace("[edge]", "[edge]\nrun = false"))
    assert found(project, off) == ()


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


NEEDS = [
    # form, build, toolchains for building, for judging, for both
    ("keras", 'recipe = "tflite-int8"', {"tflite"}, {"tflite"}, {"tflite"}),
    ("savedmodel", 'recipe = "tflite-float16"', {"tflite"}, {"tflite"}, {"tflite"}),
    ("onnx", 'recipe = "onnx-int8"', {"onnxruntime"}, {"onnxruntime"}, {"onnxruntime"}),
    (
        "exported_program",
        'recipe = "onnx-int8"',
        {"torch-qnnpack", "torch-onnx", "onnxruntime"},
        {"torch-qnnpack", "onnxruntime"},
        {"torch-qnnpack", "torch-onnx", "onnxruntime"},
    ),
    (
        "exported_program",
        'recipe = "tflite-int8"',
        {"torch-qnnpack", "litert-torch"},
        {"torch-qnnpack", "tflite"},
        {"torch-qnnpack", "litert-torch", "tflite"},
    ),
    (
        "pytorch",
        'recipe = "executorch-int8"',
        {"torch-qnnpack", "executorch"},
        {"torch-qnnpack", "executorch"},
        {"torch-qnnpack", "executorch"},
    ),
    ("pytorch", 'recipe = "torch-qnnpack-int8"', {"torch-qnnpack"}, {"torch-qnnpack"}, {"torch-qnnpack"}),
    (
        "onnx",
        'file = "mine.tflite"',
        {"onnxruntime", "tflite"},
        {"onnxruntime", "tflite"},
        {"onnxruntime", "tflite"},
    ),
    (
        "keras",
        'file = "mine.pte"',
        {"tflite", "executorch"},
        {"tflite", "executorch"},
        {"tflite", "executorch"},
    ),
]


@pytest.mark.parametrize(("form", "build", "making", "judging", "both"), NEEDS)
def test_only_the_packages_that_the_plan_needs_are_asked_for(
    project: Path, form: str, build: str, making: set[str], judging: set[str], both: set[str]
) -> None:
    plan = plan_of(project, text_of([form], build))
    assert set(needed_toolchains(plan, frozenset({Need.BUILD}))) == making
    assert set(needed_toolchains(plan, frozenset({Need.VERIFY}))) == judging
    assert set(needed_toolchains(plan, EVERYTHING)) == both


def test_every_toolchain_that_a_plan_can_need_is_known() -> None:
    assert set(READER_OF) == set(SourceFormat)
    assert set(READER_OF.values()) | set(ONNX_EXPORTERS.values()) <= set(TOOLCHAINS)
    for recipe in RECIPES.values():
        for platform in ("linux", "darwin"):
            assert runtime_on_host(recipe.runtime, platform).toolchain in TOOLCHAINS


def test_core_ml_has_a_stand_in_where_it_does_not_exist() -> None:
    assert runtime_on_host("coreml", "darwin").fidelity == "device"
    assert runtime_on_host("coreml", "linux").fidelity == "reference"


FORMS = {
    "keras": ("net.keras", "no Keras model"),
    "savedmodel": ("net", "no SavedModel folder"),
    "exported_program": ("net.pt2", "no exported program"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_source_of_another_form_than_it_says_is_refused_at_its_key(project: Path, form: str) -> None:
    name, what = FORMS[form]
    path = project / name
    if form == "savedmodel":
        path.mkdir()
    else:
        path.write_bytes(ONNX_HEADER)
    text = text_of([form], 'file = "digits.onnx"')
    error = only(found(project, text, needs=frozenset({Need.BUILD})))
    assert isinstance(error, SourceModelError)
    assert what in error.what
    assert f"models #1.source: {path}" in (error.where or "")


def test_a_function_and_its_weights_are_both_looked_for(project: Path) -> None:
    text = text_of(["pytorch"], 'file = "digits.onnx"').replace("inputs =", 'state = "w.pt"\ninputs =')
    (project / "net.py").write_text("def makes(): ...\n", encoding="utf-8")
    errors = found(project, text, needs=frozenset({Need.BUILD}))
    assert [type(error) for error in errors] == [PlanError, SourceModelError]
    assert "'makes'" in (errors[0].next_step or "")
    assert f"models #1.state: {project}/w.pt" in (errors[1].where or "")


BUILD_FILES = [
    ("made.tflite", b"TFL", "not what its name says"),
    ("made.tflite", None, "does not exist"),
    ("made.onnx", b"<html>", ""),
    ("made.pte", ONNX_HEADER, "not what its name says"),
]


@pytest.mark.parametrize(("name", "content", "what"), BUILD_FILES)
def test_a_build_made_elsewhere_is_looked_at(
    project: Path, name: str, content: bytes | None, what: str
) -> None:
    if content is not None:
        (project / name).write_bytes(content)
    text = text_of(["onnx"], f'file = "{name}"').replace("net.onnx", "digits.onnx")
    error = only(found(project, text, needs=frozenset({Need.BUILD})))
    assert isinstance(error, BuildFileError)
    assert what in error.what
    assert f"builds #1.file: {project}/{name}" in (error.where or "")


def test_a_build_made_elsewhere_needs_no_calibration_set(project: Path) -> None:
    text = text_of(["onnx"], 'file = "digits.onnx"').replace("net.onnx", "digits.onnx")
    assert found(project, text, needs=frozenset({Need.BUILD})) == ()


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
from tests.own_path import OWN_PATH
folder = pathlib.Path(sys.argv[1])
assert preflight(read_plan(folder / "phoneproof.toml"), out=folder, free_bytes=lambda f: 10**12) == ()
heavy = {"onnx", "onnxruntime", "torch", "scipy", "tensorflow", "jinja2"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run(
        [sys.executable, "-c", code, str(project)],
        check=True,
        env=OWN_PATH,
    )
