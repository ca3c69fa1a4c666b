"""Make docs/images/report.png: the upper part of a run's report, as headless Chromium shows it.

python scripts/report_picture.py RUN

The kernel of the machine is left out, since the picture is published; nothing else is changed.
"""

import argparse
import html
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "report.png"
WIDTH, HEIGHT = 1180, 1055
MOST_BYTES = 200_000
COLOURS = 128


def page_without_kernel(run: Path) -> str:
    """The page of a run's report, the systems of its devices by their first word."""
    page = (run / "report" / "index.html").read_text(encoding="utf-8")
    report = json.loads((run / "report" / "report.json").read_text(encoding="utf-8"))
    for system in {result["device"]["os"] for result in report["results"]}:
        short = html.escape(system.partition("-")[0])
        page = page.replace(f"<bdi>{html.escape(system)}</bdi>", f"<bdi>{short}</bdi>")
    return page


def picture_of(page: str, browser: str, height: int) -> Image.Image:
    """What the browser shows of a page that is WIDTH pixels wide, down to `height`."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "page.html", Path(folder) / "page.png"
        source.write_text(page, encoding="utf-8")
        command = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            f"--user-data-dir={folder}/profile",
            f"--window-size={WIDTH},{height}",
            f"--screenshot={target}",
            source.as_uri(),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        with Image.open(target) as shown:
            return shown.convert("RGB").crop((0, 0, WIDTH, min(height, shown.height)))


def main() -> int:
    """0 when the picture is written; 1 when it is too large."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--browser", default="chromium")
    parser.add_argument("--height", type=int, default=HEIGHT)
    parser.add_argument("--out", type=Path, default=PICTURE)
    given = parser.parse_args()
    picture = picture_of(page_without_kernel(given.run), given.browser, given.height)
    few = picture.quantize(COLOURS, dither=Image.Dither.NONE)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    few.save(given.out, optimize=True)
    size = given.out.stat().st_size
    if size > MOST_BYTES:
        sys.stderr.write(f"{given.out} has {size} bytes, and at most {MOST_BYTES} are wanted.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
