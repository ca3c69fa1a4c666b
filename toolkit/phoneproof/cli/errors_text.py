"""Errors as text for a terminal and as JSON."""

import unicodedata
from collections.abc import Iterator
from typing import Any

from phoneproof.errors import (
    DeviceError,
    Fact,
    PhoneproofError,
    RuntimeUnavailableError,
    SeveralErrors,
    ToolchainError,
    WorkerError,
)

_PROCESS_FACTS = frozenset({"worker", "command", "ended", "code", "log", "log_tail"})
"""How a worker process ended. They say something only of an error that the process did not foresee."""

_LISTED = "problems"
"""Mistakes of a plan as data: in text, what is wrong lists them already."""

_OF_A_PROCESS = (WorkerError, ToolchainError, DeviceError, RuntimeUnavailableError)


def error_text(error: PhoneproofError) -> str:
    """What is wrong, where, and what to do next; then the facts, then the last lines of a log."""
    if isinstance(error, SeveralErrors):
        return "\n\n".join(error_text(one) for one in error.errors)
    return "\n".join(_lines(error))


def error_json(error: PhoneproofError) -> dict[str, Any]:
    """The same as data."""
    if isinstance(error, SeveralErrors):
        return {"class": "SeveralErrors", "errors": [error_json(one) for one in error.errors]}
    return {
        "class": type(error).__name__,
        "what": error.what,
        "where": error.where,
        "next_step": error.next_step,
        "facts": {name: list(v) if isinstance(v, tuple) else v for name, v in error.facts.items()},
    }


def told_briefly(error: PhoneproofError) -> str:
    """What is wrong and what to do next, in one line."""
    return f"{error.what} {error.next_step or ''}".rstrip()


def printable(text: str) -> str:
    """Foreign text without control characters, which could move a terminal's cursor or colour it."""
    return "".join(
        c if unicodedata.category(c) not in ("Cc", "Cf") or c in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for c in text
    )


def _lines(error: PhoneproofError) -> Iterator[str]:
    yield f"error: {printable(error.what)}"
    if error.where:
        yield f"  where: {printable(error.where)}"
    if error.next_step:
        yield f"  next:  {printable(error.next_step)}"
    hidden = {"log_tail"} if isinstance(error, _OF_A_PROCESS) else _PROCESS_FACTS
    for name, value in error.facts.items():
        if value is not None and name not in hidden and name != _LISTED:
            yield f"  {name}: {printable(_fact(value))}"
    tail = error.facts.get("log_tail")
    if isinstance(tail, tuple) and tail and isinstance(error, _OF_A_PROCESS):
        yield "  last lines of the log:"
        yield from (f"    {printable(line)}" for line in tail[-10:])


def _fact(value: Fact) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)
