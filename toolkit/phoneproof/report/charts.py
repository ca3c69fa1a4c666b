"""Charts as inline SVG: data in, markup out. Colours, patterns and fonts are classes of report.css.

Every text that comes in is escaped; the markup that comes out is safe to put into a page as it is. A width
of 320 units is about 320 px, so that text stays legible on a phone without another drawing.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from phoneproof.report.foreign import shortened, visible
from phoneproof.report.reading import State

WIDTH: Final = 320
_STRIP_WIDTH: Final = 180
_ROW: Final = 46
_TOP: Final = 6
_BAR: Final = 14
# Widths at 13 px in DejaVu Sans, the widest of the fonts that the page asks for (Chromium, Debian 12).
_LABEL_CHARACTER: Final = 7.1
_VALUE_CHARACTER: Final = 7.5
_SIGN: Final = 20.0
_NOTHING: Final = Markup()


@dataclass(frozen=True)
class Row:
    """One row of a chart. value: None draws no bar. text: what stands beside the label.

    low, high: ends of the interval. state: drawn as a colour, a pattern and a sign before the label.
    counted: False draws the bar hollow, for a speed of outputs that are not shown to be right.
    """

    label: str
    text: str
    value: float | None
    low: float | None
    high: float | None
    state: State
    counted: bool = True


@dataclass(frozen=True)
class _Scale:
    lo: float
    hi: float
    left: float = 2.0
    right: float = WIDTH - 2.0

    def __call__(self, value: float) -> float:
        share = (value - self.lo) / (self.hi - self.lo) if self.hi > self.lo else 0.5
        return self.left + min(max(share, 0.0), 1.0) * (self.right - self.left)


SIGNS: Final = {
    "baseline": "\N{BLACK DIAMOND}",
    "pass": "\N{CHECK MARK}",
    "fail": "\N{BALLOT X}",
    "inconclusive": "?",
}


def bar_chart(title: str, rows: Sequence[Row], reference: float | None) -> Markup:
    """Horizontal bars from zero, a whisker for each interval, a dashed line at the baseline's value."""
    highest = max(_values(rows, reference), default=0.0)
    scale = _Scale(0.0, highest * 1.02 or 1.0)
    return _chart(title, rows, reference, scale, _bar)


def dot_chart(title: str, rows: Sequence[Row], reference: float | None, ends: tuple[str, str]) -> Markup:
    """Dots with whiskers on a scale that does not begin at zero, since its ends are named.

    ends: the text of the lower and upper end, as `dot_range` gives them.
    """
    scale = _Scale(*dot_range(rows, reference), left=8.0, right=WIDTH - 8.0)
    axis = Markup(
        '<line class="axis" x1="8" x2="{right}" y1="{y}" y2="{y}"/>'
        '<text class="tick" x="8" y="{below}">{lo}</text>'
        '<text class="tick end" x="{right}" y="{below}">{hi}</text>'
    ).format(right=WIDTH - 8, y=_height(rows) - 2, below=_height(rows) + 13, lo=ends[0], hi=ends[1])
    return _chart(title, rows, reference, scale, _dot, axis)


def dot_range(rows: Sequence[Row], reference: float | None) -> tuple[float, float]:
    """Ends of a dot chart's scale: all values and intervals, with some air."""
    values = _values(rows, reference) or [0.0]
    lo, hi = min(values), max(values)
    air = (hi - lo) * 0.12 or abs(hi) * 0.01 or 1.0
    return lo - air, hi + air


def histogram(values: Sequence[float], title: str, lo_text: str, hi_text: str, median: float) -> Markup:
    """Distribution of run times from the fastest to the slowest, with a line at the median."""
    if not values:
        return Markup()
    scale, bins, height = _Scale(min(values), max(values), right=_STRIP_WIDTH - 2), 40, 36
    counts = [0] * bins
    for value in values:
        share = (value - scale.lo) / (scale.hi - scale.lo) if scale.hi > scale.lo else 0.5
        counts[min(int(share * bins), bins - 1)] += 1
    wide = (scale.right - scale.left) / bins
    bars = Markup().join(
        Markup('<rect class="bin" x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}"/>').format(
            x=scale.left + i * wide, y=height - tall, w=wide - 1, h=tall
        )
        for i, tall in ((i, max(n / max(counts) * (height - 4), 1.0)) for i, n in enumerate(counts) if n)
    )
    line = Markup('<line class="median" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{y}"/>').format(
        x=scale(median), y=height
    )
    axis = Markup(
        '<line class="axis" x1="2" x2="{right}" y1="{h}" y2="{h}"/>'
        '<text class="tick" x="2" y="{below}">{lo}</text>'
        '<text class="tick end" x="{right}" y="{below}">{hi}</text>'
    ).format(right=scale.right, h=height, below=height + 13, lo=visible(lo_text), hi=visible(hi_text))
    return _svg(title, height + 17, bars + line + axis, "histogram", _STRIP_WIDTH)


