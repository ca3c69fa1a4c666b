"""JSON on standard output."""

import json
from pathlib import Path
from typing import Any


def json_text(content: Any) -> str:
    """Indented JSON; paths as text, no NaN."""
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, frozenset):
        return sorted(value)
    raise TypeError(f"no JSON form for {type(value).__name__}")
