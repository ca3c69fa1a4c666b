"""Standard output and standard error for what is laid out."""

import sys
from typing import Final

from rich.console import Console

_COLUMNS_IN_FILES: Final = 200
"""Without a terminal rich takes 80, which breaks build ids, names and commands over several lines."""


def wide_console(*, stderr: bool = False) -> Console:
    """As wide as the terminal, or wide enough for a table where there is none."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else _COLUMNS_IN_FILES)
