"""Faults that show when model or data are read: one clear message, or a finding and the run goes on."""

import shutil
from pathlib import Path

import onnx
import pytest
from PIL import Image

from tests.cli.conftest import Call
from tests.models.faulty_networks import UNREADABLE, fails_on_light_images, gives_nan, has_a_custom_operator
from tests.runs.project import Answer, Project, report_of


@pytest.fixture
def lean(project: Project) -> Project:
    """The project with its dynamic build only."""
    project.make_lean()
    return project


def one_error(answer: Answer, code: int, *words: str) -> None:
    assert answer.code == code, answer
    assert answer.out == ""
    assert answer.err.count("error: ") == 1, answer.err
    assert "Traceback" not in answer.err
    assert "phoneproof has a fault" not in answer.err
    for word in ("  where: ", "  next:  ", *words):
        assert word in answer.err, answer.err


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_model_that_is_onnx_and_wrong_inside_is_refused(lean: Project, call: Call, name: str) -> None:
    model = lean.folder / "tiny.onnx"
    onnx.save(UNREADABLE[name](), str(model))
    one_error(call("build", "--out", "run"), 2, str(model))


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9, 0.999])
def test_a_truncated_model_is_refused_before_anything_is_started(
    lean: Project, call: Call, share: float
) -> None:
    model = lean.folder / "tiny.onnx"
    content = model.read_bytes()
    model.write_bytes(content[: int(len(content) * share)])
    one_error(call("build", "--out", "run"), 2, "truncated", str(model))
    assert not (lean.folder / "run").exists()


def test_a_model_with_noise_inside_is_refused(lean: Project, call: Call) -> None:
    model = lean.folder / "tiny.onnx"
    content = bytearray(model.read_bytes())
    content[20:400] = bytes((17 * i + 91) % 256 for i in range(380))
    model.write_bytes(content)
    one_error(call("build", "--out", "run"), 2, str(model))


def test_a_custom_operator_fails_the_builds_and_the_report_says_so(lean: Project, call: Call) -> None:
    onnx.save(has_a_custom_operator(), str(lean.folder / "tiny.onnx"))
    answer = call("run", "--out", "run")
    assert answer.code == 3
    assert "Traceback" not in answer.err + answer.out
    builds = report_of(lean.folder / "run")["builds"]
    assert {build["status"] for build in builds} == {"failed"}
    assert all("Sharpen" in build["error"]["what"] for build in builds)
    assert "Sharpen" in answer.err + answer.out


def test_an_unreadable_image_is_a_finding_and_the_run_goes_on(lean: Project, call: Call) -> None:
    (lean.folder / "evaluation" / "dark" / "03.png").write_bytes(b"\x89PNG\r\n\x1a\n no image")
    answer = call("run", "--out", "run")
    assert answer.code == 0, answer.err
    assert "DATA-BROKEN-FILE" in answer.err
    report = report_of(lean.folder / "run")
    finding = next(f for f in report["findings"] if f["id"] == "DATA-BROKEN-FILE")
    assert "03.png" in str(finding["facts"])
    assert {parity["n"] for result in report["results"] for parity in result["parity"]} == {19}
    assert {result["accuracy"]["n"] for result in report["results"]} == {19}


def test_a_finding_that_stops_the_run_is_told_with_its_facts_as_data(lean: Project, call: Call) -> None:
    for path in (lean.folder / "evaluation").rglob("*.png"):
        Image.new("RGB", (16, 16), (9, 9, 9)).save(path)
    told = call("run", "--out", "run", "--json")
    assert told.code == 2, told
    facts = told.json["error"]["facts"]
    assert facts["evaluation DATA-CONSTANT samples"] == 20
    assert "dark/00.png" in facts["evaluation DATA-CONSTANT examples"]
    one_error(call("run", "--out", "run"), 2, "evaluation DATA-CONSTANT samples: ")


def test_a_set_of_nothing_but_unreadable_images_is_refused(lean: Project, call: Call) -> None:
    for path in (lean.folder / "evaluation").rglob("*.png"):
        path.write_bytes(b"no image")
    one_error(call("build", "--out", "run"), 2, "No sample of the set can be read")


