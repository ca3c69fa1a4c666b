"""Numbers as text. One way for each unit, so that a report reads alike everywhere.

Bytes are decimal (1 MB = 1,000,000 bytes), as shops and the stores of apps count them.
"""

import math
from datetime import UTC, datetime
from typing import Final

MISSING: Final = "\N{EN DASH}"
MINUS: Final = "\N{MINUS SIGN}"
TIMES: Final = "\N{MULTIPLICATION SIGN}"
SHARE_METRICS: Final = frozenset({"top-1", "top-5", "top1", "top5", "accuracy"})
"""Metrics that are a share of the samples, shown in per cent; others are shown as they are."""


_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def point_in_time(iso: str) -> str:
    """A time of ISO 8601 with a zone, in UTC: `30 Nov 2026, 13:44 UTC`. Other text is shown as it is."""
    try:
        given = datetime.fromisoformat(iso)
        at = given.astimezone(UTC)
    except (ValueError, OverflowError):
        return iso
    if given.tzinfo is None:
        return iso
    return f"{at.day} {_MONTHS[at.month - 1]} {at.year}, {at:%H:%M} UTC"


def counted(number: int, one: str, several: str | None = None) -> str:
    """A number with what it counts: `1 result`, `2 results`."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def significant(value: float, digits: int = 3) -> str:
    """`value` rounded to so many digits, without an exponent where that stays readable."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    exponent = math.floor(math.log10(abs(rounded)))
    if not -5 < exponent < 7:
        return f"{rounded:.{digits - 1}e}".replace("-", MINUS)
    return f"{rounded:,.{max(digits - 1 - exponent, 0)}f}".replace("-", MINUS)


def milliseconds(value: float) -> str:
    """A time given in ms, in the unit that suits it: ns, µs, ms or s."""
    for limit, factor, unit in ((0.001, 1e6, "ns"), (1.0, 1e3, "µs"), (1000.0, 1.0, "ms")):
        if abs(value) < limit:
            return f"{significant(value * factor)} {unit}"
    return f"{significant(value / 1000)} s"


def bytes_text(value: float) -> str:
    """A size in bytes, decimal: B, kB, MB or GB."""
    for limit, factor, unit in ((1e3, 1.0, "B"), (1e6, 1e3, "kB"), (1e9, 1e6, "MB")):
        if abs(value) < limit:
            return f"{significant(value / factor)} {unit}"
    return f"{significant(value / 1e9)} GB"


def times(value: float) -> str:
    """A ratio, with the multiplication sign."""
    return f"{value:,.2f}{TIMES}" if abs(value) < 100 else f"{value:,.0f}{TIMES}"


def percent(value: float) -> str:
    """A share of 1 in per cent."""
    return f"{value * 100:.2f} %".replace("-", MINUS)


def points(value: float) -> str:
    """A difference of two shares in percentage points, with its sign."""
    text = f"{value * 100:+.2f}"
    return "0.00" if text in ("+0.00", "-0.00") else text.replace("-", MINUS)


def decibel(value: float) -> str:
    """A ratio in dB."""
    return f"{value:.1f} dB".replace("-", MINUS)


def count(value: float) -> str:
    """A number of things."""
    return f"{value:,.0f}".replace("-", MINUS)


def metric_value(metric: str | None, value: float) -> str:
    """A value of a metric: a share in per cent, anything else as it is. None counts as a share."""
    return percent(value) if metric is None or metric in SHARE_METRICS else significant(value, 4)


def metric_difference(metric: str | None, value: float) -> str:
    """A difference of two values of a metric, with sign: shares in points."""
    if metric is None or metric in SHARE_METRICS:
        return f"{points(value)} points"
    return ("+" if value > 0 else "") + significant(value, 3)
