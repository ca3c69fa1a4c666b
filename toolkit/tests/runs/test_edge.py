"""Edge inputs in runs: with the real harness and runtimes that inputs break, and on a simulated host."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from PIL import Image

from phoneproof.devices.device import Device
from phoneproof.devices.host import HostDevice
from phoneproof.devices.supervisor import HarnessCommand
from phoneproof.findings import Finding
from phoneproof.plan.model import read_plan
from phoneproof.protocol.job import Configuration, InferCase, read_job
from phoneproof.report.edge import EdgeResult
from phoneproof.report.model import Report, Result
from phoneproof.runs.run import ExitCode, RunOptions, run
from phoneproof.verify.verdicts import Reason
from tests.models.onnx_networks import NetworkBuilder
from tests.runs.project import Project, report_of, write_project
from tests.runs.shared import Finished
from tests.runs.simulated_host import FLOAT, INT8, INT8_ID, Ended, Scene, answer, end_of, only_int8

SIMULATED = Path(__file__).parents[1] / "simulated"
FAULTY = HarnessCommand(
    python_path=(SIMULATED,),
    runtimes={"onnxruntime": "edge_faults:runtime", "source": "edge_faults:source"},
)
BLACK, WHITE = {"black", "zeros", "lowest"}, {"white", "highest"}
"""Alike in the network's input: the data have the levels 0 and 255."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The tiny project with one int8 build, so one job with two builds."""
    folder = tmp_path_factory.mktemp("edge")
    return only_int8(write_project(folder / "project", folder / "store"))


@pytest.fixture(scope="module")
def broken(project: Project) -> Report:
    """The report of a run with the real harness, whose runtimes break on some inputs."""
    own = project.copy(project.folder.with_name("broken"), project.store)
    own.plan_path.write_text(own.plan_path.read_text() + "\n[limits]\nsample_timeout_s = 1.0\n")

    def host(root: Path) -> Device:
        return HostDevice(root, FAULTY)

    done = run(read_plan(own.plan_path), own.folder / "run", options=RunOptions(store=own.store, host=host))
    assert done.report is not None
    assert done.exit_code == ExitCode.FAIL
    return done.report


def result(report: Report, build_id: str) -> Result:
    (found,) = [one for one in report.results if one.configuration.build_id == build_id]
    return found


def by_name(found: Result) -> dict[str, EdgeResult]:
    named = {one.name: one for one in found.edge_results}
    assert len(named) == len(found.edge_results)
    return named


def finding(report: Report, id: str, subject: str) -> Finding:
    (found,) = [one for one in report.findings if (one.id, one.subject) == (id, subject)]
    return found


@pytest.mark.parametrize("build_id", [FLOAT, INT8])
def test_what_breaks_is_pinned_to_its_input_and_the_rest_are_run(broken: Report, build_id: str) -> None:
    found = result(broken, build_id)
    named = by_name(found)
    assert {name for name, one in named.items() if one.verdict == "fail"} == {"nan", "huge", *WHITE}
    assert (named["nan"].outcome, named["nan"].reason) == (
        "crashed",
        Reason.of("edge_crashed", cause="signal 11"),
    )
    assert (named["huge"].outcome, named["huge"].reason.id) == ("timed_out", "edge_hung")
    assert {named[name].reason.id for name in WHITE} == {"edge_constant"}
    assert named["white"].reason.facts["value"] == 0.25
    assert named["minus_infinity"].outcome == "passed"  # it comes after both
    assert found.edge == {"passed": 20, "timed_out": 1, "crashed": 1}


def test_edge_inputs_count_for_nothing_else(broken: Report) -> None:
    found = result(broken, INT8)
    gates = {gate.id: gate.verdict for gate in found.gates}
    assert gates == {"outcomes": "pass", "fallback": "pass", "parity": "pass", "edge": "fail"}
    assert (found.verdict, found.reason.id) == ("fail", "edge_failed")
    assert set(found.reason.facts["inputs"]) == {"nan", "huge", *WHITE}  # type: ignore[arg-type]
    assert set(found.outcomes) == {"passed"}
    assert not [case for case in found.cases if "edge" in case.case_id]
    assert found.latency is not None
    assert found.accuracy is not None
    assert found.accuracy.n == 20


