"""Charts read back: the lengths that a reader sees are the numbers."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phoneproof.report.charts import WIDTH, Row, bar_chart, dot_chart, dot_range, histogram
from phoneproof.report.picture import pictures
from phoneproof.report.reading import run_times_ms
from tests.report import reports


def row(value: float | None, low: float | None = None, high: float | None = None) -> Row:
    return Row("a build", "text", value, low, high, "pass")


def parsed(drawing: str) -> ET.Element:
    return ET.fromstring(drawing)


def found(drawing: str, kind: str) -> list[ET.Element]:
    return [e for e in parsed(drawing).iter() if kind in str(e.get("class", "")).split()]


@given(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=12))
def test_bars_begin_at_zero_and_are_in_proportion(values: list[float]) -> None:
    bars = found(bar_chart("t", [row(v) for v in values], None), "bar")
    widths = [float(bar.get("width", "")) for bar in bars]
    full = WIDTH - 4
    for value, width in zip(values, widths, strict=True):
        assert width == pytest.approx(max(value / (max(values) * 1.02) * full, 1.5), abs=0.06)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12))
def test_dots_keep_the_order_of_their_values_and_stay_inside(values: list[float]) -> None:
    rows = [row(v, v - 1, v + 1) for v in values]
    dots = found(dot_chart("t", rows, None, ("lo", "hi")), "dot")
    places = [float(dot.get("cx", "")) for dot in dots]
    assert all(8 <= place <= WIDTH - 8 for place in places)
    for (_, a), (_, b) in pairwise(sorted(zip(values, places, strict=True))):
        assert a <= b + 0.11


def test_the_range_of_dots_holds_every_interval_and_the_reference() -> None:
    lo, hi = dot_range([row(0.97, 0.96, 0.98)], 0.99)
    assert lo < 0.96
    assert hi > 0.99


def test_a_whisker_spans_its_interval() -> None:
    drawing = bar_chart("t", [row(50.0, 40.0, 80.0)], None)
    path = str(found(drawing, "whisker")[0].get("d"))
    lo, hi = (float(x) for x in re.findall(r"(?:M|H)([\d.]+)", path))
    assert hi - lo == pytest.approx(40 / (80 * 1.02) * (WIDTH - 4), abs=0.2)


def test_a_row_without_a_value_keeps_its_label_and_has_no_bar() -> None:
    drawing = bar_chart("t", [row(1.0), row(None)], 1.0)
    assert len(found(drawing, "bar")) == 1
    assert len(found(drawing, "label")) == 2
    assert str(found(drawing, "reference")[0].get("d")).count("M") == 1


def test_label_and_value_do_not_meet() -> None:
    label, text = "a name that is far too long to stand beside its value", "809 µs simulated [1], not counted"
    drawing = bar_chart("t", [Row(label, text, 1.0, None, None, "pass")], None)
    short = "".join(found(drawing, "label")[0].itertext())
    assert len(short) * 7.1 + len(text) * 7.5 <= WIDTH + 8 * 7.1
    assert len(short) >= 8


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=300))
def test_a_histogram_shows_a_bin_for_every_run(runs: list[int]) -> None:
    drawing = histogram(runs, "t", "lo", "hi", sorted(runs)[len(runs) // 2])
    bins = found(drawing, "bin")
    assert 1 <= len(bins) <= min(len(set(runs)), 40)
    assert all(float(b.get("height", "")) >= 1 for b in bins)


def test_no_runs_draw_nothing() -> None:
    assert histogram([], "t", "", "", 0.0) == ""


def test_runs_of_batches_are_shown_per_inference() -> None:
    latency = reports.latency(1.0, runs=5, batch=10)
    assert run_times_ms(latency)[0] == pytest.approx(latency.runs[0] / 1e7)


def test_there_is_one_picture_for_each_device_with_all_three_panels() -> None:
    drawn = pictures(reports.failures())
    assert [p.device.id for p in drawn if p.device] == ["host", "pixel"]
    for picture in drawn:
        assert [panel.title.split()[0] for panel in picture.panels] == ["Size", "Latency", "Accuracy"]
        assert all(panel.drawing for panel in picture.panels)


def test_what_was_not_measured_has_no_drawing() -> None:
    panels = pictures(reports.one_build())[0].panels
    assert panels[2].drawing is None
    assert pictures(reports.nothing_measured()) == ()


def test_sizes_are_drawn_where_nothing_ran() -> None:
    (only,) = pictures(reports.nothing_ran())
    assert only.device is None
    assert [panel.title for panel in only.panels] == ["Size"]
    assert len(found(str(only.panels[0].drawing), "bar")) == 2


def test_models_have_pictures_of_their_own_each_with_its_own_baseline() -> None:
    report = reports.two_models()
    assert [picture.model for picture in pictures(report)] == ["digits", "faces"]
    assert [picture.model for picture in pictures(reports.all_pass())] == [None]
    alone = replace(report, builds=report.builds[2:], results=report.results[2:])
    (own,) = pictures(alone)
    _, faces = pictures(report)
    assert faces.panels == own.panels  # scales, the baseline's line and names are those of this model alone
    digits, faces_text = (str(picture.panels) for picture in pictures(report))
    assert "faces/" not in digits
    assert "digits/" not in faces_text


def test_in_a_picture_builds_keep_their_names_beside_how_they_ran() -> None:
    report = reports.two_models()
    four = tuple(
        replace(one, configuration=replace(one.configuration, threads=4)) for one in report.results[:2]
    )
    (digits, _) = pictures(replace(report, results=(*report.results, *four)))
    for panel in digits.panels:
        for label in ("onnx-int8, cpu, 1 thread", "onnx-float32, cpu, 4 threads"):
            assert f"</tspan> {label}" in str(panel.drawing)
