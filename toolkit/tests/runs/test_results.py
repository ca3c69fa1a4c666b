"""From measurements to results: what is counted, listed, diagnosed and recommended."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from phoneproof.builds.manifest import BuildManifest
from phoneproof.errors import ProtocolError
from phoneproof.findings import Finding
from phoneproof.jobs.planning import Placement, PlannedCase
from phoneproof.protocol.attempts import BadEnd, CaseEnd
from phoneproof.protocol.events import CaseFinished, Measured, Stamp
from phoneproof.recipes.rows import recipe_named
from phoneproof.recipes.table import Format, RecipeOptions, SourceFormat
from phoneproof.report.model import Comparison, Result, Size
from phoneproof.report.sentences import reason_sentence
from phoneproof.runs.building import FinishedBuild
from phoneproof.runs.measuring import Measurement, Timing
from phoneproof.runs.recommending import recommend, recommend_each, the_only
from phoneproof.runs.results import diagnosis_of, result_of
from phoneproof.runs.wanted import WantedBuild
from phoneproof.verify.accuracy import AccuracyDrop
from phoneproof.verify.gates import Limits
from phoneproof.verify.intervals import Interval
from phoneproof.verify.latency import summarise_latency
from phoneproof.verify.parity import LabelParity, OutputParity, WorstSample
from phoneproof.verify.slices import WorstSlice
from phoneproof.verify.verdicts import Reason
from tests.report import reports

HERE = Placement("cpu", False, 1)
FLOAT, INT8 = "tiny/onnx/onnx-float32", "tiny/onnx/onnx-int8"


def parity(sqnr_db: float | None = 35.0, **changes: Any) -> tuple[str, OutputParity]:
    facts: dict[str, Any] = {
        "samples": 3,
        "sqnr_db": sqnr_db,
        "exact": False,
        "reason": None,
        "mse": 0.1,
        "max_abs_error": 0.1,
        "cosine": 0.9,
        "worst_sample": WorstSample(1, 12.0),
        "worst_slices": (),
        "reference_nonfinite": 0,
        "build_nonfinite": 0,
        "nonfinite_mismatches": 0,
        "first_nonfinite_sample": None,
    }
    return "y", OutputParity(**(facts | changes))


def labels(agreement: float) -> tuple[str, LabelParity]:
    return "label", LabelParity(3, agreement, 2, 1)


def passed(case_id: str, accelerator: str | None = "cpu") -> CaseEnd:
    measured = Measured(load_ms=4.0, peak_memory_bytes=100, accelerator_actual=accelerator)
    stamp = Stamp(1, 0, 0, 0)
    return CaseEnd(
        case_id,
        "passed",
        finished=CaseFinished("case_finished", stamp, case_id, "passed", None, measured, None),
    )


def case(case_id: str, kind: Any, build_id: str) -> PlannedCase:
    return PlannedCase(case_id, kind, build_id, HERE, "both")


def measurement(build_id: str = INT8, **changes: Any) -> Measurement:
    """A build that loaded and gave right outputs; not timed."""
    recipe = recipe_named(build_id.rsplit("/", 1)[1])
    baseline = None if build_id == FLOAT else FLOAT
    route = recipe.routes[SourceFormat.ONNX]
    is_float = build_id == FLOAT
    wanted = WantedBuild(build_id, "tiny/onnx", recipe, route, RecipeOptions(), baseline, is_float, True)
    manifest = BuildManifest(
        version=1,
        recipe=recipe.name,
        options=RecipeOptions(),
        format="onnx",
        model_file="model.onnx",
        sha256="a" * 64,
        size_bytes=300,
        source_sha256="b" * 64,
        calibration_sha256=None,
        inputs=(),
        outputs=(),
        operators={},
        float_operators=(),
        floor=recipe.floor,
        tool_versions={},
        toolchain=route.toolchain,
        toolchain_revision=1,
        precision=recipe.precision,
    )
    ends = [
        (case("c.load", "load", build_id), passed("c.load")),
        (case("c.infer", "infer", build_id), passed("c.infer")),
    ]
    facts: dict[str, Any] = {
        "build": FinishedBuild(wanted, Path("unused"), manifest, None, cached=False),
        "placement": HERE,
        "cases": tuple(ends),
        "loaded": None,
        "parity": (parity(90.0 if build_id == FLOAT else 35.0),),
        "parity_error": None,
        "compared": (0, 4, 9),
        "sample_ids": None,
        "accuracy": {},
        "accuracy_missing": {},
        "timing": None,
    }
    return Measurement(**(facts | changes))


def result(measured: Measurement, limits: Limits | None = None, findings: Any = ()) -> Result:
    return result_of(measured, limits or Limits(), reports.HOST, 1_000, False, findings)


def with_end(kind: Any, end: CaseEnd) -> Measurement:
    return measurement(cases=((case(end.case_id, kind, INT8), end),))


BAD = BadEnd("crashed", "signal", "high", 11)
REST = {sample: BadEnd("not_run", "not_reached", "high") for sample in (5, 6)}


@pytest.mark.parametrize(
    ("end", "counts", "rows"),
    [
        (passed("c.infer"), {"passed": 1}, [("passed", None)]),
        (CaseEnd("c.infer", "crashed", BAD, {3: BAD}), {"crashed": 1}, [("crashed", "3")]),
        (
            CaseEnd("c.infer", "crashed", BAD, {3: BAD, **REST}),
            {"crashed": 1, "not_run": 2},
            [("crashed", "3"), ("not_run", "5"), ("not_run", "6")],
        ),
        (
            CaseEnd("c.infer", "crashed", BAD, REST),
            {"crashed": 1, "not_run": 2},
            [("crashed", None), ("not_run", "5"), ("not_run", "6")],
        ),
        (CaseEnd("c.infer", "crashed", BAD), {"crashed": 1}, [("crashed", None)]),
    ],
)
def test_a_case_is_counted_and_listed_by_its_samples_and_its_own_end(
    end: CaseEnd, counts: Mapping[Any, int], rows: list[tuple[str, str | None]]
) -> None:
    found = result(with_end("infer", end))
    assert found.outcomes == counts
    assert [(one.outcome, one.sample) for one in found.cases] == rows
    assert found.gates[0].id == "outcomes"
    assert found.gates[0].verdict == ("pass" if set(counts) == {"passed"} else "fail")


@pytest.mark.parametrize(
    ("outcome", "cause", "failed"),
    [
        ("failed", "error", True),
        ("crashed", "signal", True),
        ("timed_out", "timed_out", True),
        ("killed_low_memory", "low_memory", True),
        ("device_lost", "unknown", False),
        ("not_run", "not_reached", False),
        ("not_run", "attempts", False),
    ],
)
def test_only_a_load_that_was_tried_can_fail(outcome: Any, cause: str, failed: bool) -> None:
    measured = with_end("load", CaseEnd("c.load", outcome, BadEnd(outcome, cause, "high")))
    assert measured.load_failed is failed
    found = result(replace(measured, parity=()))
    assert (found.reason.id == "load_failed") is failed
    assert found.verdict == ("fail" if failed else "inconclusive")


@pytest.mark.parametrize(
    ("places", "actual"),
    [
        (("cpu", "cpu"), "cpu"),
        (("cpu", "npu"), "cpu+npu"),
        (("cpu", None), None),
        ((None, None), None),
        ((), None),
    ],
)
def test_where_a_build_ran_is_known_only_if_all_its_configurations_tell(
    places: tuple[str | None, ...], actual: str | None
) -> None:
    ends = tuple((case(f"c{i}.load", "load", INT8), passed(f"c{i}.load", p)) for i, p in enumerate(places))
    assert measurement(cases=ends).accelerator_actual == actual
    assert result(measurement(cases=ends)).accelerator_actual == actual


def test_the_worst_sample_is_named_by_its_number_in_the_set() -> None:
    (found,) = result(measurement(sample_ids=tuple(f"{n}.png" for n in range(10)))).parity or ()
    assert found.worst_sample is not None
    assert (found.worst_sample.index, found.worst_sample.id) == (4, "4.png")


def test_a_parity_that_is_not_defined_says_why() -> None:
    ended = result(measurement(parity=(parity(None, reason="non_finite_build"), labels(0.6))))
    first, second = ended.parity or ()
    assert first.reason == Reason("non_finite_build")
    assert second.reason == Reason("labels_differ", {"output": "label", "agreement": 0.6})
    (equal,) = result(measurement(parity=(labels(1.0),))).parity or ()
    assert (equal.exact, equal.reason) == (True, None)


def test_every_metric_is_in_the_result_with_its_interval_or_the_reason() -> None:
    drops = {
        "top1": AccuracyDrop(20, 0.9, 0.85, 0.05, Interval(0.01, 0.1), "tango"),
        "own:f": AccuracyDrop(20, 5.0, 4.0, 1.0, None, None, "too_few_changes"),
    }
    found = result(measurement(accuracy=drops))
    assert found.accuracy is not None
    assert (found.accuracy.metric, found.accuracy.ci95) == ("top1", (0.01, 0.1))
    (own,) = found.more_accuracy
    assert (own.metric, own.ci95, own.reason) == ("own:f", None, Reason("too_few_changes"))


@pytest.mark.parametrize(
    ("id", "subject", "touched"),
    [
        ("HOST-SATURATES", "host", True),
        ("HOST-SATURATES", "other-host", False),
        ("BUILD-FLOAT-OPERATORS", INT8, True),
        ("BUILD-FLOAT-OPERATORS", "tiny/onnx/onnx-int8/entropy", False),
        ("TOOL-UNTESTED-VERSION", "onnxruntime", True),
        ("TOOL-UNTESTED-VERSION", "tflite", False),
        ("DATA-OVERLAP", "calibration", True),
        ("DATA-BROKEN-FILE", "evaluation", True),
    ],
)
def test_which_findings_touch_a_result(id: str, subject: str, touched: bool) -> None:
    found = result(measurement(), findings=(Finding.of(id, subject),))
    assert found.findings == ((id,) if touched else ())


def test_a_finding_on_some_builds_of_a_device_touches_only_these() -> None:
    busy = Finding.of("HOST-BUSY", "host", share=0.3, builds=(FLOAT,))
    assert result(measurement(FLOAT), findings=(busy,)).findings == ("HOST-BUSY",)
    assert result(measurement(INT8), findings=(busy,)).findings == ()


def test_calibration_touches_only_builds_that_were_calibrated() -> None:
    finding = Finding.of("DATA-CALIBRATION-FEW", "calibration")
    assert result(measurement(), findings=(finding,)).findings == (finding.id,)
    for build_id in (FLOAT, "tiny/onnx/onnx-int8-dynamic"):
        assert result(measurement(build_id), findings=(finding,)).findings == ()


@pytest.mark.parametrize(
    ("build_id", "asked", "judged"),
    [
        (FLOAT, False, {}),
        (FLOAT, True, {"accuracy": "inconclusive", "latency": "fail"}),
        (
            INT8,
            True,
            {"accuracy": "inconclusive", "latency": "fail", "speed": "inconclusive", "size": "fail"},
        ),
    ],
)
def test_limits_are_for_the_builds_that_the_plan_names(
    build_id: str, asked: bool, judged: dict[str, str]
) -> None:
    runs = (5_000_000,) * 64
    slow = Timing(summarise_latency(runs), runs, 1, 6.0, None)
    drops = {"top1": AccuracyDrop(200, 0.9, 0.9, 0.0, Interval(-0.02, 0.02), "tango")}
    measured = measurement(build_id, timing=slow, accuracy=drops)
    build = replace(measured.build, wanted=replace(measured.build.wanted, asked=asked))
    limits = Limits(accuracy_drop=0.01, latency_ms=1.0, speedup=1.2, size_ratio=0.1)
    found = result(replace(measured, build=build), limits)
    gates = {gate.id: gate.verdict for gate in found.gates}
    assert gates == dict.fromkeys(("outcomes", "fallback", "parity"), "pass") | judged
    assert (found.verdict == "pass") is (not judged)


SLICE = (WorstSlice(0, 1, 3.0),)


@pytest.mark.parametrize(
    ("float_build", "int8", "cause", "legs"),
    [
        ({}, {}, "none", "aaa"),
        ({}, {"parity": (parity(9.0),)}, "quantization", "aad"),
        ({}, {"parity": (parity(35.0, worst_slices=SLICE),)}, "quantization", "aad"),
        ({}, {"parity": (parity(None, reason="non_finite_build"),)}, "quantization", "aad"),
        ({}, {"parity": (), "parity_error": ProtocolError("shape")}, "quantization", "aad"),
        ({"parity": (parity(50.0),)}, {"parity": (parity(9.0),)}, "conversion", "add"),
        ({"parity": (parity(50.0),)}, {}, "conversion", "ada"),
        ({}, {"parity": ()}, "not_separable", "aa-"),
        ({"parity": ()}, {"parity": (parity(9.0),)}, "not_separable", "a-d"),
        ({"parity": ()}, {}, "none", "a-a"),
        (None, {"parity": (parity(9.0),)}, "not_separable", "a-d"),
        (None, {}, "none", "a-a"),
        ({}, {"parity": (parity(None, exact=True),)}, "none", "aaa"),
        ({}, {"parity": (labels(1.0),)}, "none", "aaa"),
        ({}, {"parity": (labels(0.9),)}, "not_separable", "aa-"),
        ({}, {"parity": (labels(0.9), parity(35.0))}, "none", "aaa"),
    ],
)
def test_the_chain_of_an_int8_build(
    float_build: Mapping[str, Any] | None, int8: Mapping[str, Any], cause: str, legs: str
) -> None:
    baseline = None if float_build is None else measurement(FLOAT, **float_build)
    found = diagnosis_of(measurement(**int8), baseline, Limits(), reports.HOST, reference_failed=False)
    assert found.cause == cause
    states = {"agrees": "a", "disagrees": "d", "missing": "-"}
    assert "".join(states[leg.state] for leg in found.legs) == legs + "--"
    assert found.legs[1].build_id == FLOAT


def test_a_float_build_is_judged_by_itself() -> None:
    found = diagnosis_of(measurement(FLOAT, parity=(parity(50.0),)), None, Limits(), reports.HOST, False)
    assert found.cause == "conversion"


def test_without_the_source_nothing_can_be_told_apart() -> None:
    nothing = measurement(parity=())
    found = diagnosis_of(nothing, measurement(FLOAT, parity=()), Limits(), reports.HOST, True)
    assert (found.cause, found.legs[0].state) == ("not_separable", "missing")


def candidate(name: str, ratio: float, size: float, verdict: Any = "pass", **changes: Any) -> Result:
    speed = Comparison(
        reports.FLOAT, ratio, (ratio * 0.95, ratio * 1.05), "faster" if ratio > 1.1 else
        "slower" if ratio < 0.9 else "no_difference", 24,
    )  # fmt: skip
    facts = {"comparison": speed, "size": Size(1_000, int(1_000 * size), size), "verdict": verdict}
    return reports.result(name, **(facts | changes))


def test_the_fastest_of_those_that_pass_is_recommended() -> None:
    found = recommend(
        [
            reports.baseline(),
            candidate("m/q/slow", 1.5, 0.2),
            candidate("m/q/fast", 2.5, 0.4),
            candidate("m/q/wrong", 9.0, 0.1, "fail"),
            candidate("m/q/doubtful", 9.0, 0.1, "inconclusive"),
        ]
    )
    assert (found.build_id, found.device, found.reason.id) == ("m/q/fast", "host", "best_passing")
    assert (found.reason.facts["speed_ratio"], found.reason.facts["size_ratio"]) == (2.5, 0.4)


def test_of_two_that_are_as_fast_the_smaller_one() -> None:
    results = [candidate("m/q/big", 2.5, 0.4), candidate("m/q/small", 2.4, 0.2)]
    assert recommend(results).build_id == "m/q/small"
    assert recommend(results[::-1]).build_id == "m/q/small"


def test_of_two_that_are_as_fast_and_as_small_the_one_closest_to_the_source() -> None:
    near, far = (reports.parity("y", db) for db in (35.0, 22.0))
    results = [
        candidate("m/q/far", 2.5, 0.26, parity=(far,)),
        candidate("m/q/near", 2.5, 0.27, parity=(near,)),
        candidate("m/q/big", 2.5, 0.4, parity=(reports.parity("y", 60.0),)),
    ]
    assert recommend(results).build_id == "m/q/near"


def test_no_build_is_recommended_for_a_speed_that_a_busy_machine_gave() -> None:
    busy = Reason.of("machine_busy", share=0.3, largest=0.02)
    faked = Comparison(reports.FLOAT, 9.0, (8.0, 10.0), "too_noisy", 24, busy)
    found = recommend([candidate("m/q/faked", 9.0, 0.4, comparison=faked), candidate("m/q/known", 1.5, 0.4)])
    assert found.build_id == "m/q/known"
    alone = recommend([candidate("m/q/faked", 9.0, 0.4, comparison=faked)])
    assert (alone.build_id, alone.reason.facts["speed_ratio"]) == ("m/q/faked", None)  # for its size
    same_size = recommend([candidate("m/q/faked", 9.0, 1.0, comparison=faked)])
    assert same_size.build_id is None


def noisy(name: str, size: float) -> Result:
    wide = Comparison(reports.FLOAT, 0.9, (0.5, 1.6), "too_noisy", 24, Reason("wide_interval"))
    return candidate(name, 1.0, size, comparison=wide)


BUSY = Comparison(
    reports.FLOAT, 0.8, (0.7, 0.9), "too_noisy", 24, Reason.of("machine_busy", share=0.3, largest=0.02)
)


def test_a_slower_build_does_not_win_over_one_whose_speed_is_not_known() -> None:
    """Neither by being measured well nor by being smaller."""
    slower = candidate("m/q/slower", 0.8, 0.2)
    for unknown in (
        noisy("m/q/unknown", 0.3),
        candidate("m/q/unknown", 1.0, 0.3, comparison=BUSY),
        candidate("m/q/unknown", 1.0, 0.3, comparison=None, latency=None),
    ):
        for results in ([slower, unknown], [unknown, slower]):
            found = recommend(results)
            assert (found.build_id, found.reason.id) == ("m/q/unknown", "best_passing")
            assert found.reason.facts["speed_ratio"] is None


def test_a_slower_build_is_recommended_for_its_size_alone_and_that_is_said() -> None:
    found = recommend([candidate("m/q/slower", 0.8, 0.3), candidate("m/q/wrong", 2.0, 0.3, "fail")])
    assert (found.build_id, found.reason.id) == ("m/q/slower", "best_for_size")
    assert "for its size alone: it is slower than the baseline" in reason_sentence(found.reason)
    assert recommend([candidate("m/q/slower", 0.8, 1.0)]).build_id is None


def test_where_nothing_is_known_to_be_faster_the_smallest() -> None:
    busy = candidate("m/q/busy", 1.0, 0.25, comparison=BUSY)
    assert recommend([candidate("m/q/known", 1.0, 0.9), busy]).build_id == "m/q/busy"


def test_models_are_recommended_for_themselves() -> None:
    results = [
        candidate("a/onnx/x", 1.5, 0.3),
        candidate("b/onnx/x", 9.0, 0.1),
        candidate("b/onnx/y", 9, 0.5),
    ]
    ids = ("a/onnx/x", "b/onnx/x", "b/onnx/y", "c/onnx/x")
    each = recommend_each([(build_id, Format.ONNX) for build_id in ids], results)
    assert [(one.model, one.build_id) for one in each if one.platform == "ios"] == [
        ("a", "a/onnx/x"),
        ("b", "b/onnx/x"),
        ("c", None),
    ]
    assert [(one.build_id, one.platform) for one in each[:2]] == [
        ("a/onnx/x", "android"),
        ("a/onnx/x", "ios"),
    ]
    assert each[4].reason.id == "nothing_measured"
    together = the_only(each)
    assert (together.build_id, together.reason.id) == (None, "several_models")
    assert together.reason.facts == {"models": ("a", "b", "c")}
    assert the_only(each[:2]).build_id == "a/onnx/x"
    assert the_only(()).reason.id == "nothing_measured"


def test_platforms_are_recommended_what_they_run() -> None:
    results = [
        candidate("a/torch/t", 3.0, 0.3),
        candidate("a/keras/l", 1.5, 0.3),
        candidate("a/torch/c", 2.0, 0.3),
        candidate("a/torch/q", 9.0, 0.3),
    ]
    forms = (Format.EXECUTORCH, Format.TFLITE, Format.COREML, Format.TORCHSCRIPT)
    builds = list(zip((r.configuration.build_id for r in results), forms, strict=True))
    each = recommend_each(builds[1:], results[1:])
    assert [(one.platform, one.build_id) for one in each] == [("android", "a/keras/l"), ("ios", "a/torch/c")]
    assert the_only(each).reason.facts == {"platforms": ("android", "ios")}
    assert [one.build_id for one in recommend_each(builds, results)] == ["a/torch/t", "a/torch/t"]
    only = recommend_each(builds[3:], results[3:])
    assert [(one.platform, one.build_id) for one in only] == [("host", "a/torch/q")]


def test_a_build_must_pass_wherever_it_ran() -> None:
    """Fast and right with one thread, wrong with four: not to be shipped."""
    four = replace(candidate("m/q/a", 3.0, 0.3).configuration, threads=4)
    results = [
        candidate("m/q/a", 3.0, 0.3),
        candidate("m/q/a", 3.0, 0.3, "fail", configuration=four),
        candidate("m/q/b", 1.5, 0.3),
    ]
    assert recommend(results).build_id == "m/q/b"


@pytest.mark.parametrize(
    ("ratio", "size", "recommended"), [(1.0, 0.94, True), (1.0, 0.96, False), (1.5, 1.2, True)]
)
def test_a_build_without_a_gain_is_not_recommended(ratio: float, size: float, recommended: bool) -> None:
    found = recommend([reports.baseline(), candidate("m/q/a", ratio, size)])
    assert (found.build_id is not None) is recommended
    assert found.reason.id == ("best_passing" if recommended else "none_gains")


@pytest.mark.parametrize("waived", [False, True])
def test_an_accuracy_at_chance_excuses_no_doubtful_parity(waived: bool) -> None:
    kept = AccuracyDrop(400, 0.5, 0.5, 0.0, Interval(-0.005, 0.005), "tango")
    measured = measurement(parity=(parity(11.0),), accuracy={"top1": kept})
    limits = Limits(accuracy_drop=0.01)
    found = result(measured, limits)
    assert (found.verdict, parity_reason(found)) == ("pass", "parity_rescued_by_accuracy")
    facts: dict[str, Any] = {"metric": "top1", "accuracy": 0.5, "samples": 400, "chance": 0.5, "classes": 2}
    at_chance = replace(Finding.of("ACCURACY-AT-CHANCE", "tiny/onnx", **facts), waived=waived)
    found = result(measured, limits, [at_chance])
    assert (found.verdict, parity_reason(found)) == ("inconclusive", "parity_doubtful")
    other = replace(at_chance, subject="other/onnx")
    assert result(measured, limits, [other]).verdict == "pass"
    right = measurement(parity=(parity(35.0),), accuracy={"top1": kept})
    assert result(right, limits, [at_chance]).verdict == "pass"


def parity_reason(found: Result) -> str:
    (gate,) = (gate for gate in found.gates if gate.id == "parity")
    return gate.reason.id


def test_one_that_was_not_timed_comes_after_those_that_were() -> None:
    untimed = candidate("m/q/a", 1.0, 0.1, comparison=None, latency=None)
    assert recommend([untimed, candidate("m/q/b", 1.5, 0.3)]).build_id == "m/q/b"
    assert recommend([untimed]).build_id == "m/q/a"


def test_why_there_is_no_recommendation() -> None:
    nothing = candidate("m/q/a", 1.0, 0.3, latency=None, parity=None)
    assert recommend([]).reason.id == "nothing_measured"
    assert recommend([nothing]).reason.id == "nothing_measured"
    assert recommend([reports.baseline()]).reason.id == "only_baseline"
    assert recommend([reports.baseline(), candidate("m/q/a", 2.0, 0.3, "fail")]).reason.id == "none_passes"
