"""Before and after at a glance: size, latency and accuracy of every build, side by side.

The picture is a table whose cells hold a number and its drawing, so that what it shows can be read, heard and
copied too. Builds stand by format, since each format has a baseline of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from markupsafe import Markup

from phoneproof.report import charts, reading, units
from phoneproof.report.formats import format_of
from phoneproof.report.model import Report, ReportedBuild, ReportedDevice, Result
from phoneproof.report.words import format_name

MOST_ROWS: Final = 60
"""Rows that one picture shows; the table of results has them all."""


@dataclass(frozen=True)
class Cell:
    """A number with its drawing. text: what stands for it where nothing was measured.

    notes: what must stay on the number beside its marks. marks: findings that touch it.
    """

    text: str
    drawing: Markup | None = None
    notes: tuple[str, ...] = ()
    marks: tuple[reading.Mark, ...] = ()


@dataclass(frozen=True)
class Line:
    """One build, run in one way. label: its short name. build_id: the full one. best: it is recommended."""

    label: str
    build_id: str
    state: reading.State
    size: Cell
    latency: Cell
    accuracy: Cell
    best: bool = False


@dataclass(frozen=True)
class Group:
    """The builds of one format; its baseline comes first."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Picture:
    """The builds of one model on one device.

    device: None where nothing ran. model: its name, None in a report of one model. *_ends: the ends of each
    scale as text, None where nothing is drawn. metric: None where no accuracy was measured. left_out: rows
    beyond MOST_ROWS. cut_off: whether a bar is longer than its scale.
    """

    device: ReportedDevice | None
    model: str | None
    groups: tuple[Group, ...]
    size_ends: tuple[str, str] | None
    latency_ends: tuple[str, str] | None
    accuracy_ends: tuple[str, str] | None
    metric: str | None
    left_out: int
    cut_off: bool


@dataclass(frozen=True)
class _Row:
    """A result, or a build that has none."""

    build: ReportedBuild | None
    result: Result | None
    group: str

    @property
    def build_id(self) -> str:
        """Of whichever it is."""
        return (
            self.result.configuration.build_id if self.result else self.build.build_id if self.build else ""
        )


@dataclass(frozen=True)
class _Scene:
    """What every row needs to know. *_scale: shared by all rows, so that they can be compared."""

    report: Report
    names: Mapping[str, str]
    several: frozenset[reading.ResultKey]
    sizes: Mapping[str, int | None]
    size_scale: charts.Scale
    latency_scale: charts.Scale
    accuracy_scale: charts.Scale


def pictures(report: Report) -> tuple[Picture, ...]:
    """One picture for each model on each device; the sizes alone of a model that ran nowhere but was built.

    Models have pictures of their own, since the bars of one say nothing beside those of another.
    """
    models = reading.models(report)
    return tuple(
        picture
        for model in models
        for picture in _pictures_of(report, model, model if len(models) > 1 else None)
    )


def _pictures_of(report: Report, model: str, shown: str | None) -> Iterator[Picture]:
    results = [r for r in report.results if reading.model_name(r.configuration.build_id) == model]
    idle = [b for b in reading.builds_without_result(report) if reading.model_name(b.build_id) == model]
    for device in reading.devices(report):
        here = [r for r in results if r.device.id == device.id]
        if here:
            yield _picture(report, device, shown, _rows(here, idle))
    if not results and any(build.size_bytes for build in idle):
        yield _picture(report, None, shown, _rows([], idle))


def _rows(results: Sequence[Result], idle: Sequence[ReportedBuild]) -> list[_Row]:
    """By format in the order of the plan, its baseline first."""
    rows = [
        *(_Row(None, result, format_name(format_of(result.recipe))) for result in results),
        *(_Row(build, None, format_name(format_of(build.recipe))) for build in idle),
    ]
    order = list(dict.fromkeys(row.group for row in rows))
    return sorted(rows, key=lambda row: (order.index(row.group), not (row.result and row.result.baseline)))


def _picture(
    report: Report, device: ReportedDevice | None, model: str | None, rows: Sequence[_Row]
) -> Picture:
    sizes = reading.build_sizes(report)
    size_values = [v for row in rows if (v := _size_value(row, sizes))]
    latencies = [v for row in rows if (v := _latency_value(row))]
    accuracies = [v for row in rows if (v := _accuracy_value(row))]
    baselines = [row for row in rows if row.result is not None and row.result.baseline]
    metric = next((r.accuracy.metric for row in rows if (r := row.result) and r.accuracy), None)
    references = [a for row in rows if (a := _source_accuracy(row)) is not None]
    share = metric is not None and metric in units.SHARE_METRICS
    scene = _Scene(
        report,
        reading.build_names(report),
        reading.ambiguous(report),
        sizes,
        charts.bar_scale(size_values, [v.value for row in baselines if (v := _size_value(row, sizes))]),
        charts.bar_scale(latencies, [v.value for row in baselines if (v := _latency_value(row))]),
        charts.dot_scale(accuracies, references, (0.0, 1.0) if share else (float("-inf"), float("inf"))),
    )
    longest = [(size_values, scene.size_scale), (latencies, scene.latency_scale)]
    ends = scene.accuracy_scale
    return Picture(
        device=device,
        model=model,
        groups=tuple(_groups(scene, rows[:MOST_ROWS])),
        size_ends=("0", units.bytes_text(scene.size_scale.hi)) if size_values else None,
        latency_ends=("0", units.milliseconds(scene.latency_scale.hi)) if latencies else None,
        accuracy_ends=(units.metric_value(metric, ends.lo), units.metric_value(metric, ends.hi))
        if accuracies
        else None,
        metric=metric,
        left_out=max(len(rows) - MOST_ROWS, 0),
        cut_off=any(value.value > scale.hi for values, scale in longest for value in values),
    )


