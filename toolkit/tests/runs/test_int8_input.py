"""int8 inputs from the data set to the verdict: quantized by scale and zero_point; a raw cast is caught."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from phoneproof.data.values import quantize
from phoneproof.devices.host import HostDevice
from phoneproof.plan.model import read_plan
from phoneproof.protocol.attempts import case_ends
from phoneproof.protocol.job import Case, SampleSet, TableInput, read_job
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.report.model import Report
from phoneproof.runs.run import RunOptions, run
from phoneproof.verify.gates import Limits, OutputParityOf, parity_gate
from phoneproof.verify.outputs import KeptOutputs, output_parities
from phoneproof.verify.verdicts import GateResult
from tests.models.jobs import JobFiles, configuration, infer, job_of, load, run_to_end
from tests.models.onnx_networks import classifier, images, saved
from tests.runs.project import write_project
from tests.toolchains.built import built, ranges_file, request_for

FROM_ARRAYS = """\
[[models]]
name = "tiny"
source = "tiny.onnx"
format = "onnx"

[data]
calibration = { kind = "npz", path = "calibration.npz" }
evaluation = { kind = "npz", path = "evaluation.npz" }

[[builds]]
recipe = "onnx-int8"
io = "int8"

[[devices]]
kind = "host"
threads = 1

[benchmark]
rounds = 10
visit_ms = 5
warmup_ms = 5
"""


def finished(folder: Path, store: Path) -> Report:
    plan = read_plan(folder / "phoneproof.toml")
    report = run(plan, folder / "run", options=RunOptions(store=store)).report
    assert report is not None
    return report


def sample_set_of(folder: Path, build_id: str) -> SampleSet:
    """The samples that the run's job gave to a build."""
    for path in (folder / "run" / "jobs" / "host").glob("*/job.json"):
        job = read_job(path.read_bytes())
        own = {c.configuration_id for c in job.configurations if c.build_id == build_id}
        for case in job.cases:
            if case.kind == "infer" and case.configuration in own:
                return job.sample_set(case.samples)
    raise AssertionError(build_id)


def assert_right(report: Report, build_id: str) -> None:
    (result,) = [r for r in report.results if r.configuration.build_id == build_id]
    assert result.outcomes == {"passed": 3}
    (parity,) = result.parity or ()
    assert parity.n == 20
    assert parity.sqnr_db is not None
    assert parity.sqnr_db > 20
    gates = {gate.id: gate.verdict for gate in result.gates}
    assert gates["parity"] == "pass"


def test_pixels_reach_an_int8_input_through_a_table_in_int8(tmp_path: Path) -> None:
    project = write_project(tmp_path / "project", tmp_path / "store")
    project.change('recipe = "onnx-int8"\n', 'recipe = "onnx-int8"\nio = "int8"\n')
    project.change('[[builds]]\nrecipe = "onnx-int8"\nvariant = "entropy"\nmethod = "entropy"\n', "")
    project.change('[[builds]]\nrecipe = "onnx-int8-dynamic"\n', "")
    report = finished(project.folder, project.store)
    assert_right(report, "tiny/onnx/onnx-int8")
    (one,) = sample_set_of(project.folder, "tiny/onnx/onnx-int8").inputs
    assert isinstance(one, TableInput)
    assert (one.dtype, one.table.size_bytes) == ("int8", 3 * 256)
    (beside,) = sample_set_of(project.folder, "tiny/onnx/onnx-float32").inputs
    assert isinstance(beside, TableInput)
    assert beside.dtype == "float32"
    assert beside.shards == one.shards  # the pixels are stored once for both


def test_real_numbers_reach_an_int8_input_quantized_by_the_data_worker(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    onnx.save(classifier(seed=6, batch=1), str(folder / "tiny.onnx"))
    for name, seed in (("calibration", 1), ("evaluation", 2)):
        np.savez(folder / f"{name}.npz", image=np.stack(images(20, (3, 16, 16), seed)))
    (folder / "phoneproof.toml").write_text(FROM_ARRAYS, encoding="utf-8")
    report = finished(folder, tmp_path / "store")
    assert_right(report, "tiny/onnx/onnx-int8")
    (one,) = sample_set_of(folder, "tiny/onnx/onnx-int8").inputs
    assert (one.kind, one.dtype) == ("raw", "int8")
    manifest = json.loads((folder / "run/builds/tiny/onnx/onnx-int8/build.json").read_text())
    assert manifest["inputs"][0]["dtype"] == "int8"
    assert manifest["inputs"][0]["scale"] > 0


def cast(values: NDArray[np.float32], tensor: TensorSpec) -> NDArray[Any]:
    """What an app does that forgets the scale and the zero point."""
    return values.astype(np.int8)


def cast_pixels(values: NDArray[np.float32], tensor: TensorSpec) -> NDArray[Any]:
    """What an app does that takes the pixels as they are: 0..255 wraps around."""
    return ((values + 1) * 127.5).astype(np.uint8).view(np.int8)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Any], GateResult]:
    """Runs an int8 build on the host with inputs made by a function, and judges its parity."""
    folder = tmp_path_factory.mktemp("cast")
    path = saved(classifier(seed=6, batch=1), folder / "model.onnx")
    values = np.stack(images(20, (1, 3, 16, 16), seed=9))
    ranges = ranges_file(path, [{"image": value} for value in values])
    made = built(request_for(path, "onnx-int8", ranges, io="int8"), folder / "int8")
    (tensor,) = made.manifest.inputs
    assert (tensor.dtype, tensor.scale is not None) == ("int8", True)

    def judge(convert: Callable[[NDArray[np.float32], TensorSpec], NDArray[Any]]) -> GateResult:
        files = JobFiles(folder / convert.__name__)
        sets = [
            SampleSet("float", len(values), (files.raw_input("image", values),)),
            SampleSet("int8", len(values), (files.raw_input("image", convert(values, tensor)),)),
        ]
        configurations = [
            configuration("reference", files.model("source.onnx", path.read_bytes()), "source"),
            configuration("build", files.model("build.onnx", made.content)),
        ]
        cases: list[Case] = [
            load("reference"),
            infer("reference", sets[0]),
            load("build"),
            infer("build", sets[1]),
        ]
        job = job_of(configurations, sets, cases)
        device = HostDevice(folder / convert.__name__ / "jobs")
        try:
            results = run_to_end(device, job, files)
        finally:
            device.close()
        assert {end.outcome for end in case_ends(job, results.events).values()} == {"passed"}
        (name,) = [one.name for one in made.manifest.outputs]
        shape = (1, 5)
        reference = KeptOutputs(results.outputs["infer-reference"], (TensorSpec(name, "float32", shape),))
        build = KeptOutputs(results.outputs["infer-build"], made.manifest.outputs)
        parities = [OutputParityOf(*one) for one in output_parities(reference, build)]
        return parity_gate(parities, "int8", Limits(), None)

    return judge


def test_inputs_that_are_quantized_pass(judged: Callable[[Any], GateResult]) -> None:
    assert judged(quantize).verdict == "pass"


@pytest.mark.parametrize("convert", [cast, cast_pixels])
def test_inputs_that_are_only_cast_fail(judged: Callable[[Any], GateResult], convert: Any) -> None:
    """The build runs without an error, and all of its answers are wrong: only parity tells."""
    found = judged(convert)
    assert found.verdict == "fail"
    assert found.reason.id == "parity_below"
