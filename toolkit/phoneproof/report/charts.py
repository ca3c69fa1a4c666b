"""Charts as inline SVG: data in, markup out. Colours, patterns and fonts are classes of report.css.

Every text that comes in is escaped; the markup that comes out is safe to put into a page as it is. A bar or a
dot is one cell of a table: its number stands beside it as text, so that the drawing itself is hidden from
readers of the screen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from markupsafe import Markup

from phoneproof.report.foreign import visible
from phoneproof.report.reading import State

WIDTH: Final = 160
_HEIGHT: Final = 16
_BAR: Final = 10
_STRIP_WIDTH: Final = 180
_INSET: Final = 6.0
"""Room for the whole of a dot at the ends of its scale."""
LARGEST_OVER_REFERENCE: Final = 2.5
"""A bar longer than this many times the longest baseline's is cut off, else it hides what is compared."""
_NOTHING: Final = Markup()

SIGNS: Final = {
    "baseline": "\N{BLACK DIAMOND}",
    "pass": "\N{CHECK MARK}",
    "fail": "\N{BALLOT X}",
    "inconclusive": "?",
}


@dataclass(frozen=True)
class Value:
    """What one cell draws. low, high: ends of the interval. state: drawn as colour and pattern or shape.

    counted: False draws the bar hollow, for a speed of outputs that are not shown to be right.
    """

    value: float
    low: float | None
    high: float | None
    state: State
    counted: bool = True


@dataclass(frozen=True)
class Scale:
    """From values to places. What lies beyond an end is drawn at it."""

    lo: float
    hi: float
    left: float = 0.0
    right: float = float(WIDTH)

    def __call__(self, value: float) -> float:
        """The place of a value, in units of the drawing."""
        share = (value - self.lo) / (self.hi - self.lo) if self.hi > self.lo else 0.5
        return self.left + min(max(share, 0.0), 1.0) * (self.right - self.left)


def bar_scale(values: Sequence[Value], references: Sequence[float]) -> Scale:
    """A scale from zero to the longest bar that is not cut off.

    references: the baselines' values. Without one the middle value is taken in their place.
    """
    lengths = [one.value for one in values]
    if not lengths:
        return Scale(0.0, 1.0, right=WIDTH - 1.0)
    limit = LARGEST_OVER_REFERENCE * (max(references) if references else median(lengths))
    longest = max([length for length in lengths if length <= limit] + list(references), default=limit)
    within = [one.high for one in values if one.high is not None and one.high <= longest * 1.1]
    return Scale(0.0, max([longest, *within]) or 1.0, right=WIDTH - 1.0)


def dot_scale(values: Sequence[Value], references: Sequence[float], bounds: tuple[float, float]) -> Scale:
    """A scale around all values and intervals with some air, within `bounds`: it does not begin at zero."""
    every = [v for one in values for v in (one.value, one.low, one.high) if v is not None]
    known = [*every, *references] or [0.0]
    lo, hi = min(known), max(known)
    air = (hi - lo) * 0.12 or abs(hi) * 0.01 or 1.0
    return Scale(max(lo - air, bounds[0]), min(hi + air, bounds[1]), left=_INSET, right=WIDTH - _INSET)


def bar(one: Value, scale: Scale, reference: float | None) -> Markup:
    """A bar from zero, its interval as a whisker, a dashed line at the baseline's value.

    A bar that is longer than the scale is cut off, which a break near its end shows.
    """
    top = (_HEIGHT - _BAR) / 2
    length, cut = max(scale(one.value), 1.5), one.value > scale.hi
    drawn = Markup(
        '<rect class="{kind}" x="0.5" y="{top:.1f}" width="{width:.1f}" height="{tall}" rx="1"/>'
    ).format(kind=f"bar {one.state}" + ("" if one.counted else " hollow"), top=top, width=length, tall=_BAR)
    if cut:
        drawn += Markup('<path class="break" d="M{x} {y}l4 -{h}m4 0l-4 {h}"/>').format(
            x=WIDTH - 22, y=top + _BAR + 1.5, h=_BAR + 3
        )
    else:
        drawn += _whisker(one, scale)
    return _cell(drawn + _reference(reference, scale))


