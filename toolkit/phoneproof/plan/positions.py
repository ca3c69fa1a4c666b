"""The line on which a key of a TOML text stands."""

from collections.abc import Sequence
from typing import Any, Final

import tomlkit
from tomlkit.exceptions import TOMLKitError

_MARK: Final = "\x00here\x00"
"""TOML forbids NUL, so no plan holds this."""


class Lines:
    """Where the keys of one text stand.

    tomlkit keeps every character of a text but no positions: a line is found by marking the entry's
    indentation, writing the text out and looking where the mark went.
    """

    def __init__(self, text: str | None) -> None:
        try:
            self._document = tomlkit.parse(text or "")
        except TOMLKitError:
            self._document = tomlkit.document()

    def line_of(self, place: Sequence[str | int]) -> int | None:
        """The line, counted from 1, of the key at `place`, or of the nearest key above it that has one."""
        entries: list[Any] = []
        node: Any = self._document
        for step in place:
            try:
                node = node.item(step) if isinstance(step, str) else node[step]
            except (TOMLKitError, LookupError, TypeError, AttributeError):
                break
            entries.append(node)
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