def test_a_finding_for_each_kind_of_failure(broken: Report) -> None:
    crash = finding(broken, "EDGE-CRASH", INT8)
    assert crash.facts["inputs"] == ("huge", "nan")
    assert crash.facts["causes"] == ("timed_out", "signal 11")
    assert set(finding(broken, "EDGE-CONSTANT", INT8).facts["inputs"]) == WHITE  # type: ignore[arg-type]
    refused = finding(broken, "EDGE-REFUSED", "tiny/onnx")
    assert "alpha: The image is partly transparent" in str(refused.facts["inputs"])
    assert {"EDGE-CRASH", "EDGE-CONSTANT"} <= set(result(broken, INT8).findings)


def test_a_source_model_that_dies_is_pinned_too_and_not_kept(broken: Report, project: Project) -> None:
    """That it died may have been the machine, so the next run asks it again."""
    for name in BLACK:
        one = by_name(result(broken, INT8))[name]
        assert (one.outcome, one.verdict) == ("passed", "inconclusive")
        assert one.reason == Reason.of("edge_not_compared", why="reference_crashed")
    told = finding(broken, "EDGE-REFERENCE", "tiny/onnx").facts["inputs"]
    assert set(told) == {f"{name}: crashed" for name in BLACK}  # type: ignore[arg-type]
    kept = [json.loads(path.read_text()) for path in (project.store / "references").glob("*/ends.json")]
    assert not [end for ends in kept for bad in ends.values() for end in bad.values()]


def test_the_report_lists_what_was_tried_with_thumbnails_of_images(broken: Report) -> None:
    listed = {one.name: one for one in broken.edge_inputs}
    assert set(listed) == set(by_name(result(broken, INT8)))
    assert all((one.thumbnail is not None) == (one.width == 12) for one in listed.values())
    assert listed["checkerboard"].thumbnail is not None
    assert listed["over_bright"].thumbnail is not None  # the plan lets the data leave
    assert (listed["nan"].range, listed["nan"].thumbnail) == ("not_finite", None)
    assert (listed["huge"].range, listed["zeros"].range) == ("out_of_range", "in_range")


TOKENS = """\
[[models]]
name = "words"
source = "words.onnx"
format = "onnx"

[data]
evaluation = { kind = "npz", path = "evaluation.npz" }

[[builds]]
recipe = "onnx-int8-dynamic"

[[devices]]
kind = "host"

[benchmark]
rounds = 10
visit_ms = 5
warmup_ms = 5
"""


def write_words(folder: Path) -> None:
    """A bag of words: the mean of the rows of a table of 20 words, by a mask; of nothing it is 0 / 0."""
    build = NetworkBuilder()
    rng = np.random.default_rng(0)
    rows = build.op(
        "Gather", [build.weight("table", rng.normal(size=(20, 8)).astype(np.float32)), "ids"], "rows"
    )
    last, middle = (build.weight(f"axis{n}", np.array([n], np.int64)) for n in (2, 1))
    mask = build.op("Unsqueeze", [build.op("Cast", ["mask"], "cast", to=1), last], "column")
    total = build.op("ReduceSum", [build.op("Mul", [rows, mask], "kept"), middle], "total", keepdims=0)
    mean = build.op("Div", [total, build.op("ReduceSum", [mask, middle], "count", keepdims=0)], "mean")
    y = build.gemm(mean, "head", 8, 3)
    model = build.model({"ids": [1, 6], "mask": [1, 6]}, {y: [1, 3]})
    for one in model.graph.input:
        one.type.tensor_type.elem_type = onnx.TensorProto.INT64
    onnx.save(model, str(folder / "words.onnx"))
    lengths = rng.integers(2, 7, 30)
    mask_rows = (np.arange(6) < lengths[:, np.newaxis]).astype(np.int64)
    ids = rng.integers(1, 20, (30, 6)) * mask_rows
    np.savez(folder / "evaluation.npz", ids=ids, mask=mask_rows)


