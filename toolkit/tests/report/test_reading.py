from dataclasses import replace
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from phoneproof.findings import FINDING_IDS, Finding, Severity
from phoneproof.report import reading
from phoneproof.report.model import Recommendation, Report, Result
from phoneproof.verify.verdicts import Reason
from tests.report import reports


def names(*build_ids: str) -> list[str]:
    called = reading.build_names(reports.report([reports.build(one, 1) for one in build_ids], []))
    return [called[one] for one in build_ids]


def test_a_build_is_called_without_the_model_and_source_that_all_share() -> None:
    assert reading.build_names(reports.all_pass())[reports.INT8] == "onnx-int8"
    assert names("m/onnx/onnx-int8", "m/onnx/onnx-int8/entropy", "m/onnx/onnx-float32") == [
        "onnx-int8",
        "onnx-int8/entropy",
        "onnx-float32",
    ]
    assert names("m/onnx/onnx-float32") == ["onnx-float32"]
    assert names("m/onnx/onnx-int8/a", "m/onnx/onnx-int8/b") == ["onnx-int8/a", "onnx-int8/b"]


def test_what_tells_builds_apart_stays_in_their_names() -> None:
    assert names("m/onnx/onnx-int8", "m/pytorch/onnx-int8") == ["onnx/onnx-int8", "pytorch/onnx-int8"]
    assert names("a/onnx/onnx-int8", "b/onnx/onnx-int8-dynamic") == [
        "a/onnx/onnx-int8",
        "b/onnx/onnx-int8-dynamic",
    ]


@given(st.lists(st.text("ab/", min_size=1, max_size=6), min_size=1, max_size=4, unique=True))
def test_builds_with_ids_of_any_form_have_different_names(build_ids: list[str]) -> None:
    builds = [replace(reports.build("m/onnx/x", 1), build_id=one) for one in build_ids]
    called = reading.build_names(reports.report(builds, []))
    assert len({called[one] for one in build_ids}) == len(build_ids)
    assert all(one.endswith(called[one]) for one in build_ids)


def test_the_worst_output_is_found_by_its_worst_slice() -> None:
    fine = reports.parity("boxes", 40.0, worst_slice_db=1.5)
    result = reports.result(reports.INT8, parity=(reports.parity("logits", 25.0), fine))
    assert reading.deciding_parity(result) == fine
    assert reading.deciding_db(fine) == 1.5
    assert reading.slice_decides(fine)


def test_an_output_decides_where_it_has_no_worse_slice() -> None:
    for slice_db in (None, 25.0, 31.0):
        whole = reports.parity("logits", 25.0, worst_slice_db=slice_db)
        assert reading.deciding_db(whole) == 25.0
        assert not reading.slice_decides(whole)


def test_an_output_that_is_not_defined_is_worse_than_any_and_an_equal_one_better() -> None:
    undefined = reports.parity("a", None)
    equal = reports.parity("b", None, exact=True)
    result = reports.result(reports.INT8, parity=(equal, reports.parity("c", 3.0), undefined))
    assert reading.deciding_parity(result) == undefined
    better = reading.deciding_parity(replace(result, parity=(equal, reports.parity("c", 90.0))))
    assert better is not None
    assert better.output == "c"
    assert [reading.deciding_db(one) for one in (undefined, equal)] == [None, None]
    assert reading.deciding_parity(replace(result, parity=None)) is None


def test_the_output_of_which_the_gate_speaks_decides() -> None:
    """An undefined reference is inconclusive, and the gate fails for the other output."""
    undefined, low = reports.parity("a", None), reports.parity("b", 3.0)
    gate = reports.gate("parity", "fail", "parity_below", output="b", sqnr_db=-1.2, limit_db=10.0)
    result = reports.result(reports.INT8, parity=(undefined, low), gates=(gate,))
    assert reading.deciding_parity(result) == low


def test_the_interval_of_the_accuracy_is_the_drops_turned_round() -> None:
    low, high = reading.accuracy_interval(reports.result(reports.INT8)) or (0, 0)
    assert round(low, 6) == round(0.9798 - 0.0089, 6)
    assert round(high, 6) == round(0.9798 + 0.0031, 6)


def test_the_baseline_of_a_result_runs_as_it_does() -> None:
    report = reports.all_pass()
    four = replace(report.results[0], configuration=replace(report.results[0].configuration, threads=4))
    wide = replace(report.results[1], configuration=replace(report.results[1].configuration, threads=4))
    both = replace(report, results=(report.results[0], four, wide))
    assert reading.reference_result(both, wide) == four


