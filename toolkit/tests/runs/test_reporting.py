"""The report of runs that went well, and of those in which a part failed: all follow the schema."""

import itertools
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jsonschema
import numpy as np
import pytest
from numpy.typing import NDArray

from phoneproof.devices.simulated import Fault, Loading
from phoneproof.plan.model import read_plan
from phoneproof.protocol.job import Configuration, read_job
from phoneproof.protocol.schema_files import schema_text
from phoneproof.runs.run import ExitCode, RunOptions, run
from phoneproof.verify.verdicts import Reason
from tests.runs.project import Project, write_project
from tests.runs.simulated_host import (
    FLOAT,
    FLOAT_ID,
    INT8,
    INT8_ID,
    Ended,
    Scene,
    answer,
    end_of,
    only_int8,
    ran_on,
)

SCHEMA = jsonschema.Draft202012Validator(json.loads(schema_text("report")))
GATES = "accuracy_drop_max = 0.2\nspeedup_min = 1.2\nsize_ratio_max = 5.0\nlatency_max_ms = 10.0"

Play = Callable[..., Ended]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The tiny project with one int8 build and all gates; its store is shared by the runs of this module."""
    folder = tmp_path_factory.mktemp("reporting")
    return only_int8(write_project(folder / "project", folder / "store"), GATES)


@pytest.fixture(scope="module")
def play(project: Project) -> Play:
    """Plays a scene and checks its report.json: in a copy of the project if its plan is changed, else in a
    copy of a run that has its builds already.
    """
    numbers = itertools.count()
    built = project.folder / "run-built"
    run(read_plan(project.plan_path), built, options=RunOptions(until="build", store=project.store))

    def played(scene: Scene, *changes: tuple[str, str], files: Mapping[str, str] | None = None) -> Ended:
        number = next(numbers)
        own, out = project, built.with_name(f"run-{number}")
        if changes:
            own = project.copy(project.folder.with_name(f"project-{number}"), project.store)
            out = own.folder / "run"
        else:
            shutil.copytree(built, out)
        for old, new in changes:
            own.change(old, new)
        for name, text in (files or {}).items():
            (own.folder / name).write_text(text, encoding="utf-8")
        ended = end_of(own, scene, out)
        SCHEMA.validate(json.loads((ended.folder / "report" / "report.json").read_text()))
        assert (ended.folder / "report" / "index.html").stat().st_size > 10_000
        return ended

    return played


def missing(ended: Ended) -> dict[str, Reason]:
    return {one.what: one.reason for one in ended.report.not_measured}


def causes(ended: Ended) -> dict[str, str]:
    return {one.build_id: one.cause for one in ended.report.diagnosis}


def test_all_passes(play: Play) -> None:
    ended = play(Scene())
    assert ended.exit_code == ExitCode.PASS
    assert ended.gates(INT8) == dict.fromkeys(
        ("outcomes", "fallback", "parity", "edge", "accuracy", "latency", "speed", "size"), "pass"
    )
    result = ended.result(INT8)
    assert result.outcomes == {"passed": 3}
    assert result.accuracy is not None
    assert (result.accuracy.n, result.accuracy.value, result.accuracy.drop) == (20, 1.0, 0.0)
    assert result.comparison is not None
    assert result.comparison.verdict == "faster"
    assert result.comparison.ratio == pytest.approx(2.0, rel=0.02)
    assert result.latency is not None
    assert result.latency.median_ms == pytest.approx(2.0, rel=0.02)
    assert result.latency.load_ms == 3.0
    assert causes(ended) == {FLOAT: "none", INT8: "none"}
    assert ended.report.recommendation.build_id == INT8
    assert ended.result(FLOAT).baseline
    assert ended.result(FLOAT).size is None
    assert "HOST-SATURATES" not in {finding.id for finding in ended.report.findings}


def test_a_build_that_does_not_load(play: Play) -> None:
    ended = play(Scene(faults=(Fault("error", INT8_ID, "load"),)))
    assert ended.exit_code == ExitCode.FAIL
    result = ended.result(INT8)
    assert (result.verdict, result.reason.id) == ("fail", "load_failed")
    assert (result.latency, result.parity, result.accuracy, result.comparison) == (None, None, None, None)
    assert ended.result(FLOAT).verdict == "pass"
    assert causes(ended) == {FLOAT: "none", INT8: "not_separable"}
    assert missing(ended)[f"latency of {INT8} on simulated"].facts["why"] == "load_failed"
    assert ended.report.recommendation.reason.id == "none_passes"


def test_a_source_model_that_does_not_run(play: Play) -> None:
    def no_source(configuration: Configuration, inputs: Mapping[str, NDArray[Any]]) -> Any:
        if configuration.runtime == "source":
            raise RuntimeError("GridSample is not implemented")
        return answer(configuration, inputs)

    broken = {"onnxruntime": "simulated", "source": "broken"}
    ended = play(Scene(answer=no_source, runtimes=broken))
    for build_id in (FLOAT, INT8):
        gates = ended.gates(build_id)
        assert (gates["parity"], gates["outcomes"]) == ("inconclusive", "pass")
    for gate in ("accuracy", "speed"):
        assert ended.gates(INT8)[gate] == "inconclusive"
    assert ended.result(INT8).reason.id == "reference_failed"
    assert causes(ended) == {FLOAT: "not_separable", INT8: "not_separable"}
    told = missing(ended)["parity and accuracy of tiny/onnx"]
    assert told.facts["why"] == "reference_failed"
    assert "GridSample is not implemented" in str(told.facts)
    assert ended.exit_code == ExitCode.INCOMPLETE


def test_a_build_that_fails_is_kept_in_the_report(play: Play) -> None:
    keep = 'recipe = "onnx-int8"\nio = "int8"\nkeep_float_types = ["Gemm"]\n'
    ended = play(Scene(), ('recipe = "onnx-int8"\n', keep))
    assert ended.exit_code == ExitCode.INCOMPLETE
    (failed,) = [one for one in ended.report.builds if one.build_id == INT8]
    assert failed.status == "failed"
    assert failed.error is not None
    assert "cannot be int8" in failed.error.what
    assert [one.configuration.build_id for one in ended.report.results] == [FLOAT]
    assert missing(ended)[INT8].facts["why"] == "build_failed"
    assert ended.report.recommendation.reason.id == "only_baseline"


def test_a_device_that_is_lost_says_nothing_of_the_builds(play: Play) -> None:
    ended = play(Scene(faults=(Fault("lost", INT8_ID, "infer", sample=7),)))
    assert ended.exit_code == ExitCode.INCOMPLETE
    result = ended.result(INT8)
    assert result.outcomes == {"passed": 1, "device_lost": 1, "not_run": 13 + 1}
    assert result.verdict == "inconclusive"
    assert ended.gates(INT8)["outcomes"] == "inconclusive"
    assert "device_lost" in {case.outcome for case in result.cases}
    told = missing(ended)["the rest of the job for onnxruntime on simulated"]
    assert (told.id, told.facts["why"]) == ("not_measured", "device_lost")
    assert ended.report.recommendation.build_id is None


def test_a_device_lost_before_a_build_was_loaded_is_no_failed_load(play: Play) -> None:
    ended = play(Scene(faults=(Fault("lost", FLOAT_ID, "infer", sample=19),)))
    assert ended.result(INT8).outcomes == {"not_run": 3}
    assert ended.result(INT8).verdict == "inconclusive"
    assert ended.result(INT8).reason.id != "load_failed"


def test_a_crash_is_pinned_to_its_sample_and_the_rest_is_judged(play: Play) -> None:
    ended = play(Scene(faults=(Fault("crash", INT8_ID, "infer", sample=3),)))
    assert ended.exit_code == ExitCode.FAIL
    result = ended.result(INT8)
    assert result.outcomes == {"passed": 2, "crashed": 1}
    assert (result.parity or ())[0].n == 19
    assert result.accuracy is not None
    assert result.accuracy.n == 19
    assert ended.gates(INT8)["parity"] == "pass"
    (crash,) = [case for case in result.cases if case.outcome == "crashed"]
    assert (crash.cause, crash.confidence) == ("signal 11", "high")
    assert crash.sample == "3, dark/03.png"
    assert result.verdict == "fail"


def test_names_of_samples_stay_out_where_the_data_may_not_leave(play: Play) -> None:
    scene = Scene(faults=(Fault("crash", INT8_ID, "infer", sample=3),))
    ended = play(scene, ("may_leave = true", "may_leave = false"))
    (crash,) = [case for case in ended.result(INT8).cases if case.outcome == "crashed"]
    assert crash.sample == "3"
    assert "03.png" not in (ended.folder / "report" / "report.json").read_text()


def test_a_case_that_was_given_up_is_not_compared(play: Play) -> None:
    """Its output file has no digest, because no runner came to the end of the case."""
    faults = tuple(Fault("crash", INT8_ID, "infer", sample=sample) for sample in range(2, 12))
    ended = play(Scene(faults=faults))
    result = ended.result(INT8)
    assert result.outcomes == {"passed": 2, "crashed": 10, "not_run": 8}
    assert (result.parity, result.accuracy) == (None, None)
    assert result.verdict == "fail"
    assert result.reason.id == "cases_ended_badly"
    assert ended.gates(INT8)["accuracy"] == "inconclusive"


def test_outputs_of_another_form_disagree(play: Play) -> None:
    def transposed(configuration: Configuration, inputs: Mapping[str, NDArray[Any]]) -> Any:
        (scores,) = answer(configuration, inputs)
        return (scores.T if configuration.build_id == INT8 else scores,)

    ended = play(Scene(answer=transposed))
    assert ended.result(INT8).reason.id == "outputs_differ_in_form"
    assert ended.gates(INT8)["parity"] == "fail"
    assert causes(ended)[INT8] == "quantization"


@pytest.mark.parametrize(("build_id", "cause"), [(INT8, "quantization"), (FLOAT, "conversion")])
def test_a_wrong_build_is_diagnosed_and_its_speed_does_not_count(
    play: Play, build_id: str, cause: str
) -> None:
    def wrong(configuration: Configuration, inputs: Mapping[str, NDArray[Any]]) -> Any:
        (scores,) = answer(configuration, inputs)
        return (scores[:, ::-1].copy() if configuration.build_id == build_id else scores,)

    ended = play(Scene(answer=wrong))
    assert ended.gates(build_id)["parity"] == "fail"
    assert ended.gates(build_id).get("accuracy") == ("fail" if build_id == INT8 else None)
    assert causes(ended)[INT8] == cause
    if build_id == INT8:
        assert ended.gates(INT8)["speed"] == "inconclusive"
    assert ended.report.recommendation.build_id == (None if build_id == INT8 else INT8)


def test_a_build_that_is_nan_fails_with_the_reason(play: Play) -> None:
    def nan(configuration: Configuration, inputs: Mapping[str, NDArray[Any]]) -> Any:
        (scores,) = answer(configuration, inputs)
        return (scores * np.float32(np.nan) if configuration.build_id == INT8 else scores,)

    ended = play(Scene(answer=nan))
    (parity,) = ended.result(INT8).parity or ()
    assert (parity.sqnr_db, parity.exact) == (None, False)
    assert parity.reason == Reason("non_finite_build")
    assert ended.gates(INT8)["parity"] == "fail"


@pytest.mark.parametrize(("actual", "verdict"), [("npu", "fail"), (None, "inconclusive")])
def test_an_accelerator_that_was_not_asked_for_or_is_unknown_does_not_pass(
    play: Play, actual: str | None, verdict: str
) -> None:
    ended = play(Scene(loading=ran_on(actual)))
    assert ended.gates(INT8)["fallback"] == verdict
    assert ended.result(INT8).accelerator_actual == actual
    assert ended.report.recommendation.build_id is None


def test_a_slower_build_fails_its_speed(play: Play) -> None:
    ended = play(Scene(medians_ns={FLOAT_ID: 2_000_000, INT8_ID: 4_000_000}))
    assert ended.result(INT8).comparison is not None
    assert ended.gates(INT8)["speed"] == "fail"
    assert ended.result(INT8).reason.id == "speed_below"


def test_where_int8_saturates_outputs_and_speed_come_from_two_configurations(play: Play) -> None:
    """With the usual options the outputs would be wrong; with the exact ones it would be slow."""

    def saturating(configuration: Configuration, inputs: Mapping[str, NDArray[Any]]) -> Any:
        (scores,) = answer(configuration, inputs)
        exact = configuration.options.get("x64quantprecision") == "1"
        return (scores if exact or "int8" not in configuration.build_id else scores[:, ::-1].copy(),)

    def loading(configuration: Configuration) -> Any:
        return Loading(load_ms=50.0 if configuration.configuration_id == INT8_ID else 3.0)

    medians = {FLOAT_ID: 4_000_000, INT8_ID: 9_000_000, "c002": 2_000_000}
    ended = play(Scene((), saturating, medians, loading=loading, environment={"int8_saturates": True}))
    result = ended.result(INT8)
    assert result.verdict == "pass"
    assert result.accuracy is not None
    assert result.accuracy.value == 1.0
    assert result.latency is not None
    assert result.latency.median_ms == pytest.approx(2.0, rel=0.02)
    assert result.latency.load_ms == 3.0
    assert result.comparison is not None
    assert result.comparison.ratio == pytest.approx(2.0, rel=0.02)
    assert result.outcomes == {"passed": 4}
    assert [case.case_id for case in result.cases] == [
        "c001.load",
        "c001.infer",
        "c002.load",
        "c002.benchmark",
    ]
    assert "HOST-SATURATES" in result.findings
    jobs = [read_job(path.read_bytes()) for path in (ended.folder / "jobs" / "host").glob("*/job.json")]
    options = {c.configuration_id: dict(c.options) for job in jobs for c in job.configurations}
    assert options == {"c000": {}, "c001": {"x64quantprecision": "1"}, "c002": {}}


@pytest.mark.parametrize(("told", "exact"), [(True, True), (None, True), (False, False)])
def test_a_host_that_cannot_tell_whether_it_saturates_is_taken_to_do_so(
    play: Play, told: bool | None, exact: bool
) -> None:
    ended = play(Scene(environment={"int8_saturates": told}))
    jobs = [read_job(path.read_bytes()) for path in (ended.folder / "jobs" / "host").glob("*/job.json")]
    options = [dict(c.options) for job in jobs for c in job.configurations]
    assert ({"x64quantprecision": "1"} in options) is exact
    assert ("HOST-SATURATES" in ended.result(INT8).findings) is (told is True)


def test_a_fall_back_in_the_configuration_of_the_speed_is_seen_too(play: Play) -> None:
    def loading(configuration: Configuration) -> Any:
        return ran_on("npu" if configuration.configuration_id == "c002" else "cpu")(configuration)

    ended = play(Scene(loading=loading, environment={"int8_saturates": True}))
    assert ended.result(INT8).accelerator_actual == "cpu+npu"
    assert ended.gates(INT8)["fallback"] == "fail"


METRICS = """
import os

