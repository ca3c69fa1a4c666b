"""Make pictures of a report in each state that the tests know, to look at: wide, narrow, dark and on paper.

python scripts/report_states.py FOLDER [STATE ...]

Writes STATE.html, STATE-wide.png, STATE-narrow.png, STATE-dark.png and STATE.pdf for each state, as headless
Chromium shows them. With --report FILE, a run's report.json is shown in place of the states.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Final

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "toolkit"))

from phoneproof.report.html import html_text  # noqa: E402
from phoneproof.report.json_report import read_report  # noqa: E402
from phoneproof.report.model import Report  # noqa: E402
from tests.report.states import STATES  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser

VIEWS: Final[Mapping[str, tuple[int, bool]]] = {
    "wide": (1200, False),
    "narrow": (375, False),
    "dark": (1200, True),
}
"""Width in px, and whether the theme is dark."""


def show(report: Report, name: str, folder: Path, browser: "Browser") -> None:
    """Write the page of a report, its pictures and its print."""
    page_file = folder / f"{name}.html"
    page_file.write_text(html_text(report), encoding="utf-8")
    for view, (width, dark) in VIEWS.items():
        page = browser.new_page(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        page.goto(page_file.as_uri())
        page.screenshot(path=folder / f"{name}-{view}.png", full_page=True)
        if view == "wide":
            page.pdf(path=folder / f"{name}.pdf", prefer_css_page_size=True)
        page.close()


def main() -> int:
    """0 when all pictures are written; 2 for a state that is not known or a browser that is not there."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("states", nargs="*", metavar="STATE", help=", ".join(STATES))
    parser.add_argument("--report", type=Path, help="report.json of a run")
    parser.add_argument("--browser", default="chromium")
    given = parser.parse_args()
    path = which(given.browser)
    if path is None or not set(given.states) <= set(STATES):
        parser.error("there is no such browser" if path is None else f"states are {', '.join(STATES)}")
    wanted: Mapping[str, Callable[[], Report]] = {name: STATES[name] for name in given.states or STATES}
    if given.report is not None:
        wanted = {"run": lambda: read_report(given.report)}
    given.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for name, make in wanted.items():
            show(make(), name, given.folder, browser)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
