"""The page in a real browser: quiet, alone, narrow, sorted, filtered, printed."""

import os
import re
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from phoneproof.report.html import MOST_CASES, html_text
from phoneproof.report.model import Report
from tests.report import reports, states

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = pytest.mark.slow

PAPER_WIDTH = 703  # A4 less its margins, in px
SHOWN = "#results tbody tr:not([hidden])"


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """Debian's Chromium; its sandbox needs rights that containers lack, and the pages are our own."""
    path = shutil.which("chromium")
    if path is None:
        # In CI this may not be left out unnoticed.
        assert os.environ.get("CI") != "true", "chromium is not installed"
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Visit:
    """A page that was opened. said: what stood on the console, errors too. asked: requests, its own aside."""

    page: "Page"
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def visit(browser: "Browser", tmp_path: Path) -> Iterator["type[Opener]"]:
    """Opens reports; every request that is not for the page itself is stopped and noted."""
    Opener.browser, Opener.folder = browser, tmp_path
    yield Opener
    for context in browser.contexts:
        context.close()


class Opener:
    """Opens reports in one browser."""

    browser: "Browser"
    folder: Path

    @classmethod
    def open(cls, report: Report, width: int = 1200, dark: bool = False, script: bool = True) -> Visit:
        """The report's page as it is shown at that width."""
        file = cls.folder / "index.html"
        file.write_text(html_text(report), encoding="utf-8")
        context = cls.browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            java_script_enabled=script,
        )
        visit = Visit(context.new_page())

        def stop_others(route: "Route") -> None:
            if route.request.url.split("#")[0] == file.as_uri():
                route.continue_()
            else:
                visit.asked.append(route.request.url)
                route.abort()

        context.route("**/*", stop_others)
        visit.page.on("console", lambda message: visit.said.append(message.text))
        visit.page.on("pageerror", lambda error: visit.said.append(str(error)))
        visit.page.goto(file.as_uri())
        return visit


@pytest.mark.parametrize("state", states.STATES)
def test_the_page_is_quiet_asks_for_nothing_and_fits_a_phone(state: str, visit: type[Opener]) -> None:
    report = states.STATES[state]()
    for width in (375, 1200):
        seen = visit.open(report, width, dark=width == 375)
        assert seen.said == []
        assert seen.asked == []
        assert seen.page.evaluate("document.scrollingElement.scrollWidth") <= width


def names(page: "Page") -> list[str]:
    return page.locator(f"{SHOWN} th bdi[title]").all_inner_texts()


def test_a_head_sorts_its_table_up_and_down_by_mouse_and_keyboard(visit: type[Opener]) -> None:
    page = visit.open(reports.all_pass()).page
    head = page.locator("#results thead th", has_text="Size")
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert names(page) == ["onnx-int8", "onnx-int8-dynamic", "onnx-float32"]
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert names(page) == ["onnx-float32", "onnx-int8-dynamic", "onnx-int8"]
    speed = page.locator("#results thead th", has_text="Speed")
    speed.get_by_role("button").press("Space")
    assert head.get_attribute("aria-sort") is None
    assert names(page)[-1] == "onnx-float32"  # has no speed


def test_text_narrows_every_table_and_the_rows_are_counted(visit: type[Opener]) -> None:
    page = visit.open(states.two_platforms()).page
    every = page.locator("table[data-filtered] tbody tr").count()
    assert page.locator("#filter output").inner_text() == f"{every} rows"
    page.get_by_role("searchbox").fill("coreml-int8")
    assert names(page) == ["coreml-int8"]
    assert "1 of 5 rows shown." in page.locator("#results caption").inner_text()
    left = page.locator("table[data-filtered] tbody tr:not([hidden])").count()
    assert page.locator("#filter output").inner_text() == f"{left} of {every} rows"
    assert 0 < left < every
    page.get_by_role("searchbox").fill("coreml nothing-of-this-name")
    assert names(page) == []
    page.get_by_role("button", name="Show all").click()
    assert len(names(page)) == 5
    assert not page.get_by_role("button", name="Show all").is_visible()


