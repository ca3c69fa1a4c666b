"""The reference of PyTorch sources, the dispatch by format, and a job of the host harness that runs one."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from phoneproof.devices.host import HostDevice
from phoneproof.errors import RuntimeUnavailableError, SourceModelError
from phoneproof.protocol.attempts import case_ends
from phoneproof.protocol.events import CaseFinished
from phoneproof.protocol.job import SampleSet
from phoneproof.protocol.outputs import read_outputs
from phoneproof.runtimes import source
from phoneproof.runtimes.runtime import LoadRequest
from tests.models.jobs import JobFiles, configuration, infer, job_of, load, run_to_end
from tests.own_path import OWN_PATH
from tests.sources.pt2_archives import images, program, saved

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(program(), tmp_path_factory.mktemp("model") / "model.pt2")


def request(model: Path, accelerator: str = "cpu", **options: str) -> LoadRequest:
    return LoadRequest(model, accelerator, False, 1, options)


def inputs() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    image = draw.standard_normal((1, 3, 8, 8)).astype(np.float32)
    return {"ids": np.ones((1, 6), np.int64), "image": image}


def test_the_program_runs_by_name_and_equals_the_module(model: Path) -> None:
    session = source.load(request(model))
    given = inputs()
    logits, total = session.prepare(given)()
    with torch.no_grad():
        expected = images()(torch.from_numpy(given["image"]), torch.from_numpy(given["ids"]))
    np.testing.assert_array_equal(logits, expected["logits"].numpy())
    np.testing.assert_array_equal(total, expected["total"].numpy())
    assert session.accelerator_actual == "cpu"
    assert session.operators == {"cpu": 7}
    session.close()
    session.close()
    with pytest.raises(ValueError, match="closed"):
        session.prepare(given)


def test_dynamic_axes_take_any_length(tmp_path: Path) -> None:
    session = source.load(request(saved(program(dynamic=True), tmp_path / "d.pt2")))
    image = np.zeros((1, 3, 20, 8), np.float32)
    assert session.prepare({**inputs(), "image": image})()[0].shape == (1, 5)


def test_inputs_are_held_against_the_program(model: Path) -> None:
    session = source.load(request(model))
    given = inputs()
    for wrong in (
        {"image": given["image"]},
        {**given, "more": given["ids"]},
        {**given, "ids": given["ids"].astype(np.int32)},
        {**given, "image": given["image"][:, :, :4]},
    ):
        with pytest.raises(ValueError, match="the build has"):
            session.prepare(wrong)


def test_what_the_reference_refuses(model: Path, tmp_path: Path) -> None:
    with pytest.raises(RuntimeUnavailableError, match="CPU"):
        source.load(request(model, "gpu"))
    with pytest.raises(ValueError, match="option"):
        source.load(request(model, fast="1"))
    with pytest.raises(ValueError, match="'0' or '1'"):
        source.load(request(model, trust_pickle="yes"))
    unknown = tmp_path / "model.bin"
    unknown.write_bytes(b"x")
    with pytest.raises(SourceModelError, match="ending"):
        source.load(request(unknown))


def test_opening_the_reference_imports_no_framework() -> None:
    code = (
        "import sys; from phoneproof.runtimes.registry import open_runtime; open_runtime('source');"
        "assert not {'torch', 'tensorflow', 'onnxruntime'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], env=OWN_PATH, check=True)


@pytest.mark.slow
def test_the_harness_runs_a_reference_job(model: Path, tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    given = [inputs() for _ in range(3)]
    stacked = {name: np.stack([one[name] for one in given]) for name in given[0]}
    samples = SampleSet("raw", 3, tuple(files.raw_input(name, values) for name, values in stacked.items()))
    job = job_of(
        [configuration("reference", files.model("model.pt2", model.read_bytes()), "source")],
        [samples],
        [load("reference"), infer("reference", samples)],
    )
    device = HostDevice(tmp_path / "jobs")
    results = run_to_end(device, job, files)
    device.close()
    assert {end.outcome for end in case_ends(job, results.events).values()} == {"passed"}
    finished = [event for event in results.events if isinstance(event, CaseFinished)]
    assert "cpu" in {event.measured.accelerator_actual for event in finished}
    expected = source.load(request(model)).prepare(inputs())()
    for _, tensors in read_outputs(results.outputs["infer-reference"]):
        for tensor, value in zip(tensors, expected, strict=True):
            np.testing.assert_array_equal(tensor, value)
