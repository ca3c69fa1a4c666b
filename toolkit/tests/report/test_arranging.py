"""What the sections of a page are made of: grids of edge inputs, keys of rows, shared-out lists, words."""

import typing
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phoneproof.findings import Finding
from phoneproof.protocol.attempts import Outcome
from phoneproof.recipes.table import Format
from phoneproof.report import words
from phoneproof.report.audited import Doubt
from phoneproof.report.edge import EdgeRange
from phoneproof.report.edge_grid import edge_grids, is_of
from phoneproof.report.filters import filter_groups, row_keys
from phoneproof.report.formats import PLATFORMS_OF, format_of
from phoneproof.report.listing import chain_legs, listed_bad_cases, numbered_findings
from phoneproof.report.model import CaseResult
from phoneproof.verify.diagnosis import Cause
from tests.report import reports, states
from tests.report.reports import INT8, result


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (words.EDGE_RANGES, EdgeRange),
        (words.DOUBTS, Doubt),
        (words.SHORT_OUTCOMES, Outcome),
        (words.SHORT_CAUSES, Cause),
    ],
)
def test_a_closed_set_has_a_word_for_each_member(table: Mapping[str, str], kind: Any) -> None:
    assert set(table) == set(typing.get_args(kind))


def test_every_format_has_a_name_and_platforms() -> None:
    assert set(words.FORMATS) == set(PLATFORMS_OF) == set(Format)
    assert words.format_name(format_of("no-recipe-of-this-version")) == words.OTHER_FORMAT
    assert format_of("tflite-file") is Format.TFLITE


def test_forms_of_a_network_with_the_same_edge_inputs_share_a_grid() -> None:
    report = states.edge_failures()
    forms = tuple(
        replace(one, model=f"digits/{form}") for form in ("onnx", "keras") for one in report.edge_inputs
    )
    (grid,) = edge_grids(replace(report, edge_inputs=forms))
    assert grid.models == ("digits/onnx", "digits/keras")
    assert len(grid.rows) == 3
    other = tuple(replace(one, thumbnail=None) if "keras" in one.model else one for one in forms)
    apart = edge_grids(replace(report, edge_inputs=other))
    assert [len(one.rows) for one in apart] == [3, 0]


def test_an_edge_input_that_does_not_apply_to_a_build_leaves_its_cell_empty() -> None:
    report = states.edge_failures()
    first, *rest = report.results
    fewer = replace(first, edge_results=first.edge_results[1:])
    (grid,) = edge_grids(replace(report, results=(fewer, *rest)))
    assert [cell is None for cell in grid.rows[0].cells].count(True) == 1


@pytest.mark.parametrize(
    ("model", "build_id", "fits"),
    [
        ("digits", "digits/onnx/x", True),
        ("digits/onnx", "digits/onnx/x", True),
        ("digit", "digits/onnx/x", False),
    ],
)
def test_edge_inputs_are_of_a_model_or_of_one_of_its_forms(model: str, build_id: str, fits: bool) -> None:
    assert is_of(model, build_id) is fits


@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.integers(0, 60))
def test_a_cut_list_of_cases_is_fair_and_as_full_as_may_be(numbers: list[int], most: int) -> None:
    cases = [tuple(CaseResult(f"c{i}", "infer", "failed") for i in range(n)) for n in numbers]
    report = reports.report([], [result(f"{INT8}/{i}", cases=own) for i, own in enumerate(cases)])
    shown = listed_bad_cases(report, most)
    assert shown.count == sum(numbers)
    assert len(shown.listed) <= most
    of = [sum(r is one for r, _ in shown.listed) for one in report.results]
    for own, number in zip(of, numbers, strict=True):
        assert own <= number
        assert own == number or own >= max(of)  # one that is cut has as many as any other
    if sum(numbers) > most:
        assert len(shown.listed) > most - len(numbers)


def test_findings_that_count_come_first_and_keep_their_numbers() -> None:
    note = Finding.of("BUILD-FLOAT-OPERATORS", INT8, count=1)
    warning = Finding.of("DATA-OVERLAP", "calibration")
    severe = Finding.of("DATA-CONSTANT", "calibration")
    loud, notes = numbered_findings(
        replace(reports.all_pass(), findings=(note, warning, replace(note, waived=True), severe))
    )
    assert [place for place, _ in loud] == [4, 2, 3]
    assert [place for place, _ in notes] == [1]


def test_legs_that_no_build_has_are_told_apart() -> None:
    measured, missing = chain_legs(reports.failures())
    assert measured == ("source_host", "float_host", "quantized_host")
    assert missing == ("device_cpu", "device_accelerator")


def test_rows_carry_what_they_are_filtered_by() -> None:
    report = reports.failures()
    keys = row_keys(report)
    failed = report.builds[3]
    assert keys.of(report.results[1]).split() == [
        "format:onnx", "platform:android", "platform:ios", "verdict:fail", "device:0"
    ]  # fmt: skip
    assert "verdict:fail" in keys.of(failed).split()
    assert {"verdict:fail", "device:0", "device:1"} <= set(keys.of(report.builds[1]).split())
    assert "device:1" in keys.of(report.diagnosis[1]).split()


def test_only_groups_with_a_choice_are_offered() -> None:
    assert [group.name for group in filter_groups(reports.one_build())] == ["platform"]
    assert [group.name for group in filter_groups(states.two_platforms())] == [
        "format",
        "platform",
        "verdict",
    ]
    names = [group.name for group in filter_groups(reports.failures())]
    assert names == ["platform", "verdict", "device"]


def test_every_choice_is_a_key_of_some_row() -> None:
    report = states.fifty_builds()
    keys = row_keys(report)
    known = {key for result_ in report.results for key in keys.of(result_).split()}
    known |= {key for build in report.builds for key in keys.of(build).split()}
    assert {choice.key for group in filter_groups(report) for choice in group.choices} <= known
