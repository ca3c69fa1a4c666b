"""What built-in metrics score: refused or told before anything is built, wherever it cannot be meant."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from phoneproof.errors import PlanError
from phoneproof.plan.model import read_plan
from phoneproof.protocol.outputs import OutputWriter
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.runs.scoring import ScoredOutput, scored_output, shift_findings
from phoneproof.verify.outputs import KeptOutputs
from tests.cli.conftest import Call, call, project
from tests.cli.test_faults import one_error
from tests.models.onnx_networks import NetworkBuilder
from tests.plan.plans import RIGHT, written
from tests.runs.project import SIDE, Project

__all__ = ["call", "project"]

SET = """
import numpy as np

def samples():
    draw = np.random.default_rng(0)
    for number in range(20):
        yield {"image": draw.random((3, 12, 12), np.float32)}, LABEL
"""


def scored(folder: Path, task: str, *outputs: tuple[str, tuple[int, ...]]) -> ScoredOutput | None:
    text = RIGHT.replace('kind = "classification"\nmetrics = ["top1", "top5"]', task)
    assert text != RIGHT
    text = text.replace("accuracy_drop_max = 0.01\n", "")
    plan = read_plan(written(folder, text))
    return scored_output(
        plan, [TensorSpec(name=name, dtype="float32", shape=shape) for name, shape in outputs]
    )


TOP1 = 'kind = "classification"\nmetrics = ["top1"]'
SCORES, BOXES = ("scores", (1, 10)), ("boxes", (1, 8, 4))


@pytest.mark.parametrize(
    ("task", "outputs", "expected"),
    [
        (TOP1, [SCORES], ScoredOutput("scores", 10)),
        (TOP1, [("scores", (10,))], ScoredOutput("scores", 10)),
        (f'{TOP1}\noutput = "scores"', [BOXES, SCORES], ScoredOutput("scores", 10)),
        ('kind = "other"', [BOXES, SCORES], None),
        ('kind = "other"\nmetrics = ["own:f"]', [BOXES, SCORES], None),
    ],
)
def test_the_output_that_is_scored(tmp_path: Path, task: str, outputs: Any, expected: Any) -> None:
    assert scored(tmp_path, task, *outputs) == expected


@pytest.mark.parametrize(
    ("task", "outputs", "words"),
    [
        (TOP1, [BOXES, SCORES], ("2 outputs", "'boxes' [1, 8, 4], 'scores' [1, 10]", "output")),
        (f'{TOP1}\noutput = "score"', [BOXES, SCORES], ("no output 'score'", "Did you mean 'scores'?")),
        (f'{TOP1}\noutput = "zzz"', [SCORES], ("no output 'zzz'", "'scores' [1, 10]")),
        ('kind = "other"\nmetrics = ["own:f"]\noutput = "x"', [SCORES], ("no output 'x'",)),
        (TOP1, [BOXES], ("one score for each class", "'boxes' [1, 8, 4]")),
        (TOP1, [("scores", (4, 10))], ("one score for each class",)),
        (TOP1.replace("top1", "top5"), [("scores", (1, 2))], ("top5 needs 5 scores", "has 2")),
    ],
)
def test_a_metric_that_the_outputs_do_not_fit_is_a_wrong_plan(
    tmp_path: Path, task: str, outputs: Any, words: tuple[str, ...]
) -> None:
    with pytest.raises(PlanError) as caught:
        scored(tmp_path, task, *outputs)
    assert caught.value.next_step
    for word in words:
        assert word in str(caught.value)


def test_several_outputs_are_told_before_anything_is_built(project: Project, call: Call) -> None:
    project.make_lean()
    build = NetworkBuilder()
    pooled = build.op("Flatten", [build.op("GlobalAveragePool", ["image"], "pool")], "flatten")
    one, two = build.gemm(pooled, "near", 3, 2), build.gemm(pooled, "far", 3, 2)
    model = build.model({"image": [1, 3, SIDE, SIDE]}, {one: [1, 2], two: [1, 2]})
    onnx.save(model, str(project.folder / "tiny.onnx"))
    one_error(call("run", "--out", "run"), 2, "'near_out' [1, 2], 'far_out' [1, 2]", "task.output")
    assert not list((project.folder / "run" / "builds").glob("*"))
    one_error(call("run", "--out", "other", "--dry-run"), 2, "'near_out' [1, 2]")
    project.change('metrics = ["top1"]', 'metrics = ["top1"]\noutput = "far_out"')
    assert call("build", "--out", "good").code == 0


def from_a_function(project: Project, label: str) -> None:
    project.make_lean()
    (project.folder / "own.py").write_text(SET.replace("LABEL", label), encoding="utf-8")
    project.change(
        'evaluation = { kind = "image_folder", path = "evaluation" }',
        'evaluation = { kind = "entry_point", function = "own:samples" }',
    )
    text = project.plan_path.read_text(encoding="utf-8")
    head, _, rest = text.partition("[data.preprocess]")
    project.plan_path.write_text(head + "[task]" + rest.partition("[task]")[2], encoding="utf-8")


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ('"dark"', ("The label 'dark' of the sample '0' is no class index", "data.classes")),
        ("str(number % 2)", ("The label '0'",)),
        ("0.5", ("The label 0.5",)),
        ("[0]", ("The label [0]",)),
        ("number % 3", ("labels go from 0 to 2", "'head_out' has the classes 0 to 1")),
        ("number % 2 + 1", ("labels go from 1 to 2", "counted from 0")),
        ("-(number % 2)", ("labels go from -1 to 0",)),
    ],
)
def test_labels_that_are_no_classes_of_the_output_are_told_before_anything_is_built(
    project: Project, call: Call, label: str, words: tuple[str, ...]
) -> None:
    from_a_function(project, label)
    one_error(call("build", "--out", "run"), 2, "data.evaluation", *words)
    assert not list((project.folder / "run" / "builds").glob("*"))


@pytest.mark.parametrize("label", ["number % 2", "float(number % 2)", "number % 2 == 1"])
def test_indices_are_taken_as_they_come(project: Project, call: Call, label: str) -> None:
    from_a_function(project, label)
    assert call("build", "--out", "run").code == 0


def test_names_of_classes_are_indices_where_the_plan_lists_them(project: Project, call: Call) -> None:
    from_a_function(project, '"light"')
    project.change("may_leave = true", 'may_leave = true\nclasses = ["dark", "light"]')
    assert call("build", "--out", "run").code == 0


def test_a_background_class_of_the_model_is_a_finding(project: Project, call: Call) -> None:
    project.make_lean()
    build = NetworkBuilder()
    pooled = build.op("Flatten", [build.op("GlobalAveragePool", ["image"], "pool")], "flatten")
    scores = build.gemm(pooled, "head", 3, 3)
    onnx.save(build.model({"image": [1, 3, SIDE, SIDE]}, {scores: [1, 3]}), str(project.folder / "tiny.onnx"))
    answer = call("build", "--out", "run")
    assert answer.code == 0
    assert "OUTPUT-CLASSES, tiny/onnx: The set has 2 classes" in " ".join(answer.err.split())
    project.change("may_leave = true", 'may_leave = true\nclasses = ["dark", "light", "none"]')
    assert "OUTPUT-CLASSES" not in call("build", "--out", "listed").err


class TestLabelsShifted:
    """Outputs of a source model with a background class in front, and labels of its other classes."""

    LABELS = tuple(int(label) for label in np.random.default_rng(0).integers(0, 4, 80))

    def outputs(self, folder: Path, of_labels: int) -> KeptOutputs:
        path = folder / "outputs.bin"
        with OutputWriter(path, 0) as writer:
            for sample, label in enumerate(self.LABELS):
                if sample != 3:  # a sample that ended badly has no record
                    scores = np.eye(5, dtype=np.float32)[[label + of_labels]]
                    writer.append(sample, [np.zeros((1, 2), np.float32), scores])
            writer.close()
        tensors = (TensorSpec("boxes", "float32", (1, 2)), TensorSpec("scores", "float32", (1, 5)))
        return KeptOutputs(path, tensors)

    def test_are_told(self, tmp_path: Path) -> None:
        kept = self.outputs(tmp_path, 1)
        (finding,) = shift_findings("m", ScoredOutput("scores", 5), self.LABELS, kept)
        assert (finding.id, finding.subject) == ("OUTPUT-LABELS-SHIFTED", "m")
        assert finding.facts == {"by": 1, "accuracy": 0.0, "shifted": 1.0, "samples": 79}

    def test_right_labels_and_none_are_silent(self, tmp_path: Path) -> None:
        kept = self.outputs(tmp_path, 0)
        assert shift_findings("m", ScoredOutput("scores", 5), self.LABELS, kept) == ()
        assert shift_findings("m", ScoredOutput("scores", 5), None, kept) == ()
        assert shift_findings("m", None, self.LABELS, kept) == ()
