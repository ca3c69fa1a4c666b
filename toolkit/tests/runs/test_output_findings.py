"""A detector's head, really quantized and really run: scores that share a scale with boxes are lost."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phoneproof.data.values import quantize
from phoneproof.devices.host import HostDevice
from phoneproof.findings import Finding
from phoneproof.protocol.attempts import case_ends
from phoneproof.protocol.job import SampleSet
from phoneproof.runs.output_findings import output_findings
from phoneproof.sources.onnx_model import load_onnx
from phoneproof.verify.output_health import OutputFault
from phoneproof.verify.outputs import KeptOutputs, compared_outputs
from tests.models.detection_networks import joined_head, split_head
from tests.models.jobs import JobFiles, configuration, infer, job_of, load, run_to_end
from tests.models.onnx_networks import images, saved
from tests.runs.test_results import INT8, measurement
from tests.toolchains.built import built, ranges_file, request_for

IMAGE = (1, 3, 16, 16)


def faults_of(
    folder: Path, network: Any, recipe: str = "onnx-int8", **options: Any
) -> dict[str, OutputFault]:
    """Faults by id of a build against its source model, both run by the host harness."""
    path = saved(network, folder / "model.onnx")
    values = np.stack(images(20, IMAGE, seed=9))
    ranges = None if recipe != "onnx-int8" else ranges_file(path, [{"image": value} for value in values])
    made = built(request_for(path, recipe, ranges, **options), folder / "build")
    files = JobFiles(folder / "files")
    (tensor,) = made.manifest.inputs
    given = quantize(values, tensor) if tensor.scale is not None else values
    sets = [
        SampleSet(name, len(values), (files.raw_input("image", one),))
        for name, one in (("reference", values), ("build", given))
    ]
    job = job_of(
        [
            configuration("reference", files.model("source.onnx", path.read_bytes()), "source"),
            configuration("build", files.model("build.onnx", made.content)),
        ],
        sets,
        [case for one in sets for case in (load(one.samples_id), infer(one.samples_id, one))],
    )
    device = HostDevice(folder / "jobs")
    try:
        results = run_to_end(device, job, files)
    finally:
        device.close()
    assert {end.outcome for end in case_ends(job, results.events).values()} == {"passed"}
    reference = KeptOutputs(results.outputs["infer-reference"], load_onnx(path).outputs)
    compared = compared_outputs(reference, KeptOutputs(results.outputs["infer-build"], made.manifest.outputs))
    assert {one.parity.samples for one in compared} == {20}
    return {fault.id: fault for one in compared for fault in one.faults}


def test_a_joined_head_loses_its_scores(tmp_path: Path) -> None:
    found = faults_of(tmp_path, joined_head())
    assert list(found) == ["OUTPUT-SCORES-CRUSHED"]
    facts = found["OUTPUT-SCORES-CRUSHED"].facts
    assert (facts["axis"], facts["slices"], facts["of"]) == (1, "4-9", 10)
    assert facts["levels"] in (1, 2)


def test_an_int8_output_tells_its_scale(tmp_path: Path) -> None:
    facts = faults_of(tmp_path, joined_head(), io="int8")["OUTPUT-SCORES-CRUSHED"].facts
    assert facts["scale"] == pytest.approx(640 / 255, rel=0.1)


SOUND: Mapping[str, tuple[Any, str, dict[str, Any]]] = {
    "split head": (split_head, "onnx-int8", {}),
    "split head, int8 outputs": (split_head, "onnx-int8", {"io": "int8"}),
    "joined in float": (joined_head, "onnx-int8", {"keep_float_names": ["join", "detections"]}),
    "float": (joined_head, "onnx-float32", {}),
    "dynamic": (joined_head, "onnx-int8-dynamic", {}),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_head_that_keeps_its_scores_is_sound(tmp_path: Path, name: str) -> None:
    network, recipe, options = SOUND[name]
    assert faults_of(tmp_path, network(), recipe, **options) == {}


def test_a_fault_becomes_a_finding_on_its_build() -> None:
    fault = OutputFault("OUTPUT-UNCHANGING", {"change": 0.5, "samples": 20, "low": 0.0, "high": 1.0})
    measured = measurement(faults=(("scores", fault), ("boxes", fault)))
    assert list(output_findings(measured)) == [
        Finding.of("OUTPUT-UNCHANGING", INT8, output=name, **fault.facts) for name in ("scores", "boxes")
    ]