@pytest.mark.slow
def test_token_ids_of_a_real_model(tmp_path: Path) -> None:
    write_words(tmp_path)
    (tmp_path / "phoneproof.toml").write_text(TOKENS)
    plan = read_plan(tmp_path / "phoneproof.toml")
    report = run(plan, tmp_path / "run", options=RunOptions(store=tmp_path / "store")).report
    assert report is not None
    for one in report.results:
        named = by_name(one)
        assert set(named) == {"empty", "longest", "out_of_vocabulary@ids", "negative_id@ids"}
        assert named["empty"].reason.id == "edge_reference_nonfinite"
        assert named["longest"].reason.id == "edge_passed"
        unknown = named["out_of_vocabulary@ids"]
        assert (unknown.outcome, unknown.verdict, unknown.reason.id) == ("failed", "pass", "edge_refused")
        assert "out of data bounds" in str(unknown.reason.facts["error"])
        assert {gate.id: gate.verdict for gate in one.gates}["edge"] == "pass"
    told = finding(report, "EDGE-REFERENCE", "words/onnx").facts["inputs"]
    assert told == ("empty: not finite",)
    assert not any(one.id == "EDGE-VOCABULARY-GUESSED" for one in report.findings), "the table has 20 rows"


def test_builds_that_take_everything_pass(finished: Finished) -> None:
    """With the real runtime: ONNX Runtime survives all of it, and its builds keep to their error."""
    for one in report_of(finished.run)["results"]:
        assert {gate["id"]: gate["verdict"] for gate in one["gates"]}["edge"] == "pass", one["edge_results"]
        assert set(one["edge"]) == {"passed"}


# --- On a simulated host, whose network is always right ---


def play(project: Project, tmp_path: Path, scene: Scene, extra: str = "", **files: Any) -> Ended:
    own = project.copy(tmp_path / "project", project.store)
    own.plan_path.write_text(own.plan_path.read_text() + extra)
    return end_of(own, scene, own.folder / "run")


SINGLE_PIXEL = np.array([200, 100, 50], np.float32) / 255
"""The levels of `one_by_one`: a little darker than the middle."""


def flips(configuration: Configuration, inputs: Mapping[str, NDArray[Any]]) -> Any:
    """The int8 build takes black, and the single pixel, for light."""
    (image,) = inputs.values()
    (scores,) = answer(configuration, inputs)
    is_odd = not image.any() or np.allclose(image, SINGLE_PIXEL[:, np.newaxis, np.newaxis], atol=1e-3)
    return (scores[:, ::-1] if "int8" in configuration.build_id and is_odd else scores,)


def test_a_flip_is_judged_by_the_error_on_the_evaluation_set(project: Project, tmp_path: Path) -> None:
    ended = play(project, tmp_path, Scene(answer=flips))
    found = by_name(ended.result(INT8))
    flipped = found["one_by_one"]
    assert (flipped.verdict, flipped.reason.id) == ("fail", "edge_flipped")
    facts = flipped.reason.facts
    assert (facts["reference"], facts["build"], facts["samples"]) == (0, 1, 20)
    assert facts["margin"] == pytest.approx(1 - 2 * SINGLE_PIXEL.mean(), abs=0.01)
    assert 0 < facts["error"] < 0.02  # type: ignore[operator]
    # Half way between the classes it may answer as it likes.
    assert found["mid_grey"].verdict == "pass"
    # Of no sample of the set is float as sure as of black.
    assert (found["black"].verdict, found["black"].reason.id) == ("pass", "edge_flipped_beyond")
    assert set(finding(ended.report, "EDGE-BEYOND-DATA", INT8).facts["inputs"]) == BLACK  # type: ignore[arg-type]
    assert finding(ended.report, "EDGE-FLIPPED", INT8).facts["inputs"] == ("one_by_one",)


def raises_as_source(configuration: Configuration, inputs: Mapping[str, NDArray[Any]]) -> Any:
    (image,) = inputs.values()
    if configuration.runtime == "source" and not image.any():
        raise ValueError("no light")
    return answer(configuration, inputs)