def test_the_whole_build_id_is_found_though_its_short_name_is_shown(visit: type[Opener]) -> None:
    page = visit.open(reports.all_pass()).page
    page.get_by_role("searchbox").fill("digits/onnx/onnx-int8-dyn")
    assert names(page) == ["onnx-int8-dynamic"]


def test_chips_narrow_by_format_platform_and_verdict_from_the_keyboard(visit: type[Opener]) -> None:
    page = visit.open(states.two_platforms()).page
    page.get_by_role("checkbox", name="Core ML").press("Space")
    assert names(page) == ["coreml-float32", "coreml-int8"]
    page.get_by_role("checkbox", name="ONNX").press("Space")  # either of a group
    assert len(names(page)) == 5
    page.get_by_role("checkbox", name="Fail").press("Space")  # and one of each group
    assert names(page) == ["onnx-int8"]
    page.get_by_role("checkbox", name="Fail").press("Space")
    page.get_by_role("checkbox", name="Android").press("Space")
    assert names(page) == ["onnx-float32", "onnx-int8", "onnx-int8-dynamic"]


def test_a_sorted_table_stays_filtered_and_a_filtered_one_sorts(visit: type[Opener]) -> None:
    page = visit.open(states.two_platforms()).page
    page.get_by_role("searchbox").fill("int8")
    page.locator("#results thead th", has_text="Size").get_by_role("button").click()
    assert names(page) == ["onnx-int8", "onnx-int8-dynamic", "coreml-int8"]


def test_without_its_script_the_page_shows_everything(visit: type[Opener]) -> None:
    page = visit.open(states.two_platforms(), script=False).page
    assert not page.locator("#filter").is_visible()
    rows = page.locator("tbody tr")
    assert rows.count() > 30
    assert all(row.is_visible() for row in rows.all())


@pytest.mark.parametrize("state", ["failures", "two_platforms", "fifty_builds"])
def test_it_prints_on_paper_with_nothing_cut_and_nothing_folded(state: str, visit: type[Opener]) -> None:
    seen = visit.open(states.STATES[state](), PAPER_WIDTH, dark=True)
    seen.page.emulate_media(media="print", color_scheme="dark")
    assert not seen.page.locator("#filter").is_visible()
    assert not seen.page.locator("nav").is_visible()
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    cut = seen.page.evaluate(
        "[...document.querySelectorAll('table')]"
        ".filter(table => table.getBoundingClientRect().right > innerWidth + 1)"
        ".map(table => `${table.className} ${table.getBoundingClientRect().right}`)"
    )
    assert cut == []
    printed = seen.page.pdf(prefer_css_page_size=True, print_background=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) >= 2
    assert glyphs(printed) > 2_000
    assert seen.page.evaluate("[...document.querySelectorAll('details')].every(d => d.open)")


def glyphs(pdf: bytes) -> int:
    """Number of text operators in the streams of a PDF: pictures of text would have none."""
    count = 0
    for stream in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL):
        try:
            count += len(re.findall(rb"T[jJ]\b", zlib.decompress(stream)))
        except zlib.error:
            continue  # not deflated: a font or a picture
    return count


def test_ten_thousand_outcomes_stay_usable(visit: type[Opener]) -> None:
    page = visit.open(states.many_outcomes(10_000)).page
    assert page.locator("#outcomes tbody").nth(1).locator("tr").count() <= MOST_CASES
    assert page.locator("*").count() < 60_000
    page.get_by_role("searchbox").fill("sample 196 of build 3:")
    assert page.locator("#outcomes tbody").nth(1).locator("tr:not([hidden])").count() <= 1
    page.get_by_role("searchbox").fill("tflite-int8")
    assert 0 < len(names(page)) < 50
