"""summary.md as a reader of Markdown shows it."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from phoneproof.report.foreign import visible
from phoneproof.report.markdown import MOST_LISTED, MOST_ROWS, escaped, markdown_text
from phoneproof.report.model import Report
from tests.report import reports, states
from tests.report.pages import Page
from tests.report.test_hostile_text import HOSTILE, poisoned

READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def shown(report: Report) -> Page:
    return Page(READER.render(markdown_text(report)))


def test_the_recommendation_comes_first_then_what_fails_then_the_table() -> None:
    text = markdown_text(states.two_platforms())
    places = [
        text.index(part) for part in ("**Android:** ship", "**iOS:** ship", "### What fails", "### Results")
    ]
    assert places == sorted(places)
    assert "ship **digits/onnx/onnx-int8-dynamic**: 73 % smaller than the float build, 1.7 times" in text
    assert "Measured on Intel Xeon, 2 cores" in text


def test_failed_rows_come_first_in_the_table() -> None:
    page = markdown_text(reports.failures()).split("### Results")[1]
    signs = re.findall(r"^\| (.) \|", page, re.MULTILINE)
    assert signs == ["\N{BALLOT X}", "\N{BALLOT X}", "?", "\N{BLACK DIAMOND}", "\N{BLACK DIAMOND}"]


def test_what_is_simulated_says_so() -> None:
    text = markdown_text(reports.failures())
    assert "onnx-int8, Pixel 8 (simulated)" in text


def test_a_speed_of_wrong_outputs_is_not_shown_as_one() -> None:
    (row,) = [
        line for line in markdown_text(reports.failures()).splitlines() if "| onnx-int8, Intel Xeon" in line
    ]
    assert "not counted" in row
    assert "faster" not in row


def test_a_large_run_stays_short_and_says_what_it_leaves_out() -> None:
    text = markdown_text(states.many_outcomes())
    assert len(text) < 20_000
    results = len(states.fifty_builds().results)
    assert f"{results - MOST_ROWS} more rows are in index.html and report.csv." in text
    failed = text.split("### What fails")[1].split("###")[0]
    assert failed.count("\n- ") <= MOST_LISTED + 1


@pytest.mark.parametrize("state", states.STATES)
def test_every_state_is_a_summary(state: str) -> None:
    page = shown(states.STATES[state]())
    assert page.words.startswith("phoneproof: ")
    assert "None" not in page.words


@given(st.text(alphabet=st.characters() | st.sampled_from("\\`*_{}[]()<>#+-.!|~&@:=$^\"'/ ")))
def test_any_text_is_shown_as_it_is(text: str) -> None:
    line = " ".join(visible(text).split())
    for template in ("x {} x", "**{}** x", "| a | b |\n|---|---|\n| x {} | c |"):
        page = Page(READER.render(template.format(escaped(text))))
        known = {name for name, _ in page.elements}
        assert known <= {"p", "strong", "table", "thead", "tbody", "tr", "th", "td"}
        assert line in page.text


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_makes_no_markup(text: str) -> None:
    plain, hostile = (
        [(name, sorted(attributes)) for name, attributes in shown(poisoned(reports.failures(), one)).elements]
        for one in ("harmless", text)
    )
    assert hostile == plain


@pytest.mark.parametrize(
    "text", ["@everyone", "https://x.example", "www.x.example", "#12", ":smile:", "a@b.c"]
)
def test_what_github_would_make_links_or_pictures_of_is_broken_up(text: str) -> None:
    assert text not in escaped(text)


def test_a_title_of_the_plan_is_the_heading() -> None:
    report = reports.all_pass()
    titled = replace(report, run=replace(report.run, title="Vision & sound"))
    assert shown(titled).words.startswith("phoneproof: Vision & sound")
