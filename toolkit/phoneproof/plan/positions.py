"""The line on which a key of a TOML text stands."""

from collections.abc import Sequence
from typing import Any, Final

import tomlkit
from tomlkit.exceptions import TOMLKitError

_MARK: Final = "\x00here\x00"
"""TOML forbids NUL, so no plan holds this."""


def line_of(text: str, place: Sequence[str | int]) -> int | None:
    """The line, counted from 1, of the key at `place`, or of the nearest key above that is written out.

    tomlkit keeps every character of a text but no positions: the line is found by marking the entry's
    indentation, writing the text out and looking where the mark went.
    """
    try:
        document = tomlkit.parse(text)
    except TOMLKitError:
        return None
    entries: list[Any] = []
    node: Any = document
    for step in place:
        try:
            node = node.item(step) if isinstance(step, str) else node[step]
        except (TOMLKitError, LookupError, TypeError, AttributeError):
            break
        entries.append(node)
    for entry in reversed(entries):
        line = _marked_line(document, entry)
        if line is not None:
            return line
    return None


def _marked_line(document: tomlkit.TOMLDocument, entry: Any) -> int | None:
    trivia = getattr(entry, "trivia", None)
    if trivia is None:
        return None
    before = trivia.indent
    trivia.indent = before + _MARK
    try:
        head, mark, _ = tomlkit.dumps(document).partition(_MARK)
    finally:
        trivia.indent = before
    return head.count("\n") + 1 if mark else None
