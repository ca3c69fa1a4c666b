"""A plan with several metrics: the report has them all, and a loss in any of them is a regression."""

import json
from dataclasses import replace

import jsonschema

from phoneproof.protocol.schema_files import schema_text
from phoneproof.report.compare import compare_reports
from phoneproof.report.html import html_text
from phoneproof.report.json_report import parse_report, report_text
from phoneproof.report.model import Accuracy, Report
from tests.report import reports
from tests.report.pages import Page

TOP5 = Accuracy("top5", 890, 0.9921, 0.9933, 0.0012, (-0.001, 0.003))
OWN = Accuracy("own:<b>score</b>", 890, 3.5, 4.25, 0.75, (0.5, 1.0))


def with_more(*more: Accuracy) -> Report:
    report = reports.all_pass()
    first, second, *rest = report.results
    return replace(report, results=(first, replace(second, more_accuracy=more), *rest))


def test_they_are_written_and_read_again() -> None:
    text = report_text(with_more(TOP5, OWN))
    jsonschema.Draft202012Validator(json.loads(schema_text("report"))).validate(json.loads(text))
    assert parse_report(text).results[1].more_accuracy == (TOP5, OWN)


def test_the_page_shows_them() -> None:
    text = " ".join(Page(html_text(with_more(TOP5, OWN))).text.split())
    assert "top5 99.21 %, drop +0.12 points" in text
    assert "own:<b>score</b> 3.500, drop +0.750" in text


def test_a_loss_in_any_of_them_is_a_regression() -> None:
    worse = replace(TOP5, value=0.9, drop=0.0933, ci95=(0.08, 0.11))
    (change,) = compare_reports(with_more(TOP5, OWN), with_more(worse, OWN)).regressions
    assert (change.id, change.facts["metric"]) == ("accuracy", "top5")
    assert compare_reports(with_more(OWN, TOP5), with_more(TOP5, OWN)).changes == ()


def test_one_that_is_gone_is_said() -> None:
    (change,) = compare_reports(with_more(TOP5), with_more()).not_compared
    assert (change.direction, change.facts["why"]) == ("neutral", "missing_in_new")
