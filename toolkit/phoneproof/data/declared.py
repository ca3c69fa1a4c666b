"""Strict reading of declared settings: what is wrong is refused, with the nearest right word named.

Nothing is guessed: the suggestion is text for the user, never a value that is used.
"""

import difflib
import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from phoneproof.errors import DataError

Choice = TypeVar("Choice", bound=StrEnum)


def suggestion(given: str, known: Iterable[str]) -> str:
    """`Did you mean X?` for the nearest known word, else the list of known words."""
    words = sorted(known)
    nearest = difflib.get_close_matches(given, words, n=1, cutoff=0.6)
    if nearest:
        return f"Did you mean {nearest[0]!r}?"
    if len(words) > 20:
        return f"Known are {', '.join(map(repr, words[:20]))} and {len(words) - 20} more."
    return f"Known: {', '.join(map(repr, words))}." if words else "None is known here."


def table(value: Any, where: str) -> Mapping[str, Any]:
    """`value` as a table with text keys. DataError when it is something else."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise DataError(f"Expected a table of settings, not {type(value).__name__}.", where=where)
    return value


def check_keys(given: Mapping[str, Any], known: Iterable[str], required: Iterable[str], where: str) -> None:
    """DataError for the first unknown or missing key."""
    names = tuple(known)
    for key in given:
        if key not in names:
            raise DataError(f"Unknown key {key!r}.", where=where, next_step=suggestion(key, names), key=key)
    for key in required:
        if key not in given:
            raise DataError(f"The key {key!r} is missing.", where=where, next_step=f"Add {key!r}.", key=key)


def choice(kind: type[Choice], value: Any, where: str) -> Choice:
    """The member of `kind` that is spelled exactly `value`."""
    if isinstance(value, str):
        for member in kind:
            if member.value == value:
                return member
    step = suggestion(str(value), (member.value for member in kind))
    raise DataError(f"{value!r} is not a choice here.", where=where, next_step=step)


def integer(value: Any, where: str, least: int) -> int:
    """A whole number, not below `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise DataError(f"Expected a whole number of at least {least}, not {value!r}.", where=where)
    return value


def number(value: Any, where: str) -> float:
    """A finite float64; whole numbers are taken as floats, so that 1 and 1.0 are one declaration."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DataError(f"Expected a finite number, not {value!r}.", where=where)
    return float(value)


def items(value: Any, where: str) -> tuple[Any, ...]:
    """The items of a list, of whatever type."""
    if isinstance(value, str | bytes) or not isinstance(value, list | tuple):
        raise DataError(f"Expected a list, not {value!r}.", where=where)
    return tuple(value)
