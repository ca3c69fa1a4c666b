import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from phoneproof.errors import ProtocolError, StorageError
from phoneproof.report.json_report import parse_report, read_report, report_text, write_report
from phoneproof.verify.verdicts import Reason
from tests.report import reports


@pytest.mark.parametrize("state", reports.STATES)
def test_a_report_is_read_back_as_it_was_written(state: str, tmp_path: Path) -> None:
    report = reports.STATES[state]()
    path = write_report(report, tmp_path / "report")
    assert path == tmp_path / "report" / "report.json"
    assert read_report(path) == report


def test_what_was_not_measured_is_null() -> None:
    plain = json.loads(report_text(reports.one_build()))
    assert plain["results"][0]["accuracy"] is None
    assert plain["results"][0]["comparison"] is None
    assert plain["recommendation"]["build_id"] is None


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_is_not_written_and_its_place_is_named(
    number: float, tmp_path: Path
) -> None:
    report = reports.all_pass()
    wrong = replace(report.results[1], reason=Reason("speed_below", {"ratio": number}))
    broken = replace(report, results=(report.results[0], wrong))
    with pytest.raises(ProtocolError) as caught:
        write_report(broken, tmp_path)
    assert caught.value.where == "$.results[1].reason.facts.ratio"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("version", [0, 1, "2", None, True, [2]])
def test_another_version_is_refused_before_anything_else(version: Any) -> None:
    with pytest.raises(ProtocolError, match="version"):
        parse_report(json.dumps({"version": version, "something": "else"}))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"version": 2}', '{"version": NaN}', "[" * 100_000, '{"version": 2, "version": 2}'],
)
def test_what_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        parse_report(text)


def test_infinity_by_overflow_is_refused() -> None:
    text = report_text(reports.all_pass()).replace('"ratio": 2.31', '"ratio": 1e999')
    with pytest.raises(ProtocolError):
        parse_report(text)


def test_an_unknown_key_is_named(tmp_path: Path) -> None:
    text = report_text(reports.all_pass()).replace('"seed": 7', '"sead": 7')
    with pytest.raises(ProtocolError, match="sead"):
        parse_report(text)


def test_half_a_surrogate_pair_can_be_written_and_read(tmp_path: Path) -> None:
    report = replace(reports.all_pass(), run=replace(reports.all_pass().run, id="run \ud800"))
    assert read_report(write_report(report, tmp_path)).run.id == "run \ufffd"


def test_a_folder_that_cannot_be_made_is_an_error_with_place_and_next_step(tmp_path: Path) -> None:
    (tmp_path / "report").write_text("a file")
    with pytest.raises(StorageError) as caught:
        write_report(reports.all_pass(), tmp_path / "report")
    assert caught.value.where
    assert caught.value.next_step


def test_a_missing_report_is_an_error_with_place_and_next_step(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as caught:
        read_report(tmp_path / "report.json")
    assert caught.value.where
    assert caught.value.next_step
