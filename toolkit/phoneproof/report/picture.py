"""Before and after at a glance: size, latency and accuracy of every build, side by side."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from phoneproof.report import reading, units
from phoneproof.report.charts import Row, bar_chart, dot_chart, dot_range
from phoneproof.report.model import Report, ReportedBuild, ReportedDevice, Result


@dataclass(frozen=True)
class Panel:
    """One small chart. note: how to read it. drawing: None when nothing was measured."""

    title: str
    note: str
    drawing: Markup | None


@dataclass(frozen=True)
class Picture:
    """The panels of one model on one device.

    device: None where nothing ran. model: its name, None in a report of one model.
    """

    device: ReportedDevice | None
    panels: tuple[Panel, ...]
    model: str | None = None


@dataclass(frozen=True)
class _Scene:
    """What every row needs to know of one model's builds. results: those on one device.

    idle: builds that never ran.
    """

    report: Report
    names: Mapping[str, str]
    several: frozenset[reading.ResultKey]
    sizes: Mapping[str, int | None]
    results: tuple[Result, ...]
    idle: tuple[ReportedBuild, ...]

    @property
    def baseline(self) -> Result | None:
        return next((r for r in self.results if r.baseline), None)

    @property
    def never_ran(self) -> list[Row]:
        return [
            _idle_row(self, build, "build failed" if build.status == "failed" else "not run")
            for build in self.idle
        ]

    def label(self, result: Result) -> str:
        name = self.names[result.configuration.build_id]
        return (
            f"{name}, {reading.placement_text(result.configuration)}"
            if reading.key(result) in self.several
            else name
        )

    def said(self, text: str, result: Result, number: reading.Number) -> str:
        """A number with what must stay on it: that its device is not real, and its findings."""
        unreal = reading.unreal(result.device)
        return (
            text
            + (f" {unreal}" if unreal else "")
            + "".join(f" [{mark.number}]" for mark in reading.marks(self.report, result, number))
        )


def pictures(report: Report) -> tuple[Picture, ...]:
    """One picture for each model on each device; the sizes alone of a model that ran nowhere but was built.

    Models have pictures of their own, since the bars of one say nothing beside those of another.
    """
    models = reading.models(report)
    return tuple(
        replace(picture, model=model if len(models) > 1 else None)
        for model in models
        for picture in _pictures_of(report, model)
    )


def _pictures_of(report: Report, model: str) -> Iterator[Picture]:
    results = [r for r in report.results if reading.model_name(r.configuration.build_id) == model]
    idle = [b for b in reading.builds_without_result(report) if reading.model_name(b.build_id) == model]
    for device in reading.devices(report):
        here = [r for r in results if r.device.id == device.id]
        if here:
            scene = _scene(report, here, idle)
            yield Picture(device, (_size_panel(scene), _latency_panel(scene), _accuracy_panel(scene)))
    if not results and any(build.size_bytes for build in idle):
        yield Picture(None, (_size_panel(_scene(report, [], idle)),))


def _scene(report: Report, results: Sequence[Result], idle: Sequence[ReportedBuild]) -> _Scene:
    own = replace(report, builds=tuple(b for b in report.builds if b in idle), results=tuple(results))
    return _Scene(
        report=report,
        names=reading.build_names(own),
        several=reading.ambiguous(report),
        sizes=reading.build_sizes(report),
        results=tuple(results),
        idle=tuple(idle),
    )


def _size_panel(scene: _Scene) -> Panel:
    rows = [_size_row(scene, result) for result in scene.results]
    idle = [
        row if size is None else Row(row.label, units.bytes_text(size), size, None, None, row.state)
        for row, build in zip(scene.never_ran, scene.idle, strict=True)
        for size in (build.size_bytes,)
    ]
    reference = scene.sizes.get(scene.baseline.configuration.build_id) if scene.baseline else None
    return _bars("Size", "File size. Bars begin at zero.", [*rows, *idle], reference)


def _latency_panel(scene: _Scene) -> Panel:
    rows = [_latency_row(scene, result) for result in scene.results]
    baseline = scene.baseline.latency if scene.baseline else None
    note = "Median of one inference, from zero. Whiskers run from the fastest run to the 95th percentile."
    return _bars("Latency", note, [*rows, *scene.never_ran], baseline.median_ms if baseline else None)


def _accuracy_panel(scene: _Scene) -> Panel:
    known = [r.accuracy for r in scene.results if r.accuracy]
    if not known:
        return Panel("Accuracy", "", None)
    metric, reference = known[0].metric, known[0].reference_value
    rows = [*(_accuracy_row(scene, result) for result in scene.results), *scene.never_ran]
    lo, hi = (units.metric_value(metric, end) for end in dot_range(rows, reference))
    note = (
        "Whiskers are 95 % intervals, the dashed line is the source model. The scale does not begin at zero."
    )
    drawing = dot_chart(f"Accuracy ({metric}) by build", rows, reference, (lo, hi))
    return Panel(f"Accuracy ({metric})", note, drawing)


def _bars(title: str, note: str, rows: Sequence[Row], reference: float | None) -> Panel:
    if all(row.value is None for row in rows):
        return Panel(title, "", None)
    return Panel(title, note, bar_chart(f"{title} by build", rows, reference))


def _size_row(scene: _Scene, result: Result) -> Row:
    size, label, state = (
        scene.sizes.get(result.configuration.build_id),
        scene.label(result),
        reading.state(result),
    )
    if size is None:
        return Row(label, "not known", None, None, None, state)
    return Row(label, units.bytes_text(size), size, None, None, state)


def _latency_row(scene: _Scene, result: Result) -> Row:
    latency, label, state = result.latency, scene.label(result), reading.state(result)
    if latency is None:
        return Row(label, "not measured", None, None, None, state)
    counted = reading.outputs_are_right(result) or result.baseline
    text = scene.said(units.milliseconds(latency.median_ms), result, "latency") + (
        "" if counted else ", not counted"
    )
    return Row(label, text, latency.median_ms, latency.min_ms, latency.p95_ms, state, counted)


def _accuracy_row(scene: _Scene, result: Result) -> Row:
    accuracy, label, state = result.accuracy, scene.label(result), reading.state(result)
    if accuracy is None:
        return Row(label, "not measured", None, None, None, state)
    low, high = reading.accuracy_interval(result) or (None, None)
    text = scene.said(units.metric_value(accuracy.metric, accuracy.value), result, "accuracy")
    return Row(label, text, accuracy.value, low, high, state)


def _idle_row(scene: _Scene, build: ReportedBuild, text: str) -> Row:
    state: reading.State = "fail" if build.status == "failed" else "inconclusive"
    return Row(scene.names[build.build_id], text, None, None, None, state)