_DOTS: Final = {
    "baseline": Markup('<path class="dot baseline" d="M{x:.1f} {y}m0-5.5l5.5 5.5-5.5 5.5-5.5-5.5z"/>'),
    "pass": Markup('<circle class="dot pass" cx="{x:.1f}" cy="{y}" r="4.5"/>'),
    "fail": Markup('<path class="dot fail" d="M{x:.1f} {y}m-4-4l8 8m0-8l-8 8"/>'),
    "inconclusive": Markup('<circle class="dot inconclusive" cx="{x:.1f}" cy="{y}" r="4.5"/>'),
}


def dot(one: Value, scale: Scale, reference: float | None) -> Markup:
    """A dot with its interval as a whisker, a dashed line at the source model's value."""
    y = _HEIGHT // 2
    guide = Markup('<line class="guide" x1="0" x2="{right}" y1="{y}" y2="{y}"/>').format(right=WIDTH, y=y)
    shape = _DOTS[one.state].format(x=scale(one.value), y=y)
    return _cell(guide + _reference(reference, scale) + _whisker(one, scale) + shape)


def histogram(values: Sequence[float], title: str, lo_text: str, hi_text: str, middle: float) -> Markup:
    """Distribution of run times from the fastest to the slowest, with a line at the median, `middle`."""
    if not values:
        return Markup()
    scale, bins, height = Scale(min(values), max(values), 2.0, _STRIP_WIDTH - 2.0), 40, 26
    counts = [0] * bins
    for value in values:
        share = (value - scale.lo) / (scale.hi - scale.lo) if scale.hi > scale.lo else 0.5
        counts[min(int(share * bins), bins - 1)] += 1
    wide = (scale.right - scale.left) / bins
    tops = [(i, max(n / max(counts) * (height - 2), 1.0)) for i, n in enumerate(counts) if n]
    outline = "".join(
        f"M{scale.left + i * wide:.1f} {height}v-{tall:.1f}h{wide - 1:.1f}v{tall:.1f}z" for i, tall in tops
    )
    return Markup(
        '<svg class="histogram" viewBox="0 0 {width} {whole}" role="img" focusable="false">'
        '<title>{title}</title><path class="bin" d="{outline}"/>'
        '<line class="median" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{h}"/>'
        '<line class="axis" x1="2" x2="{right}" y1="{h}" y2="{h}"/>'
        '<text class="tick" x="2" y="{below}">{lo}</text>'
        '<text class="tick end" x="{right}" y="{below}">{hi}</text></svg>'
    ).format(
        width=_STRIP_WIDTH, whole=height + 15, title=visible(title), outline=outline, x=scale(middle),
        h=height, right=scale.right, below=height + 12, lo=visible(lo_text), hi=visible(hi_text),
    )  # fmt: skip


def _cell(inside: Markup) -> Markup:
    return Markup(
        '<svg class="cell" viewBox="0 0 {width} {height}" aria-hidden="true" focusable="false">{inside}</svg>'
    ).format(width=WIDTH, height=_HEIGHT, inside=inside)


def _reference(value: float | None, scale: Scale) -> Markup:
    if value is None:
        return _NOTHING
    return Markup('<line class="reference" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{h}"/>').format(
        x=scale(value), h=_HEIGHT
    )


def _whisker(one: Value, scale: Scale) -> Markup:
    if one.low is None or one.high is None:
        return _NOTHING
    return Markup('<path class="whisker" d="M{lo:.1f} {a}v6m0-3H{hi:.1f}m0-3v6"/>').format(
        lo=scale(one.low), hi=scale(one.high), a=_HEIGHT // 2 - 3
    )
