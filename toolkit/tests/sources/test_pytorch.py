"""A Python function as a source model: imported, given its state, exported, and held against the program."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import safetensors.torch
import torch

from phoneproof.errors import SourceModelError
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import Progress
from phoneproof.quantize.torch_graph import prepare
from phoneproof.sources.agreement import disagreement, sqnr_db, trial_inputs
from phoneproof.sources.export_onnx import export, onnx_of
from phoneproof.sources.exported_program import load_program
from phoneproof.sources.inspect import inspect
from phoneproof.sources.onnx_model import load_onnx
from phoneproof.sources.python_module import code_files, module_of
from phoneproof.sources.pytorch import export_to
from phoneproof.sources.request import ExportedProgramRequest, PytorchSourceRequest
from tests.own_path import OWN_PATH
from tests.sources.pt2_archives import Touch

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

CODE = Path(__file__).parents[1] / "models" / "user_code"
IMAGE = TensorSpec("image", "float32", (1, 3, 8, 8))
IDS = TensorSpec("ids", "int64", (1, 6))


def request(function: str, *inputs: TensorSpec, **more: Any) -> PytorchSourceRequest:
    return PytorchSourceRequest(
        "pytorch", f"small_networks:{function}", str(CODE), inputs or (IMAGE,), **more
    )


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    export_to(request("classifier", IMAGE, IDS, outputs=("logits", "total")), folder)
    return folder / "model.pt2"


def test_the_inspection_exports_and_says_what_the_source_is(tmp_path: Path) -> None:
    asked = {
        "format": "pytorch",
        "path": "small_networks:classifier",
        "folder": str(CODE),
        "inputs": [
            {"name": "image", "dtype": "float32", "shape": [1, 3, 8, 8]},
            {"name": "ids", "dtype": "int64", "shape": [1, 6]},
        ],
    }
    facts = inspect(asked, tmp_path, Progress(tmp_path))
    assert [one["name"] for one in facts["inputs"]] == ["image", "ids"]
    assert [one["name"] for one in facts["outputs"]] == ["output_0", "output_1"]
    assert [one["name"] for one in facts["files"]] == ["small_networks.py"]
    assert facts["operators"]["conv2d"] == 2
    program = inspect(
        {"format": "exported_program", "path": str(tmp_path / facts["exported"]["name"])},
        tmp_path,
        Progress(tmp_path),
    )
    assert program["sha256"] == facts["sha256"]
    every = prepare(torch.export.load(tmp_path / "model.pt2")).operators.values()
    assert facts["called"] == program["called"]
    assert set(facts["called"]["names"]) == {name for one in every for name in one.names}
    assert set(facts["called"]["types"]) == {kind for one in every for kind in one.types}
    assert {"conv2d", "Conv2d"} <= set(facts["called"]["types"])
    assert str(CODE).encode() not in (tmp_path / "model.pt2").read_bytes()


@pytest.mark.slow
def test_every_process_exports_the_same_bytes(exported: Path, tmp_path: Path) -> None:
    """Weights that the function draws without a seed of its own are the same in each worker."""
    digests = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        asked = {"format": "pytorch", "path": "small_networks:convolutions", "folder": str(CODE)}
        inputs = [{"name": "x", "dtype": "float32", "shape": [1, 3, 16, 16]}]
        (folder / "request.json").write_text(json.dumps({**asked, "inputs": inputs}))
        command = [sys.executable, "-m", "phoneproof.sources.inspect", str(folder / "request.json")]
        subprocess.run(command, env=OWN_PATH, check=True, capture_output=True)
        digests.append(json.loads((folder / "result.json").read_text())["exported"]["sha256"])
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("branch", "torch.export cannot export"),
        ("dropout", "other outputs for the same input"),
        ("training", "running_mean"),
        ("python_random", "does not compute what the module does"),
        ("fails", r"KeyError: 'no such width'"),
        ("fails_in_forward", "RuntimeError"),
        ("no_module", "gives dict, not a torch.nn.Module"),
        ("a_value", "something else than a function"),
        ("missing", "has no function 'missing'"),
    ],
)
def test_what_is_no_source_model(function: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SourceModelError, match=said) as raised:
        export_to(request(function), tmp_path)
    assert raised.value.next_step


def test_an_error_of_the_users_names_its_line(tmp_path: Path) -> None:
    with pytest.raises(SourceModelError) as raised:
        module_of(request("fails"))
    lines = (CODE / "small_networks.py").read_text().splitlines()
    line = next(i for i, text in enumerate(lines, 1) if "no such width" in text)
    assert f"small_networks.py line {line}" in str(raised.value.where)


def test_modules_that_cannot_be_imported(tmp_path: Path) -> None:
    (tmp_path / "needs_more.py").write_text("import no_such_package\n")
    (tmp_path / "json.py").write_text("def make(): ...\n")
    for path, said in (
        ("nowhere:make", "no module 'nowhere'"),
        ("needs_more:make", "No module named 'no_such_package'"),
        ("json:make", "hides yours"),
        ("json", "module:function"),
    ):
        with pytest.raises(SourceModelError, match=said):
            module_of(PytorchSourceRequest("pytorch", path, str(tmp_path), (IMAGE,)))


@pytest.mark.parametrize("inputs", [(IMAGE,), (IMAGE, IDS, IDS, IDS)])
def test_another_number_of_inputs_names_forwards_parameters(
    inputs: tuple[TensorSpec, ...], tmp_path: Path
) -> None:
    with pytest.raises(SourceModelError, match=r"forward takes \(x: .*, y: .*, scale"):
        export_to(request("classifier", *inputs), tmp_path)


def test_an_input_that_is_no_name_or_has_a_batch(tmp_path: Path) -> None:
    for spec, said in (
        (TensorSpec("in.1", "float32", (1, 3, 16, 16)), "Python variable"),
        (TensorSpec("x", "float32", (2, 3, 16, 16)), "batch"),
    ):
        with pytest.raises(SourceModelError, match=said):
            export_to(request("convolutions", spec), tmp_path)


def state_file(folder: Path, name: str, state: Any) -> Path:
    path = folder / name
    if path.suffix == ".safetensors":
        safetensors.torch.save_file(state, path)
    else:
        torch.save(state, path)
    return path


@pytest.mark.parametrize("name", ["state.pt", "state.safetensors"])
def test_the_state_is_loaded_strictly(name: str, tmp_path: Path) -> None:
    state = {
        key: torch.ones_like(value) for key, value in module_of(request("classifier")).state_dict().items()
    }
    path = state_file(tmp_path, name, state)
    module = module_of(request("classifier", state=str(path)))
    assert all(bool((value == 1).all()) for value in module.state_dict().values())
    state["extra"] = state.pop("fc.bias")
    with pytest.raises(SourceModelError, match=r"lacks fc\.bias and has extra"):
        module_of(request("classifier", state=str(state_file(tmp_path, name, state))))
    state["fc.bias"] = torch.ones(7)
    del state["extra"]
    with pytest.raises(SourceModelError, match="does not fit"):
        module_of(request("classifier", state=str(state_file(tmp_path, name, state))))


def test_a_state_that_runs_code_needs_trust(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    path = state_file(tmp_path, "state.pt", {"fc.bias": Touch(marker)})
    with pytest.raises(SourceModelError, match="trust_pickle = true"):
        module_of(request("classifier", state=str(path)))
    assert not marker.exists()
    with pytest.raises(SourceModelError):  # it is read now, and is no state of this module
        module_of(request("classifier", state=str(path), trust_pickle=True))
    assert marker.exists()


def test_files_that_hold_no_state(tmp_path: Path) -> None:
    whole = state_file(tmp_path, "whole.pt", {"epoch": 3, "model": {"fc.bias": torch.ones(5)}})
    damaged = tmp_path / "damaged.pt"
    damaged.write_bytes(whole.read_bytes()[:300])
    tensors = tmp_path / "damaged.safetensors"
    tensors.write_bytes(b"\x00" * 40)
    alone = state_file(tmp_path, "alone.pt", torch.ones(2))
    for path, said in (
        (whole, r"several parts \(epoch, model\)"),
        (damaged, "cannot be read"),
        (tensors, "damaged"),
        (alone, "Tensor, not a state dict"),
        (tmp_path / "missing.pt", "does not exist"),
    ):
        with pytest.raises(SourceModelError, match=said):
            module_of(request("classifier", state=str(path)))


def test_agreement_is_measured_and_small_integers_may_be_refused() -> None:
    specs = (IMAGE, IDS)
    assert [[one.dtype.name for one in inputs] for inputs in trial_inputs(specs)] == [
        ["float32", "int64"]
    ] * 3

    def picky(inputs: Any) -> Any:
        if inputs[1].any():
            raise IndexError("out of range")
        return [inputs[0]]

    assert disagreement(picky, picky, specs, 80.0) is None
    noisy = disagreement(lambda x: [x[0]], lambda x: [x[0] * np.float32(1.01)], specs, 80.0)
    assert noisy == "output 0 has a signal to noise ratio of 40.0 dB"
    assert disagreement(lambda x: [x[1]], lambda x: [x[1] + 1], specs, 80.0) == "output 0 has other integers"
    nan = np.array([1.0, np.nan])
    assert sqnr_db(nan, nan) == float("inf")
    assert sqnr_db(nan, np.array([np.nan, 1.0])) == -float("inf")


@pytest.mark.slow
def test_the_onnx_export_is_the_program_under_the_modules_names(exported: Path, tmp_path: Path) -> None:
    source = {"format": "exported_program", "path": str(exported), "outputs": ["logits", "total"]}
    result = export({"source": source, "out": "m.onnx"}, tmp_path, Progress(tmp_path))
    model = load_onnx(tmp_path / "m.onnx")
    assert model.sha256 == result["sha256"]
    assert [spec.name for spec in (*model.inputs, *model.outputs)] == ["image", "ids", "logits", "total"]
    names = {node.name for node in model.model.graph.node}
    assert {"features.0", "features.1", "features.2", "block", "tokens", "fc"} <= names
    assert not any(node.metadata_props or node.doc_string for node in model.model.graph.node)
    again = export({"source": source, "out": "again.onnx"}, tmp_path, Progress(tmp_path))
    assert again["sha256"] == result["sha256"]


@pytest.mark.slow
def test_an_export_that_computes_something_else_is_refused(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from phoneproof.errors import ToolchainError
    from phoneproof.sources import export_onnx

    def miscompiled(source: Any) -> Any:
        model = onnx_of(source)
        bias = next(tensor for tensor in model.graph.initializer if tensor.name == "fc.bias")
        bias.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(bias) + 1e-2, "fc.bias"))
        return model

    monkeypatch.setattr(export_onnx, "onnx_of", miscompiled)
    with pytest.raises(ToolchainError, match="does not compute what the program does"):
        export(
            {"source": {"format": "exported_program", "path": str(exported)}}, tmp_path, Progress(tmp_path)
        )


def test_the_exported_file_is_the_source_that_was_inspected(exported: Path, tmp_path: Path) -> None:
    source = load_program(ExportedProgramRequest("exported_program", str(exported)))
    asked = request("classifier", IMAGE, IDS, sha256=source.sha256)
    assert export_to(asked, tmp_path).sha256 == source.sha256
    with pytest.raises(SourceModelError, match="changed since"):
        export_to(request("classifier", IMAGE, IDS, sha256="0" * 64), tmp_path)


def test_only_files_that_are_there_are_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.classes names itself `_classes.py`, which looked like a file of a work folder."""
    (tmp_path / "lies_above.py").write_text("import torch\nnetwork = torch.nn.Identity\n", encoding="utf-8")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(sys, "path", list(sys.path))
    asked = PytorchSourceRequest("pytorch", "lies_above:network", str(tmp_path), (IMAGE,))
    module_of(asked)
    assert not Path(torch.classes.__file__).is_absolute()
    assert code_files(asked) == ((tmp_path / "lies_above.py").resolve(),)
    del sys.modules["lies_above"]
