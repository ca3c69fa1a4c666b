"""The Keras twin computes what the trained network does, or there is no twin."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phoneproof.demo import train
from phoneproof.demo.agreement import TOLERANCE, check_equal
from phoneproof.errors import DataError, ToolchainError
from phoneproof.workers.worker import WorkerCall, call_worker


def made_twin(out: Path, work: Path) -> dict[str, Any]:
    return call_worker(WorkerCall("phoneproof.demo.twin", {"out": str(out)}, work))


def test_logits_that_differ_or_are_not_finite_are_refused() -> None:
    logits = np.linspace(-9, 9, 40, dtype=np.float32).reshape(4, 10)
    assert check_equal(logits, logits + np.float32(TOLERANCE / 2), "x") <= TOLERANCE
    for wrong in (logits + np.float32(2 * TOLERANCE), logits * np.nan, logits[:3]):
        with pytest.raises(ToolchainError):
            check_equal(logits, wrong, "x")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the first step makes, after one epoch."""
    out = tmp_path_factory.mktemp("twin") / "demo"
    train.make(out, 1, 3, lambda epoch, loss: None)
    return out


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # torch's own, of its exporter
class TestTwin:
    def test_the_twin_has_the_networks_logits_on_every_image(self, trained: Path, tmp_path: Path) -> None:
        out = tmp_path / "demo"
        shutil.copytree(trained, out)
        facts = made_twin(out, tmp_path / "work")
        assert facts["made_now"] is True
        assert facts["images"] == 897
        assert 0 <= facts["largest_difference"] <= TOLERANCE
        assert (out / "digits.keras").is_file()
        assert made_twin(out, tmp_path / "work")["made_now"] is False

    def test_the_same_weights_give_the_same_file_in_any_folder(self, trained: Path, tmp_path: Path) -> None:
        contents = []
        for name in ("first", "second"):
            shutil.copytree(trained, tmp_path / name)
            made_twin(tmp_path / name, tmp_path / f"{name}-work")
            contents.append((tmp_path / name / "digits.keras").read_bytes())
        assert contents[0] == contents[1]

    def test_logits_of_another_network_leave_no_twin(self, trained: Path, tmp_path: Path) -> None:
        out = tmp_path / "demo"
        shutil.copytree(trained, out)
        logits = np.load(out / "digits-logits.npy")
        logits[896, 9] += 3 * TOLERANCE
        np.save(out / "digits-logits.npy", logits)
        with pytest.raises(ToolchainError, match="does not compute"):
            made_twin(out, tmp_path / "work")
        assert not (out / "digits.keras").exists()

    def test_a_file_of_the_users_own_is_left_alone(self, trained: Path, tmp_path: Path) -> None:
        out = tmp_path / "demo"
        shutil.copytree(trained, out)
        (out / "digits.keras").write_bytes(b"mine")
        with pytest.raises(DataError, match="did not make"):
            made_twin(out, tmp_path / "work")
        assert (out / "digits.keras").read_bytes() == b"mine"

    def test_the_module_and_the_weights_are_the_trained_network(self, trained: Path) -> None:
        """As any user of the demo's folder would do it, without phoneproof."""
        import runpy

        import torch
        from safetensors.torch import load_file

        from phoneproof.demo import digits

        network = runpy.run_path(str(trained / "digits_net.py"))["network"]().eval()
        network.load_state_dict(load_file(trained / "digits.safetensors"))
        files = digits.set_files(trained / "evaluation")[:32]
        inputs = digits.model_inputs(digits.read_images(files))
        with torch.inference_mode():
            logits = network(torch.from_numpy(inputs)).numpy()
        np.testing.assert_allclose(logits, np.load(trained / "digits-logits.npy")[:32], atol=TOLERANCE)
        facts = json.loads((trained / "digits.json").read_text(encoding="utf-8"))
        assert sorted(facts["files"]) == sorted(train.FILES)
