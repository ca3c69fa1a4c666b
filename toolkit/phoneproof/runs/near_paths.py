"""Suggestions for a path that does not exist. They are text for the user; nothing is taken instead."""

from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from phoneproof.plan.wording import near_word

_MOST_LOOKED_AT: Final = 1_000


def did_you_mean(path: Path, fits: Callable[[Path], bool] = lambda near: True) -> str:
    """`Did you mean X? ` with the nearest name of an entry of the same folder that `fits`; else ''."""
    with suppress(OSError):
        entries = islice(path.absolute().parent.iterdir(), _MOST_LOOKED_AT)
        near = near_word(path.name, [entry.name for entry in entries if fits(entry)])
        if near is not None:
            return f"Did you mean {str(path.parent / near)!r}? "
    return ""