def test_the_recommended_result_is_on_the_named_device_and_passes() -> None:
    phone = reports.result(reports.INT8, reports.PIXEL)
    slow = reports.result(reports.INT8, latency=reports.latency(9.0))
    failing = reports.result(reports.INT8, verdict="fail", latency=reports.latency(0.1))
    advice = Recommendation(reports.INT8, "host", Reason("best_passing"))
    report = reports.report([], [phone, failing, slow], recommendation=advice)
    assert reading.recommended(report, advice) == slow


def test_builds_that_never_ran_are_kept() -> None:
    assert [b.recipe for b in reading.builds_without_result(reports.failures())] == ["onnx-int8-qoperator"]


def test_gates_that_say_more_than_the_verdict_are_told() -> None:
    rescued = reports.gate("parity", "pass", "parity_rescued_by_accuracy", output="logits", sqnr_db=17.0)
    result = reports.result(reports.INT8, gates=(reports.gate("outcomes"), rescued, reports.gate("size")))
    assert reading.further_gates(result) == (rescued,)
    bad, slow = reports.gate("outcomes", "fail", "load_failed"), reports.gate("speed", "fail", "speed_below")
    failed = replace(result, gates=(bad, slow, rescued), verdict="fail", reason=bad.reason)
    assert reading.further_gates(failed) == (slow, rescued)


def marked(report: Report, result: Result) -> dict[str, set[str]]:
    """Ids of the findings on each kind of number."""
    return {
        number: {mark.id for mark in reading.marks(report, result, number)}
        for number in get_args(reading.Number)
    }


def test_findings_are_marked_on_the_numbers_that_they_touch_and_on_no_other() -> None:
    report = reports.all_pass()
    found = (
        Finding.of("HOST-BUSY", "host", share=0.3, builds=(reports.INT8,)),
        Finding.of("DATA-BROKEN-FILE", "evaluation", broken=1, total=90),
        Finding.of("OUTPUT-CLASSES", "digits/onnx", classes=10, scores=11),
        Finding.of("TOOL-UNTESTED-VERSION", "onnxruntime"),
    )
    touched = replace(report.results[1], findings=tuple(finding.id for finding in found))
    assert marked(replace(report, findings=found), touched) == {
        "size": set(),
        "latency": {"HOST-BUSY", "TOOL-UNTESTED-VERSION"},
        "speed": {"HOST-BUSY", "TOOL-UNTESTED-VERSION"},
        "accuracy": {"DATA-BROKEN-FILE", "OUTPUT-CLASSES", "TOOL-UNTESTED-VERSION"},
        "parity": {"DATA-BROKEN-FILE", "TOOL-UNTESTED-VERSION"},
        "outcomes": {"TOOL-UNTESTED-VERSION"},
    }


def test_of_findings_with_one_id_only_those_about_the_result_are_marked() -> None:
    report = reports.two_models()
    found = (
        Finding.of("DATA-CONSTANT", "calibration"),
        Finding.of("DATA-CONSTANT", "evaluation"),
        Finding.of("OUTPUT-CLASSES", "digits/onnx"),
        Finding.of("OUTPUT-CLASSES", "faces/onnx"),
    )
    both = tuple({finding.id for finding in found})
    results = tuple(replace(result, findings=both) for result in report.results)
    whole = replace(report, findings=found, results=results)
    places = [[mark.number for mark in reading.marks(whole, one, "accuracy")] for one in results]
    assert places == [[2, 3], [1, 2, 3], [2, 4], [1, 2, 4]]


def test_it_is_known_of_every_finding_which_numbers_it_touches() -> None:
    assert set(reading.TOUCHED_NUMBERS) == set(FINDING_IDS)
    of_models = {name for name in FINDING_IDS if name.startswith("MODEL-")}
    touching_nothing = {name for name, numbers in reading.TOUCHED_NUMBERS.items() if not numbers}
    assert touching_nothing == of_models  # they are about the source model, before anything was measured
    report = reports.all_pass()
    unknown = Finding("OF-ANOTHER-VERSION", Severity.WARNING, "evaluation")
    result = replace(report.results[1], findings=(unknown.id,))
    assert set(map(len, marked(replace(report, findings=(unknown,)), result).values())) == {1}
