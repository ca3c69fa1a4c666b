"""Names come from models, data sets and devices. None becomes markup, and none misleads the eye."""

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phoneproof.builds.manifest import FloatOperator
from phoneproof.findings import Finding
from phoneproof.report.foreign import shortened, visible
from phoneproof.report.html import html_text
from phoneproof.report.model import Report
from tests.report import reports, states
from tests.report.pages import Page

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "</style><style>*{display:none}</style>",
    "</title><svg/onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;&amp;",
    "<!-- ", "]]>", "\x00\x07", "a\nb\r\nc", "\ud800", "\u202egnp.exe", "\u2066left\u2069", "x" * 5000,
]  # fmt: skip

KEPT = frozenset(
    {
        "status",
        "kind",
        "outcome",
        "severity",
        "verdict",
        "name",
        "state",
        "validity",
        "runs_unit",
        "cause",
        "doubt",
        "platform",
        "platforms",
        "range",
        "sha256",
        "thumbnail",
    }
)
"""Fields whose values are not foreign: members of a closed set, and digests."""


def poisoned(value: Any, text: str) -> Any:
    """The same value with `text` in place of every foreign string inside it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if isinstance(value, Finding):
            return dataclasses.replace(value, subject=text, facts=poisoned(value.facts, text))
        changes = {}
        for field in dataclasses.fields(value):
            closed = field.name in KEPT and not (field.name == "name" and hasattr(value, "os"))
            closed = closed or (field.name == "id" and hasattr(value, "reason"))
            closed = closed or (field.name == "id" and hasattr(value, "facts") and not hasattr(value, "os"))
            closed = closed or (field.name == "reason" and isinstance(value, FloatOperator))
            if not closed or (field.name == "cause" and hasattr(value, "sample")):
                changes[field.name] = poisoned(getattr(value, field.name), text)
        return dataclasses.replace(value, **changes)
    if isinstance(value, Mapping):
        numbers = all(isinstance(item, int) for item in value.values())
        return (
            dict(value)
            if numbers
            else {f"{text} {i}": poisoned(v, text) for i, v in enumerate(value.values())}
        )
    if isinstance(value, tuple):
        return tuple(poisoned(item, text) for item in value)
    return text if isinstance(value, str) else value


def structure(report: Report) -> list[tuple[str, tuple[str, ...]]]:
    """Elements with the names of their attributes: what a browser would make of the page."""
    return [(name, tuple(sorted(attributes))) for name, attributes in Page(html_text(report)).elements]


@cache
def harmless_structure() -> list[tuple[str, tuple[str, ...]]]:
    return structure(poisoned(reports.failures(), "harmless"))


@cache
def structure_of_everything() -> list[tuple[str, tuple[str, ...]]]:
    return structure(poisoned(states.two_platforms(), "harmless"))


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_everywhere_changes_no_element_and_no_attribute(text: str) -> None:
    assert structure(poisoned(reports.failures(), text)) == harmless_structure()
    assert structure(poisoned(states.two_platforms(), text)) == structure_of_everything()


@settings(max_examples=20)
@given(st.text(alphabet=st.characters() | st.sampled_from("<>\"'&{}%#="), min_size=1, max_size=60))
def test_no_text_at_all_changes_the_page(text: str) -> None:
    assert structure(poisoned(reports.failures(), text)) == harmless_structure()


def test_hostile_text_is_shown_as_it_is() -> None:
    text = HOSTILE[0]
    html = html_text(poisoned(reports.failures(), text))
    assert Page(html).text.count(text) > 30
    assert text not in html


@pytest.mark.parametrize("text", ["\u202e", "\u2066", "\u200f", "\x00", "\x1b", "\ud800", "\u2028"])
def test_hidden_characters_are_spelled_out(text: str) -> None:
    html = html_text(poisoned(reports.failures(), f"a{text}b"))
    assert text not in html
    assert f"a<U+{ord(text):04X}>b" in Page(html).text
    html.encode("utf-8")


def test_titles_and_drawings_escape_too() -> None:
    html = html_text(poisoned(reports.all_pass(), HOSTILE[1]))
    assert "<svg" in html
    for part in html.split("<svg")[1:]:
        assert "<img" not in part.split("</svg>")[0]


def test_a_thumbnail_that_is_no_base64_is_not_shown() -> None:
    report = states.edge_failures()
    first, *rest = report.edge_inputs
    for text in ('"><script>', "javascript:alert(1)", "aGk=\n"):
        changed = dataclasses.replace(report, edge_inputs=(dataclasses.replace(first, thumbnail=text), *rest))
        before, after = (len(Page(html_text(one)).all("img")) for one in (report, changed))
        assert after == before - 1


@pytest.mark.parametrize("url", ["javascript:alert(1)", "http://example.org", "file:///etc/passwd", "//x"])
def test_only_an_address_of_https_becomes_a_link(url: str) -> None:
    report = states.two_platforms()
    (model,) = report.models
    assert model.audit is not None
    assert "https://example.org/neural-engine" in [a["href"] for a in Page(html_text(report)).all("a")]
    (plain, doubtful) = model.audit.support
    doubt = dataclasses.replace(doubtful.doubtful[0], url=url)
    audit = dataclasses.replace(
        model.audit, support=(plain, dataclasses.replace(doubtful, doubtful=(doubt,)))
    )
    page = Page(html_text(dataclasses.replace(report, models=(dataclasses.replace(model, audit=audit),))))
    assert all(str(a["href"]).startswith("#") for a in page.all("a"))
    assert url in page.text


@given(st.text())
def test_visible_text_can_be_written_and_keeps_what_can_be_seen(text: str) -> None:
    shown = visible(text)
    shown.encode("utf-8")
    assert visible(shown) == shown
    if text.isprintable():
        assert shown == text or any(not c.isascii() for c in text)


@given(st.text(), st.integers(4, 60))
def test_shortened_text_fits_and_keeps_its_end(text: str, length: int) -> None:
    short = shortened(text, length)
    assert len(short) <= length
    if len(text) <= length:
        assert short == text
    else:
        assert text.endswith(short[-1])