def _groups(scene: _Scene, rows: Sequence[_Row]) -> Iterator[Group]:
    for title, members in groupby(rows, key=lambda row: row.group):
        own = list(members)
        baselines = [row for row in own if row.result is not None and row.result.baseline]
        yield Group(title, tuple(_line(scene, row, _baseline_of(row, baselines)) for row in own))


def _baseline_of(row: _Row, baselines: Sequence[_Row]) -> _Row | None:
    """The baseline that a build is drawn beside: what it was timed against, else that of its own source."""
    named = row.result.comparison.baseline if row.result and row.result.comparison else None
    form = row.build_id.split("/")[:2]
    fits = [one for one in baselines if one.build_id == named]
    fits += [one for one in baselines if one.build_id.split("/")[:2] == form]
    return next(iter([*fits, *baselines]), None)


def _line(scene: _Scene, row: _Row, baseline: _Row | None) -> Line:
    label = scene.names[row.build_id]
    if row.result is not None and reading.key(row.result) in scene.several:
        label = f"{label}, {reading.placement_text(row.result.configuration)}"
    state: reading.State = "fail" if row.build and row.build.status == "failed" else "inconclusive"
    if row.result is not None:
        state = reading.state(row.result)
    return Line(
        label,
        row.build_id,
        state,
        _size_cell(scene, row, baseline),
        _latency_cell(scene, row, baseline),
        _accuracy_cell(scene, row),
        any(row.build_id == one.build_id for one in reading.advice(scene.report)),
    )


def _never(row: _Row) -> Cell:
    """What stands in the cells of a build that has no such number."""
    if row.build is None:
        return Cell("not measured")
    return Cell("build failed" if row.build.status == "failed" else "not run")


def _size_value(row: _Row, sizes: Mapping[str, int | None]) -> charts.Value | None:
    size = sizes.get(row.build_id)
    state = reading.state(row.result) if row.result else "inconclusive"
    return None if size is None else charts.Value(size, None, None, state)


def _latency_value(row: _Row) -> charts.Value | None:
    if row.result is None or row.result.latency is None:
        return None
    latency, counted = row.result.latency, reading.outputs_are_right(row.result) or row.result.baseline
    return charts.Value(latency.median_ms, latency.min_ms, latency.p95_ms, reading.state(row.result), counted)


def _accuracy_value(row: _Row) -> charts.Value | None:
    if row.result is None or row.result.accuracy is None:
        return None
    low, high = reading.accuracy_interval(row.result) or (None, None)
    return charts.Value(row.result.accuracy.value, low, high, reading.state(row.result))


def _source_accuracy(row: _Row) -> float | None:
    return row.result.accuracy.reference_value if row.result and row.result.accuracy else None


def _size_cell(scene: _Scene, row: _Row, baseline: _Row | None) -> Cell:
    value = _size_value(row, scene.sizes)
    if value is None:
        return _never(row)
    of_baseline = _size_value(baseline, scene.sizes) if baseline else None
    reference = of_baseline.value if of_baseline else None
    marks = reading.marks(scene.report, row.result, "size") if row.result else ()
    return Cell(units.bytes_text(value.value), charts.bar(value, scene.size_scale, reference), marks=marks)


def _latency_cell(scene: _Scene, row: _Row, baseline: _Row | None) -> Cell:
    value = _latency_value(row)
    if value is None or row.result is None:
        return _never(row)
    of_baseline = _latency_value(baseline) if baseline else None
    reference = of_baseline.value if of_baseline else None
    return Cell(
        units.milliseconds(value.value),
        charts.bar(value, scene.latency_scale, reference),
        (*_unreal(row.result), *(() if value.counted else ("not counted",))),
        reading.marks(scene.report, row.result, "latency"),
    )


def _accuracy_cell(scene: _Scene, row: _Row) -> Cell:
    value = _accuracy_value(row)
    if value is None or row.result is None or row.result.accuracy is None:
        return _never(row)
    return Cell(
        units.metric_value(row.result.accuracy.metric, value.value),
        charts.dot(value, scene.accuracy_scale, _source_accuracy(row)),
        _unreal(row.result),
        reading.marks(scene.report, row.result, "accuracy"),
    )


def _unreal(result: Result) -> tuple[str, ...]:
    word = reading.unreal(result.device)
    return () if word is None else (word,)
