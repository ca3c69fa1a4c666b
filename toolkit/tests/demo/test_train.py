"""`python -m phoneproof.demo.train`: the program as a user starts it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

from phoneproof.data.pixels import pixels
from phoneproof.data.preprocessing import Preprocess
from phoneproof.data.values import apply, value_map
from phoneproof.demo import digits, train


def run(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "phoneproof.demo.train", "--out", str(out), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def facts_in(out: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((out / "digits.json").read_text(encoding="utf-8"))
    return facts


def logits_of_files(out: Path, files: list[Path]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """As any user of the demo's folder would do it: only its files and the declared preprocessing."""
    preprocess = Preprocess.from_dict(facts_in(out)["preprocess"])
    table = value_map(preprocess).astype(np.float32)
    session = onnxruntime.InferenceSession(out / "digits.onnx", providers=["CPUExecutionProvider"])
    logits = []
    for file in files:
        with Image.open(file) as image:
            value = apply(pixels(image, preprocess)[np.newaxis], table, preprocess.layout)
        logits.append(session.run(["logits"], {"image": value})[0])
    return np.concatenate(logits)


def test_a_folder_with_other_things_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "calibration" / "mine.png"
    mine.parent.mkdir()
    mine.write_bytes(b"mine")
    refused = run(tmp_path)
    assert refused.returncode == 2
    assert "calibration, which the demo did not make" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert mine.read_bytes() == b"mine"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo") / "out"
    finished = run(out)
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    return out


@pytest.mark.slow
class TestMade:
    def test_the_network_reads_more_than_95_percent_of_unseen_digits(self, made: Path) -> None:
        files = sorted((made / "evaluation").rglob("*.png"))
        labels = np.array([int(file.parent.name) for file in files])
        accuracy = float((logits_of_files(made, files).argmax(axis=1) == labels).mean())
        assert len(files) == 897
        assert accuracy > 0.95
        assert accuracy == facts_in(made)["model"]["evaluation_accuracy"]

    def test_old_runtimes_can_load_the_model(self, made: Path) -> None:
        model = onnx.load(made / "digits.onnx", load_external_data=False)
        onnx.checker.check_model(model, full_check=True)
        assert model.ir_version <= 10
        assert [(entry.domain, entry.version <= 22) for entry in model.opset_import] == [("", True)]
        assert not any(tensor.external_data for tensor in model.graph.initializer)
        parameters = sum(int(np.prod(tensor.dims)) for tensor in model.graph.initializer)
        assert 250_000 < parameters < 350_000

    def test_the_model_names_no_place_on_this_machine(self, made: Path) -> None:
        content = (made / "digits.onnx").read_bytes()
        for place in (b"site-packages", b".py", str(Path.home()).encode() + b"/", str(made).encode()):
            assert place not in content

    def test_nothing_but_the_named_files_is_left(self, made: Path) -> None:
        names = sorted(path.name for path in made.iterdir())
        assert names == sorted(["calibration", "digits.json", "evaluation", *train.FILES])

    def test_a_second_run_makes_nothing_anew(self, made: Path) -> None:
        before = (made / "digits.onnx").stat()
        again = run(made)
        after = (made / "digits.onnx").stat()
        assert "is up to date" in again.stdout
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    def test_a_changed_or_missing_file_is_noticed(self, made: Path) -> None:
        request = facts_in(made)["request"]
        assert train.is_complete(made, request)
        image = next((made / "evaluation").rglob("*.png"))
        content = image.read_bytes()
        image.unlink()
        assert not train.is_complete(made, request)
        image.write_bytes(content)
        assert train.is_complete(made, request)
        assert not train.is_complete(made, {**request, "seed": 1})


@pytest.mark.slow
def test_the_same_seed_gives_the_same_file_in_any_folder(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "deeper" / "second"
    for out in (first, second):
        finished = run(out, "--epochs", "1", "--seed", "3")
        assert finished.returncode == 0, finished.stderr
    for name in train.FILES:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    assert facts_in(first) == facts_in(second)


def test_what_the_demo_declares_survives_its_facts_file() -> None:
    declared = json.loads(json.dumps(digits.PREPROCESS.to_dict()))
    assert Preprocess.from_dict(declared) == digits.PREPROCESS
