"""The host runs real builds: what comes back equals what ONNX Runtime says without phoneproof."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from phoneproof.devices.device import JobResults
from phoneproof.devices.host import HostDevice
from phoneproof.harness.waiting import thread_waits
from phoneproof.protocol.attempts import case_ends
from phoneproof.protocol.events import CaseFinished, JobStarted, RoundFinished
from phoneproof.protocol.job import Job, Keep, SampleSet
from phoneproof.protocol.outputs import read_outputs
from tests.models.jobs import (
    JobFiles,
    benchmark,
    configuration,
    indices,
    infer,
    job_of,
    load,
    run_to_end,
)
from tests.models.small_convolution import convolution, images, int8_input_scaled

MODEL = convolution()


def plain_onnxruntime(
    model: bytes, inputs: list[NDArray[Any]], name: str = "image", optimized: bool = True
) -> list[NDArray[Any]]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return [session.run(None, {name: one})[0] for one in inputs]


def finished(results: JobResults) -> dict[str, CaseFinished]:
    return {event.case_id: event for event in results.events if isinstance(event, CaseFinished)}


def outcomes(job: Job, results: JobResults) -> dict[str, str]:
    return {case_id: end.outcome for case_id, end in case_ends(job, results.events).items()}


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> tuple[Job, JobResults]:
    """Source and onnxruntime, raw samples in three shards and pixels with a table, three kinds of keep."""
    folder = tmp_path_factory.mktemp("several")
    files = JobFiles(folder / "store")
    model = files.model("conv.onnx", MODEL)
    raw = SampleSet("raw", 7, (files.raw_input("image", images(7), shards=(3, 3, 1)),))
    pixels = SampleSet("pixels", 2, (files.table_input("image", PIXELS, TABLE),))
    job = job_of(
        [
            configuration("reference", model, "source"),
            configuration("two-threads", model, threads=2),
            configuration("exact", model, options={"x64quantprecision": "1"}),
            configuration("pixels", model),
        ],
        [raw, pixels],
        [
            load("reference"),
            infer("reference", raw),
            load("two-threads"),
            infer("two-threads", raw, Keep("topk", k=2), first=1, count=4),
            load("exact"),
            infer("exact", raw, Keep("argmax", axis=1)),
            load("pixels"),
            infer("pixels", pixels),
        ],
    )
    device = HostDevice(folder / "jobs")
    results = run_to_end(device, job, files)
    device.close()
    return job, results


PIXELS = np.random.default_rng(5).integers(0, 256, (2, 8, 8, 3), np.uint8)
TABLE = np.random.default_rng(6).standard_normal((3, 256)).astype(np.float32)


def test_every_case_passes_in_one_attempt(several: tuple[Job, JobResults]) -> None:
    job, results = several
    assert set(outcomes(job, results).values()) == {"passed"}
    assert max(event.stamp.attempt for event in results.events) == 1


def test_outputs_equal_plain_onnxruntime(several: tuple[Job, JobResults]) -> None:
    _, results = several
    samples = list(images(7))
    expected = plain_onnxruntime(MODEL, samples, optimized=False)
    kept = dict(read_outputs(results.outputs["infer-reference"]))
    assert sorted(kept) == list(range(7))
    for index, (tensor,) in kept.items():
        np.testing.assert_array_equal(tensor, expected[index])


def test_topk_of_a_range(several: tuple[Job, JobResults]) -> None:
    _, results = several
    expected = plain_onnxruntime(MODEL, list(images(7)))
    kept = dict(read_outputs(results.outputs["infer-two-threads"]))
    assert sorted(kept) == [1, 2, 3, 4]
    for index, (values, places) in kept.items():
        largest = np.sort(expected[index], axis=-1)[..., ::-1][..., :2]
        np.testing.assert_allclose(values, largest, rtol=1e-5)
        assert places.dtype == np.int32


def test_argmax_along_channels(several: tuple[Job, JobResults]) -> None:
    _, results = several
    expected = plain_onnxruntime(MODEL, list(images(7)))
    for index, (places,) in read_outputs(results.outputs["infer-exact"]):
        np.testing.assert_array_equal(places, expected[index].argmax(axis=1))


def test_pixels_go_through_their_table(several: tuple[Job, JobResults]) -> None:
    _, results = several
    looked_up = [
        np.stack([TABLE[c][image[:, :, c]] for c in range(3)])[None].astype(np.float32) for image in PIXELS
    ]
    expected = plain_onnxruntime(MODEL, looked_up)
    kept = dict(read_outputs(results.outputs["infer-pixels"]))
    for index, (tensor,) in kept.items():
        np.testing.assert_array_equal(tensor, expected[index])


def test_what_is_told_of_a_load(several: tuple[Job, JobResults]) -> None:
    _, results = several
    told = finished(results)["load-exact"].measured
    assert told.load_ms is not None
    assert told.load_ms > 0
    assert told.accelerator_actual == "cpu"
    assert told.operators == {"cpu": 2}
    begun = next(event for event in results.events if isinstance(event, JobStarted))
    assert begun.runtimes["onnxruntime"] == ort.__version__
    assert f"onnxruntime {ort.__version__}" in begun.runtimes["source"]


def test_int8_samples_reach_the_build_unchanged(tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    values = np.array([[[-128, -1, 0, 1, 127, 5]], [[9, 8, 7, 6, 5, 4]]], np.int8)
    samples = SampleSet("int8", 2, (files.raw_input("x", values),))
    model = files.model("int8.onnx", int8_input_scaled(0.25, -3))
    job = job_of([configuration("q", model)], [samples], [load("q"), infer("q", samples)])
    results = run_to_end(HostDevice(tmp_path / "jobs"), job, files)
    for index, (tensor,) in read_outputs(results.outputs["infer-q"]):
        np.testing.assert_array_equal(tensor, (values[index].astype(np.float32) + 3) * 0.25)


def test_benchmarks_in_every_interleaving(tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    model = files.model("conv.onnx", MODEL)
    samples = SampleSet("raw", 2, (files.raw_input("image", images(2)),))
    names = ["base", "alone", "pair", "apart"]
    job = job_of(
        [configuration(name, model, threads=1 + (name == "base")) for name in names],
        [samples],
        [
            *map(load, names),
            benchmark("alone", samples, batch_below_ns=2_000_000),
            benchmark("pair", samples, "base", max_runs=4),
            benchmark("apart", samples, "base", "by_process", rounds=2, max_runs=3),
        ],
    )
    results = run_to_end(HostDevice(tmp_path / "jobs"), job, files)
    assert set(outcomes(job, results).values()) == {"passed"}
    rounds: dict[str, list[RoundFinished]] = {}
    for event in results.events:
        if isinstance(event, RoundFinished):
            rounds.setdefault(event.case_id, []).append(event)
    assert {case_id: len(found) for case_id, found in rounds.items()} == {
        "benchmark-alone": 3,
        "benchmark-pair": 3,
        "benchmark-apart": 2,
    }
    # A run of some ten microseconds is timed in batches of at least 2 ms in all.
    assert all(one.candidate_batch > 10 for one in rounds["benchmark-alone"])
    assert all(min(one.visits_ns[0]) > 500_000 for one in rounds["benchmark-alone"])
    assert all([1 <= len(visit) <= 4 for visit in one.visits_ns] for one in rounds["benchmark-pair"])
    # Every visit, in this process or in one of its own, tells what its threads waited, or no visit does.
    waits = [one.waited_ns for found in rounds.values() for one in found]
    if thread_waits() is not None:
        assert [len(one) for one in waits if one is not None] == [1] * 3 + [4] * 5
    else:
        assert set(waits) == {None}
    told = finished(results)
    for case_id in rounds:
        assert told[case_id].measured.first_ms is not None
        assert told[case_id].measured.accelerator_actual == "cpu"
        assert told[case_id].measured.peak_memory_bytes is None
    assert told["benchmark-apart"].measured.baseline_first_ms is not None


def test_a_request_is_refused_rather_than_changed(tmp_path: Path) -> None:
    files = JobFiles(tmp_path / "store")
    model = files.model("conv.onnx", MODEL)
    wrong = files.model("conv.onnx", b"no model")
    samples = SampleSet("raw", 1, (files.raw_input("image", images(1)),))
    others = indices(files, 1)
    job = job_of(
        [
            configuration("option", model, options={"x64quantprecison": "1"}),
            configuration("value", model, options={"x64quantprecision": "yes"}),
            configuration("accelerator", model, accelerator="npu"),
            configuration("absent", model, accelerator="coreml", allow_fallback=True),
            configuration("reference", model, "source", accelerator="coreml"),
            configuration("runtime", model, "no-such-runtime"),
            configuration("corrupt", wrong),
            configuration("good", model),
        ],
        [samples, others],
        [
            *map(load, ("option", "value", "accelerator", "absent", "reference", "runtime", "corrupt")),
            load("good"),
            infer("accelerator", samples),
            infer("good", others),
            benchmark("good", samples),
        ],
    )
    results = run_to_end(HostDevice(tmp_path / "jobs"), job, files)
    ends = case_ends(job, results.events)
    types = {
        case_id: end.bad.error.type for case_id, end in ends.items() if end.bad is not None and end.bad.error
    }
    assert types == {
        "load-option": "ValueError",
        "load-value": "ValueError",
        "load-accelerator": "RuntimeUnavailableError",
        "load-absent": "RuntimeUnavailableError",
        "load-reference": "RuntimeUnavailableError",
        "load-runtime": "RuntimeUnavailableError",
        "load-corrupt": "InvalidProtobuf",
        "infer-good": "ValueError",  # the build has no input `index`
    }
    assert ends["infer-accelerator"].outcome == "not_run"
    assert ends["infer-accelerator"].bad is not None
    assert ends["infer-accelerator"].bad.cause == "load"
    assert ends["benchmark-good"].outcome == "passed"
