"""Suggestions in messages. They are text for the user; nothing is ever corrected by them."""

import difflib
from collections.abc import Iterable


def near_word(given: str, known: Iterable[str]) -> str | None:
    """The known word that looks most like `given`, if any does."""
    by_lower = {word.lower(): word for word in known}
    close = difflib.get_close_matches(given.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def nearest(given: str, known: Iterable[str]) -> str:
    """A sentence with the nearest known word, or with all known words when none is near."""
    words = list(known)
    near = near_word(given, words)
    return f"Did you mean {near!r}?" if near else f"Known: {', '.join(map(repr, words))}."