def score(outputs, label):
    print("noise on standard output")
    scores, = outputs.values()
    return float(scores[0, label])

score.bounds = (-1.0, 2.0)

def raises(outputs, label):
    raise KeyError("boxes")

def dies(outputs, label):
    os._exit(0)
"""


def test_all_metrics_are_reported_and_judged(play: Play) -> None:
    ended = play(
        Scene(), ('metrics = ["top1"]', 'metrics = ["top1", "own:score"]'), files={"own.py": METRICS}
    )
    result = ended.result(INT8)
    assert result.accuracy is not None
    (own,) = result.more_accuracy
    assert (result.accuracy.metric, own.metric, own.n) == ("top1", "own:score", 20)
    assert own.reference_value is not None
    assert own.value == pytest.approx(own.reference_value, abs=0.02)
    assert own.ci95 is not None
    assert ended.exit_code == ExitCode.PASS


@pytest.mark.parametrize(("metric", "text"), [("own:raises", "KeyError"), ("own:dies", "no answer")])
def test_a_metric_that_fails_does_not_stop_the_run(play: Play, metric: str, text: str) -> None:
    ended = play(
        Scene(), ('metrics = ["top1"]', f'metrics = ["top1", "{metric}"]'), files={"own.py": METRICS}
    )
    assert ended.exit_code == ExitCode.INCONCLUSIVE
    result = ended.result(INT8)
    assert result.accuracy is not None
    assert result.accuracy.metric == "top1"
    assert result.reason.id == "not_measured"
    assert (result.reason.facts["why"], result.reason.facts["metric"]) == ("metric_failed", metric)
    assert text in str(result.reason.facts["error"])
    assert missing(ended)[f"{metric} of {INT8} on simulated"] == result.reason
    assert {name: verdict for name, verdict in ended.gates(INT8).items() if verdict != "pass"} == {
        "accuracy": "inconclusive"
    }


@pytest.mark.parametrize(("classes", "accuracy"), [(("dark", "light"), None), (("light", "dark"), 0.0)])
def test_a_source_model_that_is_no_better_than_chance_is_a_finding(
    play: Play, classes: tuple[str, ...], accuracy: float | None
) -> None:
    ended = play(Scene(), ("may_leave = true", f"may_leave = true\nclasses = {list(classes)}"))
    found = [one for one in ended.report.findings if one.id == "ACCURACY-AT-CHANCE"]
    if accuracy is None:
        assert found == []
        return
    facts = {"metric": "top1", "accuracy": accuracy, "samples": 20, "chance": 0.5, "classes": 2}
    assert [(one.subject, one.facts) for one in found] == [("tiny/onnx", facts)]
    assert "ACCURACY-AT-CHANCE" in ended.result(INT8).findings


def test_the_same_run_gives_the_same_report(play: Play) -> None:
    one, other = play(Scene()), play(Scene())
    assert replace(one.report, run=other.report.run, reproduce=other.report.reproduce) == replace(
        other.report, builds=one.report.builds
    )
