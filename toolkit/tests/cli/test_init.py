"""What `init` says of the plan that it wrote."""

import subprocess
import sys

import pytest

from phoneproof.plan.model import read_plan
from tests.cli.conftest import Call
from tests.runs.project import Project


def test_a_plan_without_data_is_said_to_need_filling_in_first(project: Project, call: Call) -> None:
    answer = call("init", "--model", "tiny.onnx", "-p", "first.toml")
    assert answer.code == 0, answer
    said = answer.out.splitlines()
    assert (
        said[0] == "Wrote first.toml, which names no data yet: fill in data.calibration and data.evaluation."
    )
    assert said[-1] == "  phoneproof run -p first.toml"
    refused = call("run", "-p", "first.toml", "--dry-run")
    assert refused.code == 2
    assert "data.calibration" in refused.err
    assert "data.evaluation" in refused.err
    told = call("init", "--model", "tiny.onnx", "-p", "first.toml", "--force", "--json").json
    assert told["fill_in"] == ["data.calibration", "data.evaluation"]


def test_what_is_recommended_after_data_were_given_works(project: Project, call: Call) -> None:
    answer = call("init", "--model", "tiny.onnx", "--data", "evaluation", "-p", "first.toml", "--json")
    assert answer.code == 0, answer
    assert answer.json["fill_in"] == []
    for command in answer.json["next"][:1]:
        assert call(*command.split()[1:]).code == 0


def test_a_function_is_not_run_and_its_inputs_are_asked_for(project: Project, call: Call) -> None:
    (project.folder / "nets.py").write_text("raise SystemExit\ndef small(): ...\n", encoding="utf-8")
    answer = call("init", "--model", "nets:small", "--data", "evaluation", "-p", "first.toml")
    assert answer.code == 0, answer
    assert answer.out.splitlines()[0] == (
        "Wrote first.toml, which is not complete yet: fill in models.inputs."
    )
    refused = call("run", "-p", "first.toml", "--dry-run")
    assert refused.code == 2
    assert "A PyTorch source needs its inputs." in refused.err
    told = call("init", "--model", "nets:small", "-p", "first.toml", "--force", "--json").json
    assert told["fill_in"] == ["models.inputs", "data.calibration", "data.evaluation"]


OTHERS = {
    "weights.pt": "module:function",
    "weights.safetensors": "module:function",
    "old.h5": "model.save('model.keras')",
    "made.tflite": "[[builds]] file",
    "nets.py": "--model module:function",
    "model.bin": ".onnx, .keras, .pt2",
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_source_model_is_refused_with_what_to_give(
    project: Project, call: Call, name: str
) -> None:
    (project.folder / name).write_bytes(b"content")
    answer = call("init", "--model", name, "-p", "first.toml")
    assert answer.code == 2
    assert OTHERS[name] in answer.err
    assert not (project.folder / "first.toml").exists()


@pytest.mark.parametrize(
    ("model", "word"),
    [
        ("evaluation", "saved_model.pb"),
        ("broken.keras", "no Keras model"),
        ("broken.pt2", "no exported program"),
        ("nets:smal", "'small'"),
        ("nots:small", "no module 'nots'"),
        ("made.mlpackage", "[[builds]] file"),
    ],
)
def test_a_source_that_cannot_be_one_is_refused_before_anything_is_started(
    project: Project, call: Call, model: str, word: str
) -> None:
    (project.folder / "nets.py").write_text("def small(): ...\n", encoding="utf-8")
    (project.folder / "made.mlpackage").mkdir()
    for name in ("broken.keras", "broken.pt2"):
        (project.folder / name).write_bytes(b"content")
    answer = call("init", "--model", model, "-p", "first.toml")
    assert answer.code == 2
    assert word in answer.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "maker"),
    [
        ("keras", "functional"),
        ("keras", "sequential"),
        ("savedmodel", "savedmodel"),
        ("exported_program", "exported_program"),
    ],
)
def test_the_signature_of_each_form_stands_in_the_plan(
    project: Project, call: Call, form: str, maker: str
) -> None:
    subprocess.run([sys.executable, "-c", MAKERS[maker]], check=True, cwd=project.folder, timeout=300)
    model = {"keras": "net.keras", "savedmodel": "net", "exported_program": "net.pt2"}[form]
    answer = call("init", "--model", model, "-p", "first.toml")
    assert answer.code == 0, answer
    plan = read_plan(project.folder / "first.toml")
    assert (plan.models[0].format, plan.models[0].source) == (form, model)
    assert "float32 [" in (project.folder / "first.toml").read_text(encoding="utf-8")


_KERAS = """
import keras
image = keras.Input((8, 8, 3), name="image")
net = keras.Model(image, keras.layers.Conv2D(2, 3)(image))
"""
MAKERS = {
    "functional": f"{_KERAS}\nnet.save('net.keras')",
    "sequential": "import keras\nlayers = [keras.Input((8, 8, 3)), keras.layers.Conv2D(2, 3)]\n"
    "keras.Sequential(layers).save('net.keras')",
    "savedmodel": f"{_KERAS}\nnet.export('net', verbose=False)",
    "exported_program": "import torch\nprogram = torch.export.export(torch.nn.Conv2d(3, 2, 3), "
    "(torch.ones(1, 3, 8, 8),))\ntorch.export.save(program, 'net.pt2')",
}
