"""report.csv read back: every row is there, numbers are numbers, and no cell is a formula."""

import csv
import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phoneproof.report.csv_report import COLUMNS, cell_text, csv_text
from phoneproof.report.foreign import visible
from phoneproof.report.model import Report
from tests.report import reports, states
from tests.report.test_hostile_text import HOSTILE, poisoned

FORMULA = "=+-@\t\r\n"


def rows(report: Report) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_text(report), newline="")))


@pytest.mark.parametrize("state", states.STATES)
def test_every_result_edge_input_case_and_idle_build_has_a_row(state: str) -> None:
    report = states.STATES[state]()
    counted = {"result": len(report.results), "edge": 0, "case": 0, "build": 0}
    for result in report.results:
        counted["edge"] += len(result.edge_results)
        counted["case"] += len(result.cases)
    ran = {r.configuration.build_id for r in report.results}
    counted["build"] = sum(b.build_id not in ran for b in report.builds)
    read = rows(report)
    assert {kind: sum(row["record"] == kind for row in read) for kind in counted} == counted
    assert all(tuple(row) == COLUMNS for row in read)


def test_numbers_are_plain_and_exact() -> None:
    report = reports.all_pass()
    row = rows(report)[2]
    own = report.results[1]
    assert own.latency
    assert own.accuracy
    assert row["build_id"] == own.configuration.build_id
    assert float(row["latency_median_ms"]) == own.latency.median_ms
    assert float(row["drop_low"]) == -0.0031  # a negative number stays a number
    assert row["size_bytes"] == "291000"
    assert row["parity_exact"] == "no"


def test_what_is_simulated_says_so_in_each_of_its_rows() -> None:
    kinds = {row["device"]: row["device_kind"] for row in rows(reports.failures()) if row["device"]}
    assert kinds["Pixel 8"] == "simulated"


def test_a_failed_build_has_its_reason() -> None:
    (failed,) = [row for row in rows(reports.failures()) if row["record"] == "build"]
    assert failed["verdict"] == "fail"
    assert failed["reason"] == "The converter does not know the operator GridSample."


@given(st.text(alphabet=st.characters() | st.sampled_from("=+-@\t\r\n,;\"'|")))
def test_any_text_comes_back_and_none_is_a_formula(text: str) -> None:
    written = io.StringIO(newline="")
    csv.writer(written, lineterminator="\r\n").writerow([cell_text(text), "next"])
    ((cell, following),) = csv.reader(io.StringIO(written.getvalue(), newline=""))
    assert following == "next"
    assert cell[:1] not in FORMULA or cell == ""
    assert cell.removeprefix("'" if cell != visible(text) else "") == visible(text)


@pytest.mark.parametrize(
    "text", [*HOSTILE, '=cmd|"/c calc"!A1', "-1+1", "@SUM(A1)", "\uff1d1"], ids=lambda text: text[:20]
)
def test_foreign_text_anywhere_in_a_report_makes_no_formula_and_no_row(text: str) -> None:
    plain, hostile = (rows(poisoned(reports.failures(), one)) for one in ("harmless", text))
    assert len(hostile) == len(plain)
    for row in hostile:
        for cell in row.values():
            assert cell == "" or cell[0] not in f"{FORMULA}\uff1d" or float(cell) < 0
    "\n".join(cell for row in hostile for cell in row.values()).encode("utf-8")


def test_a_missing_reason_or_size_leaves_its_cell_empty() -> None:
    report = reports.all_pass()
    bare = replace(report.results[1], latency=None, comparison=None, accuracy=None, parity=None, size=None)
    row = rows(replace(report, results=(bare,)))[0]
    empty = ("latency_median_ms", "speed_ratio", "accuracy", "parity_db", "size_ratio")
    assert [row[name] for name in empty] == [""] * len(empty)
