"""Charts read back: the lengths that a reader sees are the numbers."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phoneproof.report.charts import (
    LARGEST_OVER_REFERENCE,
    WIDTH,
    Value,
    bar,
    bar_scale,
    dot,
    dot_scale,
    histogram,
)
from phoneproof.report.model import Report, Size
from phoneproof.report.picture import MOST_ROWS, Cell, Line, Picture, pictures
from phoneproof.report.reading import State, run_times_ms
from tests.report import reports, states
from tests.report.reports import FLOAT, INT8

FREE = (float("-inf"), float("inf"))


def value(number: float, low: float | None = None, high: float | None = None) -> Value:
    return Value(number, low, high, "pass")


def found(drawing: str, kind: str) -> list[ET.Element]:
    return [e for e in ET.fromstring(drawing).iter() if kind in str(e.get("class", "")).split()]


def width(drawing: str) -> float:
    return float(found(drawing, "bar")[0].get("width", ""))


@given(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=12))
def test_bars_begin_at_zero_and_are_in_proportion(numbers: list[float]) -> None:
    scale = bar_scale([value(n) for n in numbers], [max(numbers)])
    for number in numbers:
        length = width(bar(value(number), scale, None))
        assert length == pytest.approx(max(number / max(numbers) * (WIDTH - 1), 1.5), abs=0.06)


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=12), st.floats(1e-3, 1e6))
def test_a_bar_is_cut_off_only_where_it_would_hide_the_others_and_shows_it(
    numbers: list[float], reference: float
) -> None:
    scale = bar_scale([value(n) for n in numbers], [reference])
    assert reference <= scale.hi <= max(*numbers, reference)
    for number in numbers:
        broken = found(bar(value(number), scale, reference), "break")
        assert bool(broken) == (number > LARGEST_OVER_REFERENCE * reference)


def test_without_a_baseline_one_long_bar_does_not_hide_the_others() -> None:
    scale = bar_scale([value(1.0), value(1.2), value(0.8), value(500.0)], [])
    assert scale.hi == 1.2
    assert bar_scale([value(3.0)], []).hi == 3.0
    assert bar_scale([], []).hi == 1.0


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12))
def test_dots_keep_the_order_of_their_values_and_stay_inside(numbers: list[float]) -> None:
    values = [value(n, n - 1, n + 1) for n in numbers]
    scale = dot_scale(values, [], FREE)
    places = [float(found(dot(one, scale, None), "dot")[0].get("cx", "")) for one in values]
    assert all(4.5 <= place <= WIDTH - 4.5 for place in places)
    for (_, a), (_, b) in pairwise(sorted(zip(numbers, places, strict=True))):
        assert a <= b + 0.11


def test_the_range_of_dots_holds_every_interval_and_the_reference() -> None:
    scale = dot_scale([value(0.97, 0.96, 0.98)], [0.99], FREE)
    assert scale.lo < 0.96
    assert scale.hi > 0.99


def test_the_range_of_a_share_ends_at_the_whole() -> None:
    assert dot_scale([value(0.99, 0.97, 1.01)], [], (0.0, 1.0)).hi == 1.0
    assert dot_scale([value(0.01, -0.02, 0.02)], [], (0.0, 1.0)).lo == 0.0


def test_a_whisker_spans_its_interval() -> None:
    scale = bar_scale([value(50.0, 40.0, 80.0)], [80.0])
    path = str(found(bar(value(50.0, 40.0, 80.0), scale, None), "whisker")[0].get("d"))
    lo, hi = (float(x) for x in re.findall(r"(?:M|H)([\d.]+)", path))
    assert hi - lo == pytest.approx(40 / 80 * (WIDTH - 1), abs=0.2)


def test_the_reference_is_where_its_value_is() -> None:
    scale = bar_scale([value(25.0)], [100.0])
    (line,) = found(bar(value(25.0), scale, 50.0), "reference")
    assert float(line.get("x1", "")) == pytest.approx((WIDTH - 1) / 2, abs=0.1)
    assert found(bar(value(25.0), scale, None), "reference") == []


def test_each_state_has_a_shape_of_its_own() -> None:
    scale = dot_scale([value(1.0)], [], FREE)
    drawn = [dot(Value(1.0, None, None, state), scale, None) for state in get_args(State)]
    without_colour = {re.sub(r'class="[^"]*"', "", drawing) for drawing in drawn[:3]}
    assert len(without_colour) == 3  # pass and inconclusive are a full and an open circle


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=300))
def test_a_histogram_shows_a_bin_for_every_run(runs: list[int]) -> None:
    drawing = histogram(runs, "t", "lo", "hi", sorted(runs)[len(runs) // 2])
    heights = [float(tall) for tall in re.findall(r"v-([\d.]+)", str(found(drawing, "bin")[0].get("d")))]
    assert 1 <= len(heights) <= min(len(set(runs)), 40)
    assert all(tall >= 1 for tall in heights)


def test_no_runs_draw_nothing() -> None:
    assert histogram([], "t", "", "", 0.0) == ""


def test_runs_of_batches_are_shown_per_inference() -> None:
    latency = reports.latency(1.0, runs=5, batch=10)
    assert run_times_ms(latency)[0] == pytest.approx(latency.runs[0] / 1e7)


def lines(picture: Picture) -> list[Line]:
    return [line for group in picture.groups for line in group.lines]


def cells(drawn: Sequence[Line]) -> list[Cell]:
    return [cell for line in drawn for cell in (line.size, line.latency, line.accuracy)]


def test_there_is_one_picture_for_each_device_with_size_latency_and_accuracy() -> None:
    drawn = pictures(reports.failures())
    assert [p.device.id for p in drawn if p.device] == ["host", "pixel"]
    for picture in drawn:
        assert picture.size_ends
        assert picture.latency_ends
        assert picture.accuracy_ends
        first = lines(picture)[0]
        assert all(cell.drawing for cell in (first.size, first.latency, first.accuracy))


def test_what_was_not_measured_has_no_drawing() -> None:
    (picture,) = pictures(reports.one_build())
    (line,) = lines(picture)
    assert line.accuracy == Cell("not measured")
    assert picture.accuracy_ends is None
    assert pictures(reports.nothing_measured()) == ()


def test_sizes_are_drawn_where_nothing_ran() -> None:
    (only,) = pictures(reports.nothing_ran())
    assert only.device is None
    assert [bool(line.size.drawing) for line in lines(only)] == [True, True]
    assert only.latency_ends is None


def test_a_failed_build_keeps_its_line() -> None:
    picture = pictures(reports.failures())[0]
    (failed,) = [line for line in lines(picture) if line.label == "onnx-int8-qoperator"]
    assert {cell.text for cell in cells([failed])} == {"build failed"}
    assert failed.state == "fail"


def test_builds_stand_by_format_with_the_baseline_of_each_first() -> None:
    (picture,) = pictures(states.two_platforms())
    assert [group.title for group in picture.groups] == ["ONNX", "Core ML"]
    assert [group.lines[0].label for group in picture.groups] == ["onnx-float32", "coreml-float32"]
    assert all(group.lines[0].state == "baseline" for group in picture.groups)


def test_the_dashed_line_is_the_baseline_of_the_same_format() -> None:
    (picture,) = pictures(states.two_platforms())
    places = [
        {found(str(line.size.drawing), "reference")[0].get("x1") for line in group.lines}
        for group in picture.groups
    ]
    assert [len(place) for place in places] == [1, 1]
    assert places[0] != places[1]  # 1.122 and 1.15 MB


def test_a_build_stands_beside_the_baseline_of_its_own_source() -> None:
    report = states.two_platforms()
    renamed = {FLOAT: "digits/pytorch/onnx-float32", INT8: "digits/pytorch/onnx-int8"}
    other = tuple(
        replace(
            one,
            configuration=replace(one.configuration, build_id=renamed[one.configuration.build_id]),
            comparison=None,
            size=Size(900_000, 900_000 if one.baseline else 230_000, 1.0),
        )
        for one in report.results[:2]
    )
    (picture,) = pictures(replace(report, builds=(), results=(*report.results, *other)))
    places = {
        line.label: found(str(line.size.drawing), "reference")[0].get("x1")
        for line in lines(picture)
        if "onnx-" in line.label
    }
    assert places["onnx/onnx-int8"] == places["onnx/onnx-float32"]
    assert places["pytorch/onnx-int8"] == places["pytorch/onnx-float32"] != places["onnx/onnx-float32"]


def test_the_recommended_builds_are_marked() -> None:
    (picture,) = pictures(states.two_platforms())
    assert [line.label for line in lines(picture) if line.best] == ["onnx-int8-dynamic", "coreml-int8"]


def test_a_picture_of_very_many_builds_says_how_many_it_leaves_out() -> None:
    report = reports.all_pass()
    many = tuple(
        replace(one, configuration=replace(one.configuration, build_id=f"digits/onnx/onnx-int8/{i}"))
        for i, one in enumerate([report.results[1]] * (MOST_ROWS + 7))
    )
    (picture,) = pictures(replace(report, builds=(), results=many))
    assert len(lines(picture)) == MOST_ROWS
    assert picture.left_out == 7


def test_models_have_pictures_of_their_own_each_with_its_own_baseline() -> None:
    report = reports.two_models()
    assert [picture.model for picture in pictures(report)] == ["digits", "faces"]
    assert [picture.model for picture in pictures(reports.all_pass())] == [None]
    digits, faces = pictures(report)
    assert digits.latency_ends != faces.latency_ends  # scales are those of this model alone
    assert all(line.build_id.startswith("faces/") for line in lines(faces))
    assert faces == replace(pictures(only(report, "faces/"))[0], model="faces", groups=faces.groups)


def only(report: Report, start: str) -> Report:
    return replace(
        report,
        builds=tuple(b for b in report.builds if b.build_id.startswith(start)),
        results=tuple(r for r in report.results if r.configuration.build_id.startswith(start)),
    )


def test_in_a_picture_builds_keep_their_names_beside_how_they_ran() -> None:
    report = reports.two_models()
    four = tuple(
        replace(one, configuration=replace(one.configuration, threads=4)) for one in report.results[:2]
    )
    (digits, _) = pictures(replace(report, results=(*report.results, *four)))
    labels = [line.label for line in lines(digits)]
    assert "digits/onnx/onnx-int8, cpu, 1 thread" in labels
    assert "digits/onnx/onnx-float32, cpu, 4 threads" in labels
