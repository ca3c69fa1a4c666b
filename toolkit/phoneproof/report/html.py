"""index.html: the report as one offline file.

Jinja2 escapes everything that is not markup of our own. The page asks for nothing from outside, and its
Content-Security-Policy forbids that it could: only the one style sheet and the one script whose hashes it
names are used, so that even markup which slipped through would run nothing.
"""

import base64
import hashlib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from phoneproof.errors import Fact
from phoneproof.report import edge_grid, filters, listing, picture, plain, reading, sentences, units, words
from phoneproof.report.charts import SIGNS, histogram
from phoneproof.report.edge import EdgeInput
from phoneproof.report.foreign import visible
from phoneproof.report.json_report import write_file
from phoneproof.report.model import Latency, Report

HTML_FILE: Final = "index.html"
MOST_CASES: Final = 500
"""Cases that ended badly and are listed in the page; report.csv and report.json hold them all."""

_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")

_TEMPLATES: Final = Path(__file__).with_name("templates")


def html_text(report: Report) -> str:
    """The page."""
    environment = _environment()
    style, script = (
        Markup((_TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704 - our own files
        for name in ("report.css", "report.js")
    )
    return environment.get_template("index.html.j2").render(
        report=report,
        style=style,
        script=script,
        policy=_policy(style, script),
        names=reading.build_names(report),
        sizes=reading.build_sizes(report),
        pictures=picture.pictures(report),
        grids=edge_grid.edge_grids(report),
        troubles=edge_grid.edge_troubles(report),
        bad_cases=listing.listed_bad_cases(report, MOST_CASES),
        filter_groups=filters.filter_groups(report),
        filter_keys=filters.row_keys(report).of,
        several=reading.ambiguous(report),
        several_devices=len(reading.devices(report)) > 1,
        settled_by=listing.settled_by(report),
        most_cases=MOST_CASES,
    )


def write_html(report: Report, folder: Path) -> Path:
    """Write index.html into `folder`, made if it is missing, and return its path.

    Raises StorageError if the file cannot be written.
    """
    return write_file(folder / HTML_FILE, html_text(report))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.globals.update(
        listing=listing,
        plain=plain,
        reading=reading,
        sentences=sentences,
        signs=SIGNS,
        units=units,
        words=words,
        edge_word=edge_grid.short_word,
        is_address=_is_address,
        other_facts=_other_facts,
        strip=_strip,
        thumbnail=_thumbnail,
    )
    environment.filters.update(
        bytes=_unbroken(units.bytes_text),
        count=units.count,
        db=_unbroken(units.decibel),
        ms=_unbroken(units.milliseconds),
        times=units.times,
        reason=sentences.reason_sentence,
        finding=sentences.finding_sentence,
        facts=sentences.facts_text,
        fact=sentences.fact_text,
        command=_command,
        upper_first=_upper_first,
        lower_first=_lower_first,
    )
    return environment


def _unbroken(form: Callable[[float], str]) -> Callable[[float], str]:
    """The same text, its unit kept on the line of its number."""
    return lambda value: form(value).replace(" ", "\N{NO-BREAK SPACE}")


def _finalize(value: Any) -> Any:
    """Spell out hidden characters in every text that the templates put out, whoever wrote it."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _policy(style: str, script: str) -> str:
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src '{_sha256(style)}'; script-src '{_sha256(script)}'"
    )


def _sha256(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _command(arguments: Sequence[str]) -> str:
    return shlex.join(arguments)


def _upper_first(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _thumbnail(edge: EdgeInput) -> str | None:
    """The address of an edge input's picture; None for a text that is not base64."""
    text = edge.thumbnail
    return f"data:image/png;base64,{text}" if text and _BASE64.fullmatch(text) else None


def _is_address(url: str) -> bool:
    """Whether a text may become a link. Nothing but https does: no script, no file."""
    return url.startswith("https://")


def _other_facts(facts: Mapping[str, Fact], shown: str) -> dict[str, Fact]:
    """The facts without one that the page shows otherwise, and without what is not known."""
    return {name: value for name, value in facts.items() if name != shown and value is not None}


def _strip(latency: Latency, title: str) -> Markup:
    times = reading.run_times_ms(latency)
    if not times:
        return Markup()
    return histogram(
        times, title, units.milliseconds(min(times)), units.milliseconds(max(times)), latency.median_ms
    )
