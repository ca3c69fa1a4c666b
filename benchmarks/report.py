"""What it takes to write the report of a run with 10,000 outcomes, and to use its page.

The run is one of the tests': fifty builds on two devices, each with 200 timed runs, 22 edge inputs and 200
cases, of which half ended badly. All files of the report are written. With --browser, the page is opened in
headless Chromium: the time until it is laid out, and that of one keystroke in its filter and of one sort,
each until the next frame is drawn.

Last line: JSON {"seconds"}, the median of the runs of writing all files. Aim: below 5.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "toolkit"))

from phoneproof.report.model import Report  # noqa: E402
from phoneproof.report.render import render  # noqa: E402
from tests.report.states import many_outcomes  # noqa: E402

FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
KEYSTROKE = """async () => {
  const box = document.querySelector("#filter input[type=search]");
  const begin = performance.now();
  box.value = "tflite-int8";
  box.dispatchEvent(new Event("input", { bubbles: true }));
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now() - begin;
}"""
SORT = """async () => {
  const begin = performance.now();
  document.querySelector("#results thead th:nth-child(3) button").click();
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now() - begin;
}"""


def written(report: Report, folder: Path) -> float:
    """Seconds to write all files of the report."""
    begin = time.perf_counter()
    render(report, folder)
    return time.perf_counter() - begin


def browsed(page_file: Path, browser: str) -> dict[str, float]:
    """Seconds until the page is loaded and drawn, and of one keystroke and one sort in it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 1200, "height": 900})
        begin = time.perf_counter()
        page.goto(page_file.as_uri())
        page.evaluate(FRAMES)
        load = time.perf_counter() - begin
        times = {
            "load_s": load,
            "keystroke_s": page.evaluate(KEYSTROKE) / 1e3,
            "sort_s": page.evaluate(SORT) / 1e3,
        }
        chromium.close()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--outcomes", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--browser", nargs="?", const="chromium", help="also open the page [default: chromium]"
    )
    given = parser.parse_args()
    report = many_outcomes(given.outcomes)
    with tempfile.TemporaryDirectory() as folder:
        seconds = [written(report, Path(folder)) for _ in range(given.runs)]
        for file in sorted(Path(folder).iterdir()):
            print(f"{file.name}: {file.stat().st_size / 1e6:.2f} MB")
        print(f"written in {', '.join(f'{s:.2f}' for s in seconds)} s")
        answer = {"seconds": round(statistics.median(seconds), 3)}
        if given.browser:
            path = shutil.which(given.browser) or sys.exit(f"There is no {given.browser} here.")
            answer |= {
                name: round(s, 3) for name, s in browsed(Path(folder) / "index.html", str(path)).items()
            }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