def _values(rows: Iterable[Row], reference: float | None) -> list[float]:
    every = [v for row in rows for v in (row.value, row.low, row.high) if v is not None]
    return every if reference is None else [*every, reference]


def _height(rows: Sequence[Row]) -> int:
    return _TOP + _ROW * len(rows)


def _svg(title: str, height: float, inside: Markup, kind: str, width: int = WIDTH) -> Markup:
    return Markup(
        '<svg class="{kind}" viewBox="0 0 {width} {height:.0f}" role="img" focusable="false">'
        "<title>{title}</title>{inside}</svg>"
    ).format(kind=kind, width=width, height=height, title=visible(title), inside=inside)


def _chart(
    title: str,
    rows: Sequence[Row],
    reference: float | None,
    scale: _Scale,
    shape: Callable[[Row, float, _Scale], Markup],
    axis: Markup = _NOTHING,
) -> Markup:
    height = _height(rows)
    drawn = Markup().join(_row(row, _TOP + i * _ROW, scale, shape) for i, row in enumerate(rows))
    line = _NOTHING
    if reference is not None:
        x, drawn_rows = scale(reference), [i for i, row in enumerate(rows) if row.value is not None]
        path = "".join(f"M{x:.1f} {_TOP + i * _ROW + 18}v18" for i in drawn_rows)
        line = Markup('<path class="reference" d="{path}"/>').format(path=path)
    return _svg(title, height + (18 if axis else 0), drawn + line + axis, "chart")


def _row(row: Row, top: float, scale: _Scale, shape: Callable[[Row, float, _Scale], Markup]) -> Markup:
    label = visible(row.label)
    room = max(int((WIDTH - _SIGN - len(row.text) * _VALUE_CHARACTER) / _LABEL_CHARACTER), 8)
    words = Markup(
        '<text class="label" x="2" y="{y}"><tspan class="sign {state}">{sign}</tspan> {short}</text>'
        '<text class="value end" x="{right}" y="{y}">{text}</text>'
    ).format(
        y=top + 13,
        right=WIDTH - 2,
        state=row.state,
        sign=SIGNS[row.state],
        short=shortened(label, room),
        text=visible(row.text),
    )
    bar = _NOTHING if row.value is None else shape(row, top + 20, scale)
    return Markup("<g><title>{full}: {text}</title>{words}{bar}</g>").format(
        full=label, text=visible(row.text), words=words, bar=bar
    )


def _bar(row: Row, top: float, scale: _Scale) -> Markup:
    bar = Markup(
        '<rect class="{kind}" x="{x}" y="{y}" width="{width:.1f}" height="{tall}" rx="1.5"/>'
    ).format(
        kind=f"bar {row.state}" + ("" if row.counted else " hollow"),
        x=scale.left,
        y=top,
        width=max(scale(row.value or 0.0) - scale.left, 1.5),
        tall=_BAR,
    )
    return bar + _whisker(row, top, scale)


_DOTS: Final = {
    "baseline": Markup('<path class="dot baseline" d="M{x:.1f} {y}m0-6l6 6-6 6-6-6z"/>'),
    "pass": Markup('<circle class="dot pass" cx="{x:.1f}" cy="{y}" r="5.5"/>'),
    "fail": Markup('<path class="dot fail" d="M{x:.1f} {y}m-5-5l10 10m0-10l-10 10"/>'),
    "inconclusive": Markup('<circle class="dot inconclusive" cx="{x:.1f}" cy="{y}" r="5.5"/>'),
}


def _dot(row: Row, top: float, scale: _Scale) -> Markup:
    y = top + _BAR / 2
    guide = Markup('<line class="guide" x1="{lo}" x2="{hi}" y1="{y}" y2="{y}"/>').format(
        lo=scale.left, hi=scale.right, y=y
    )
    return guide + _whisker(row, top, scale) + _DOTS[row.state].format(x=scale(row.value or 0.0), y=y)


def _whisker(row: Row, top: float, scale: _Scale) -> Markup:
    if row.low is None or row.high is None:
        return _NOTHING
    return Markup('<path class="whisker" d="M{lo:.1f} {a}v8m0-4H{hi:.1f}m0-4v8"/>').format(
        lo=scale(row.low), hi=scale(row.high), a=top + _BAR / 2 - 4
    )