def test_where_the_source_model_raises_nothing_is_decided(project: Project, tmp_path: Path) -> None:
    # Without one of them the set is another, so what a source model gave in other tests is not taken.
    ended = play(project, tmp_path, Scene(answer=raises_as_source), '\n[edge]\nskip = ["grey"]\n')
    black = by_name(ended.result(INT8))["black"]
    assert (black.outcome, black.verdict) == ("passed", "inconclusive")
    assert black.reason == Reason.of("edge_not_compared", why="reference_raised")
    assert ended.gates(INT8)["edge"] == "inconclusive"
    assert ended.exit_code == ExitCode.INCONCLUSIVE


def test_edge_inputs_are_run_after_the_evaluation_set_and_before_the_benchmarks(
    project: Project, tmp_path: Path
) -> None:
    ended = play(project, tmp_path, Scene())
    jobs = [read_job(path.read_bytes()) for path in (ended.folder / "jobs" / "host").glob("*/job.json")]
    (job,) = [job for job in jobs if any(c.runtime == "onnxruntime" for c in job.configurations)]
    ids = [case.case_id for case in job.cases]
    assert ids[:4] == ["c000.load", "c000.infer", "c000.edge-images", "c000.edge-values"]
    assert ids[-2:] == ["c000.benchmark", "c001.benchmark"]
    (images,) = [c for c in job.cases if c.case_id == f"{INT8_ID}.edge-images"]
    assert isinstance(images, InferCase)
    assert images.count == 14
    assert job.limits.max_attempts == 50 + 4 * job.limits.bad_samples_per_case


def test_none_are_run_where_the_plan_says_so(project: Project, tmp_path: Path) -> None:
    ended = play(project, tmp_path, Scene(), "\n[edge]\nrun = false\n")
    assert "edge" not in ended.gates(INT8)
    assert (ended.result(INT8).edge, ended.result(INT8).edge_results) == ({}, ())
    assert ended.report.edge_inputs == ()
    missing = {one.what: one.reason for one in ended.report.not_measured}
    assert missing["edge inputs"] == Reason.of("not_measured", why="not_asked")


def test_changing_them_builds_nothing_again(project: Project, tmp_path: Path) -> None:
    first = play(project, tmp_path / "a", Scene())
    second = play(project, tmp_path / "b", Scene(), '\n[edge]\nskip = ["black", "nan"]\n')
    assert all(build.cached for build in second.report.builds)
    left = set(by_name(first.result(INT8))) - set(by_name(second.result(INT8)))
    assert left == {"black", "nan"}
    steps = [json.loads(line) for line in (second.folder / "journal.jsonl").read_text().splitlines()]
    done = [one["step"] for one in steps if one["entry"] == "step_finished"]
    assert "job/reference/tiny/onnx@edge" in done
    assert "job/reference/tiny/onnx" not in done


OWN = '\n[edge]\nskip = ["very_large"]\nown = { kind = "image_folder", path = "hard" }\n'


@pytest.mark.parametrize("may_leave", [True, False])
def test_own_samples_are_edge_inputs_too(project: Project, tmp_path: Path, may_leave: bool) -> None:
    own = project.copy(tmp_path / "project", project.store)
    (own.folder / "hard").mkdir()
    for name in ("cat.png", "dog.png"):
        Image.fromarray(np.full((20, 30, 3), len(name), np.uint8)).save(own.folder / "hard" / name)
    (own.folder / "hard" / "torn.png").write_bytes(b"no image")
    text = own.plan_path.read_text() + OWN
    own.plan_path.write_text(text if may_leave else text.replace("may_leave = true", "may_leave = false"))
    ended = end_of(own, Scene(), own.folder / "run")
    listed = [one for one in ended.report.edge_inputs if one.own]
    expected = ["own/cat.png", "own/dog.png"] if may_leave else ["own/0", "own/1"]
    assert [one.name for one in listed] == expected
    assert all((one.thumbnail is not None) is may_leave for one in listed)
    assert set(expected) <= set(by_name(ended.result(INT8)))
    (bright,) = [one for one in ended.report.edge_inputs if one.name == "over_bright"]
    assert (bright.thumbnail is not None) is may_leave  # a sample can be seen in it
    told = str(finding(ended.report, "EDGE-REFUSED", "tiny/onnx").facts["inputs"])
    assert ("torn.png" in told) is may_leave
    if not may_leave:
        whole = (ended.folder / "report" / "report.json").read_text()
        assert "cat.png" not in whole
