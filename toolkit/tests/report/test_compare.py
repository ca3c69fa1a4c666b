from dataclasses import replace
from typing import Any

import pytest

from phoneproof.errors import CommandLineError
from phoneproof.report.compare import Change, RunComparison, compare_reports
from phoneproof.report.model import Accuracy, Comparison, Report, Size
from phoneproof.verify.verdicts import Reason
from tests.report import reports


def changed(**changes: Any) -> Report:
    """The report of all passes with another int8 result."""
    report = reports.all_pass()
    return replace(
        report, results=(report.results[0], replace(report.results[1], **changes), report.results[2])
    )


def compared(**changes: Any) -> RunComparison:
    return compare_reports(reports.all_pass(), changed(**changes))


def only(changes: tuple[Change, ...]) -> Change:
    assert len(changes) == 1
    return changes[0]


@pytest.mark.parametrize("state", reports.STATES)
def test_a_report_is_no_regression_of_itself(state: str) -> None:
    comparison = compare_reports(reports.STATES[state](), reports.STATES[state]())
    assert comparison.changes == ()
    assert comparison.pairs == len(reports.STATES[state]().results)


def test_a_worse_verdict_is_a_regression_with_its_reason() -> None:
    change = only(compared(verdict="fail", reason=Reason("size_above")).regressions)
    assert change.id == "verdict"
    assert change.facts == {"old": "pass", "new": "fail", "reason": "size_above"}
    assert change.configuration.build_id == reports.INT8


@pytest.mark.parametrize(("old", "new", "direction"), [
    ("pass", "inconclusive", "worse"), ("inconclusive", "fail", "worse"),
    ("fail", "inconclusive", "better"), ("fail", "pass", "better"),
])  # fmt: skip
def test_verdicts_are_ordered(old: Any, new: Any, direction: str) -> None:
    comparison = compare_reports(changed(verdict=old), changed(verdict=new))
    assert only(comparison.changes).direction == direction


def test_a_missing_result_is_a_regression_and_a_new_one_is_not() -> None:
    report = reports.all_pass()
    fewer = replace(report, results=report.results[:2])
    assert only(compare_reports(report, fewer).regressions).id == "result_missing"
    other_way = compare_reports(fewer, report)
    assert other_way.regressions == ()
    assert only(other_way.changes).id == "result_new"


def test_runs_without_a_build_in_common_are_not_compared() -> None:
    old = reports.all_pass()
    foreign = tuple(replace(one, build_id=f"other/{one.build_id}") for one in old.builds)
    with pytest.raises(CommandLineError, match="no build in common"):
        compare_reports(old, replace(old, builds=foreign, results=()))
    # Where the same builds were made and none was measured, every result is missed.
    assert len(compare_reports(old, replace(old, results=())).regressions) == len(old.results)


def test_another_configuration_is_another_result() -> None:
    configuration = replace(reports.all_pass().results[1].configuration, threads=4)
    assert {c.id for c in compared(configuration=configuration).changes} == {"result_missing", "result_new"}


@pytest.mark.parametrize(("new", "direction"), [(290_500, None), (330_000, "worse"), (250_000, "better")])
def test_size_has_a_margin_of_one_per_cent(new: int, direction: str | None) -> None:
    changes = compared(size=Size(1_122_000, new, new / 1_122_000)).changes
    assert [c.direction for c in changes] == ([] if direction is None else [direction])


def speed(ratio: float, lo: float, hi: float, **changes: Any) -> Comparison:
    facts: dict[str, Any] = {"baseline": reports.FLOAT, "ratio": ratio, "ci95": (lo, hi)}
    return Comparison(**(facts | {"verdict": "faster", "rounds": 24} | changes))


@pytest.mark.parametrize(
    ("comparison", "direction"),
    [
        (speed(2.1, 2.0, 2.25), None),
        (speed(1.9, 1.8, 2.0), "worse"),
        (speed(2.8, 2.7, 2.9), "better"),
    ],
)
def test_speed_is_compared_by_ratios_whose_intervals_do_not_overlap(
    comparison: Comparison, direction: str | None
) -> None:
    changes = compared(comparison=comparison).changes
    assert [c.direction for c in changes] == ([] if direction is None else [direction])


def test_latencies_of_two_sessions_are_not_compared() -> None:
    assert compared(latency=reports.latency(8.0)).changes == ()


def test_a_speed_of_wrong_outputs_is_not_compared() -> None:
    comparison = compared(comparison=speed(9.0, 8.9, 9.1), gates=(reports.gate("parity", "fail"),))
    assert comparison.changes == ()
    assert only(comparison.not_compared).facts["why"] == "outputs_not_right"


@pytest.mark.parametrize(
    ("comparison", "why"),
    [
        (speed(1.0, 0.9, 1.1, baseline="another"), "other_baseline"),
        (speed(1.0, 0.9, 1.1, ci95=None), "no_interval"),
        (speed(9.0, 8.0, 9.9, verdict="too_noisy", reason=Reason("machine_busy")), "machine_busy"),
        (None, "missing_in_new"),
    ],
)
def test_what_cannot_be_compared_is_said(comparison: Comparison | None, why: str) -> None:
    found = compared(comparison=comparison)
    assert found.changes == ()
    assert only(found.not_compared).facts["why"] == why


def accuracy(drop: float, lo: float, hi: float, **changes: Any) -> Accuracy:
    facts: dict[str, Any] = {"metric": "top-1", "n": 890, "value": 0.9798 - drop, "reference_value": 0.9798}
    return Accuracy(**(facts | {"drop": drop, "ci95": (lo, hi)} | changes))


@pytest.mark.parametrize(
    ("new", "direction"),
    [
        (accuracy(0.006, 0.001, 0.012), None),
        (accuracy(0.03, 0.02, 0.04), "worse"),
        (accuracy(-0.01, -0.02, -0.005), "better"),
    ],
)
def test_accuracy_is_compared_by_drops_whose_intervals_do_not_overlap(
    new: Accuracy, direction: str | None
) -> None:
    changes = compared(accuracy=new).changes
    assert [c.direction for c in changes] == ([] if direction is None else [direction])


def test_a_better_source_model_does_not_hide_a_worse_build() -> None:
    new = accuracy(0.03, 0.02, 0.04, reference_value=0.999, value=0.969)
    assert only(compared(accuracy=new).regressions).id == "accuracy"


def test_another_metric_is_not_compared() -> None:
    new = accuracy(0.5, 0.4, 0.6, metric="top-5")
    assert only(compared(accuracy=new).not_compared).facts["why"] == "other_metric"


def test_losing_the_accelerator_is_a_regression() -> None:
    change = only(compared(accelerator_actual=None).regressions)
    assert change.id == "fallback"
    assert change.facts == {"requested": "cpu", "old": "cpu", "new": None}


def test_a_new_crash_is_a_regression() -> None:
    change = only(compared(edge={"passed": 10, "crashed": 1}).regressions)
    assert change.id == "outcomes"
    assert change.facts == {"old": 0, "new": 1}