def test_more_classes_than_the_output_has_are_refused(lean: Project, call: Call) -> None:
    shutil.copytree(lean.folder / "evaluation" / "dark", lean.folder / "evaluation" / "zebra")
    one_error(call("run", "--out", "run"), 2, "data.evaluation", "labels go from 0 to 2", "classes 0 to 1")


def test_outputs_that_are_no_numbers_are_told(lean: Project, call: Call) -> None:
    onnx.save(gives_nan(), str(lean.folder / "tiny.onnx"))
    answer = call("run", "--out", "run")
    assert answer.code == 0, answer.err
    assert "OUTPUT-NONFINITE" in answer.err
    finding = next(f for f in report_of(lean.folder / "run")["findings"] if f["id"] == "OUTPUT-NONFINITE")
    assert finding["subject"] == "tiny/onnx"
    assert finding["facts"] == {"output": "join_out", "numbers": 20}


def test_a_source_model_that_fails_on_some_samples_is_named_with_them(lean: Project, call: Call) -> None:
    onnx.save(fails_on_light_images(), str(lean.folder / "tiny.onnx"))
    answer = call("run", "--out", "run")
    assert answer.code == 3, answer
    assert "source model did not run on every sample" in answer.err
    assert "Traceback" not in answer.err + answer.out
    events = list((lean.folder / "run" / "jobs").rglob("attempts.jsonl"))
    assert events


def test_debug_shows_the_traceback_and_the_message(lean: Project, call: Call) -> None:
    Path("tiny.onnx").write_bytes(b"")
    answer = call("run", "--debug")
    assert answer.code == 2
    assert "Traceback (most recent call last)" in answer.err
    assert "error: " in answer.err


@pytest.mark.parametrize("command", [("build", "--out", "run"), ("init", "--model", "tiny.onnx", "--force")])
def test_an_opset_newer_than_builds_have_is_told_before_anything_is_built(
    lean: Project, call: Call, command: tuple[str, ...]
) -> None:
    model = onnx.load(str(lean.folder / "tiny.onnx"))
    model.opset_import[0].version = 23
    onnx.save(model, str(lean.folder / "tiny.onnx"))
    one_error(call(*command), 2, "opset 23", "opset_version=22")
    assert not list((lean.folder / "run" / "builds").glob("*"))


def test_a_fixed_batch_above_one_is_told_before_anything_is_built(lean: Project, call: Call) -> None:
    model = onnx.load(str(lean.folder / "tiny.onnx"))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 4
    onnx.save(model, str(lean.folder / "tiny.onnx"))
    one_error(call("build", "--out", "run"), 2, "'image'", "length 4", "a batch of 1", "shapes")
    assert not list((lean.folder / "run" / "builds").glob("*"))


def test_a_batch_of_four_in_the_plan_is_told_before_anything_is_built(lean: Project, call: Call) -> None:
    lean.change('format = "onnx"', 'format = "onnx"\nshapes = { image = [4, 3, 12, 12] }')
    one_error(call("build", "--out", "run"), 2, "'image'", "length 1, but 4 is asked for", "shapes")
    assert not list((lean.folder / "run" / "builds").glob("*"))


KEPT = 'recipe = "onnx-int8-dynamic"\nkeep_float_names = ["hed"]\nkeep_float_types = ["Conv2D"]'


def test_operators_that_the_model_lacks_are_told_before_anything_is_built(lean: Project, call: Call) -> None:
    lean.change('recipe = "onnx-int8-dynamic"', KEPT)
    assert call("run", "--out", "run", "--dry-run").code == 0  # nothing has looked into the model yet
    for command in ("audit", "build", "run"):
        answer = call(command, "--out", "run")
        assert answer.code == 2, answer
        assert "The source model has no operator 'hed'" in answer.err
        assert "Near ones: 'head'." in answer.err
        assert "The source model has no operator type 'Conv2D'" in answer.err
        assert "Near ones: 'Conv'." in answer.err
        assert "builds #1.keep_float_names" in answer.err
    assert not (lean.folder / "run" / "builds").exists()
    foreseen = call("run", "--out", "run", "--dry-run")
    assert foreseen.code == 2
    assert "Near ones: 'head'." in foreseen.err
