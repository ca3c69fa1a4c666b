"""The line on which a key of a TOML text stands."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import tomlkit
from tomlkit.container import Container
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, InlineTable, Table

_MARK: Final = "\x00here\x00"
"""TOML forbids NUL, so no plan holds this."""


LARGEST_TEXT: Final = 50_000
"""Longer texts get no lines: tomlkit needs 26 s for 50 lines of a megabyte. 1,000 class names are 20 kB."""


class Lines:
    """Where the keys of one text stand.

    tomlkit keeps every character of a text but no positions: a line is found by marking the entry's
    indentation, writing the text out and looking where the mark went.
    """

    def __init__(self, text: str | None) -> None:
        self._text = text if text and len(text) <= LARGEST_TEXT else ""

    @cached_property
    def _document(self) -> tomlkit.TOMLDocument:
        """Parsed when the first line is asked for: a right plan needs none."""
        try:
            return tomlkit.parse(self._text)
        except TOMLKitError:
            return tomlkit.document()

    def line_of(self, place: Sequence[str | int]) -> int | None:
        """The line, counted from 1, of the key at `place`, or of the nearest key above it that has one."""
        above: list[Any] = [self._document]
        entries: list[Any] = []
        for step in place:
            above = [entry for one in above for entry in _entries(one, step)]
            if not above:
                break
            entries.append(above[0])
        lines = (self._line_of_entry(entry) for entry in reversed(entries))
        return next((line for line in lines if line is not None), None)

    def _line_of_entry(self, entry: Any) -> int | None:
        trivia = getattr(entry, "trivia", None)
        if trivia is None:
            return None
        before = trivia.indent
        trivia.indent = before + _MARK
        try:
            head, mark, _ = tomlkit.dumps(self._document).partition(_MARK)
        finally:
            trivia.indent = before
        return head.count("\n") + 1 if mark else None


def _entries(node: Any, step: str | int) -> list[Any]:
    """What stands at `step` in a node; several where a table is continued after another one."""
    if isinstance(step, int):
        tables = node.body if isinstance(node, AoT) else []
        return tables[step : step + 1]
    container = node.value if isinstance(node, Table | InlineTable) else node
    if not isinstance(container, Container):
        return []
    return [item for key, item in container.body if key is not None and key.key == step]
