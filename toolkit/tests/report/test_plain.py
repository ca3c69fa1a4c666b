"""What a client reads: no more than is shown, in plain words."""

import html
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phoneproof.cli.summary import recommendation_lines
from phoneproof.report import plain
from phoneproof.report.html import html_text
from phoneproof.report.markdown import markdown_text
from phoneproof.report.model import Comparison, ModelRecommendation, NotMeasured, Platform, Recommendation
from phoneproof.verify.verdicts import Reason
from tests.report import reports, states
from tests.report.reports import FLOAT, INT8, gate, result


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(0.259, "74 % smaller"), (1.0, "no smaller"), (0.998, "no smaller"), (1.25, "25 % larger")],
)
def test_a_size_is_told_against_the_float_build(ratio: float, words: str) -> None:
    assert plain.size_words(ratio) == words


@given(st.floats(0.01, 100))
def test_a_smaller_build_is_never_called_larger(ratio: float) -> None:
    words = plain.size_words(ratio)
    assert ("smaller" in words) == (ratio < 1 + plain.ALIKE)
    assert ("larger" in words) == (ratio >= 1 + plain.ALIKE)


@pytest.mark.parametrize(
    ("comparison", "words"),
    [
        (Comparison(FLOAT, 2.31, (2.2, 2.4), "faster", 24), "2.3 times as fast"),
        (Comparison(FLOAT, 0.5, (0.4, 0.6), "slower", 24), "slower, at 0.50 times the speed"),
        (Comparison(FLOAT, 1.0, (0.9, 1.1), "no_difference", 24), "as fast as far as can be measured"),
        (Comparison(FLOAT, 3.0, None, "too_noisy", 2, Reason("machine_busy")), "its speed too noisy to tell"),
        (None, "its speed not measured"),
    ],
)
def test_a_speed_is_told_only_as_far_as_it_was_measured(comparison: Comparison | None, words: str) -> None:
    assert plain.speed_words(result(INT8, comparison=comparison)) == words


def test_a_speed_of_wrong_outputs_is_not_told() -> None:
    assert plain.speed_words(result(INT8, gates=(gate("parity", "fail"),))) == "its speed not counted"
    assert plain.speed_words(result(INT8, gates=())) == "its speed not counted"


@pytest.mark.parametrize(
    ("verdict", "words"),
    [("pass", "accuracy kept"), ("fail", "accuracy lost"), ("inconclusive", "accuracy not decided")],
)
def test_accuracy_is_kept_only_if_its_gate_says_so(verdict: str, words: str) -> None:
    assert plain.accuracy_words(result(INT8, gates=(gate("accuracy", verdict),))) == words
    assert plain.accuracy_words(result(INT8, gates=())) == "accuracy measured without a limit"
    assert plain.accuracy_words(result(INT8, accuracy=None)) == "its accuracy not measured"


def test_no_accuracy_is_kept_where_there_is_none_to_lose() -> None:
    at_chance = result(INT8, gates=(gate("accuracy"),), findings=("ACCURACY-AT-CHANCE",))
    assert plain.accuracy_words(at_chance) == "its accuracy no proof, since the source model is at chance"


def test_platforms_that_get_the_same_build_are_joined_in_order() -> None:
    ((ship,),) = plain.shipping(states.edge_failures()).values()
    assert ship.place == "Android and iOS"


def test_platforms_without_a_build_are_joined_only_for_the_same_reason() -> None:
    report = reports.failures()
    reasons: dict[Platform, str] = {"android": "none_passes", "ios": "none_passes", "host": "only_baseline"}
    none = tuple(
        ModelRecommendation(None, None, Reason(reason), "digits", platform)
        for platform, reason in reasons.items()
    )
    (ships,) = plain.shipping(replace(report, recommendations=none)).values()
    assert [ship.place for ship in ships] == ["Android and iOS", "The host"]


def test_a_report_without_recommendations_for_platforms_shows_its_only_one() -> None:
    report = replace(reports.all_pass(), recommendations=())
    assert plain.shipping(report) == {"": (plain.Shipping((), report.recommendation),)}


def test_models_keep_the_order_of_the_plan() -> None:
    assert list(plain.shipping(reports.two_models())) == ["digits", "faces"]


def test_the_reason_of_a_choice_comes_without_the_numbers_that_stand_beside_it() -> None:
    reason = Reason("best_passing", {"size_ratio": 0.3})
    assert plain.why(Recommendation(INT8, "host", reason)) == Reason("best_passing")
    assert plain.why(Recommendation(None, None, reason)) == reason


def test_what_was_not_tested_at_all_is_told_without_what_one_build_lacks() -> None:
    report = reports.all_pass()
    lacks = tuple(
        NotMeasured(what, Reason("not_measured"))
        for what in ("phones", f"latency of {INT8} on host", "energy", "phones", "a", "b", "c")
    )
    assert plain.not_tested(replace(report, not_measured=lacks)) == ("phones", "energy", "a", "b")


def test_the_computer_is_named_by_its_processor() -> None:
    host = replace(reports.HOST, name="host", facts={"cpu": "AMD EPYC"})
    assert plain.device_text(host) == "this computer, AMD EPYC"
    assert plain.device_text(reports.PIXEL) == "Pixel 8"


def test_a_build_that_only_an_interpreter_computed_says_so_wherever_it_is_recommended() -> None:
    told = "Computed by a reference interpreter (mil_interpreter); Core ML itself has not run it."
    whole = reports.all_pass()
    results = tuple(
        replace(one, configuration=replace(one.configuration, runtime="mil_interpreter"))
        for one in whole.results
    )
    report = replace(whole, results=results)
    best = next(one for one in results if one.configuration.build_id == INT8)
    assert plain.measured_where(best, ("ios",)) == told
    assert told in html_text(report)
    assert "a phone&#39;s processor" not in html_text(report)
    assert told in html.unescape(markdown_text(report))
    assert any(told in line for line in recommendation_lines(report))
    assert plain.interpreted(result(INT8)) is None
    assert plain.measured_where(result(INT8, reports.PIXEL), ("android",)) is None
    assert plain.measured_where(result(INT8), ("host",)) is None
