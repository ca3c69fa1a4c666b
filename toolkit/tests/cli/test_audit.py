"""phoneproof audit: what it prints and answers, and that it stops there."""

from tests.cli.conftest import Call
from tests.runs.project import Project, journal_of


def test_an_audit_tells_of_the_model_and_builds_nothing(project: Project, call: Call) -> None:
    answer = call("audit", "--out", "run")
    assert answer.code == 0, answer
    assert "tiny  onnx" in answer.out
    assert "image (float32, 1 x 3 x 12 x 12)" in answer.out
    assert "predicted, not run" in answer.out
    for name in ("NNAPI", "QNN (Hexagon)", "LiteRT GPU delegate", "Neural Engine", "XNNPACK in LiteRT"):
        assert name in answer.out
    assert "try on Android: onnx-int8 (method minmax)" in answer.out
    assert "phoneproof run --out run" in answer.out
    assert "MODEL-SMALL" in answer.err
    assert not list((project.folder / "run" / "builds").glob("**/*.onnx"))
    done = {line.step for line in journal_of(project.folder / "run") if line.entry == "step_finished"}
    assert done == {"inspect/tiny/onnx", "samples/evaluation/tiny/onnx", "samples/calibration/tiny/onnx"}


def test_the_same_as_json_and_again_from_the_run(project: Project, call: Call) -> None:
    first = call("audit", "--out", "run", "--json")
    content = first.json
    assert list(content) == ["run", "exit_code", "models", "findings"]
    (model,) = content["models"]
    assert model["audit"]["operators"]["conv2d"] == 2
    assert {one["accelerator"] for one in model["audit"]["support"]} >= {"NNAPI", "Neural Engine"}
    assert {finding["id"] for finding in content["findings"]} == {"MODEL-SMALL", "DATA-CALIBRATION-FEW"}
    assert call("audit", "--out", "run", "--json").json == content


def test_a_severe_finding_stops_it_as_it_stops_a_run(project: Project, call: Call) -> None:
    project.change('path = "calibration" }', 'path = "calibration", take = 4 }')
    answer = call("audit", "--out", "run", "--json")
    assert answer.code == 2
    assert "DATA-CALIBRATION-TOO-FEW" in answer.json["error"]["what"]


def test_without_a_calibration_set_a_recipe_is_advised_that_needs_none(project: Project, call: Call) -> None:
    project.change('calibration = { kind = "image_folder", path = "calibration" }\n', "")
    answer = call("audit", "--out", "run")
    assert answer.code == 0, answer
    assert "try on Android: onnx-int8-dynamic. There is no calibration set" in answer.out
    assert call("build", "--out", "other").code == 2


def test_a_dry_run_names_the_steps_of_the_audit_only(project: Project, call: Call) -> None:
    answer = call("audit", "--dry-run", "--json")
    steps = [step["step"] for step in answer.json["steps"]]
    assert steps == ["inspect/tiny/onnx", "samples/evaluation/tiny/onnx", "samples/calibration/tiny/onnx"]
