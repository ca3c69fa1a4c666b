"""The table at the end of a run, drawn from reports that are made up."""

import io
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from phoneproof.cli.summary import next_commands, run_json, show_run
from phoneproof.errors import RecipeError, ToolchainError
from phoneproof.recipes.rows import recipe_named
from phoneproof.recipes.table import RecipeOptions, SourceFormat
from phoneproof.report.model import Accuracy, Report
from phoneproof.runs.building import FinishedBuild
from phoneproof.runs.run import FinishedRun
from phoneproof.runs.wanted import WantedBuild
from phoneproof.verify.verdicts import Reason
from tests.report import reports


def shown(report: Report | None, *builds: FinishedBuild) -> list[str]:
    console = Console(file=io.StringIO(), width=240, highlight=False)
    show_run(FinishedRun(Path("run"), builds, report, ()), console)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue().splitlines()


def row_of(report: Report, name: str) -> str:
    return next(line for line in shown(report) if line.startswith(f"{name} "))


def test_the_parity_that_decides_is_shown_as_the_reason_names_it() -> None:
    row = row_of(reports.failures(), reports.INT8)
    assert "7.3 dB (worst slice)" in row
    assert "Output boxes is 7.3 dB from the reference" in row


def test_parity_of_whole_outputs_equal_ones_and_undefined_ones() -> None:
    report = reports.all_pass()
    whole, equal, undefined = (
        (reports.parity(worst_slice_db=None, worst_slice=None),),
        (reports.parity("logits", None, exact=True),),
        (reports.parity(), reports.parity("boxes", None)),
    )
    results = tuple(
        replace(one, parity=parity)
        for one, parity in zip(report.results, (whole, equal, undefined), strict=True)
    )
    changed = replace(report, results=results)
    texts = ("31.4 dB", "equal", "not defined")
    for build_id, text in zip((reports.FLOAT, reports.INT8, reports.DYNAMIC), texts, strict=True):
        assert row_of(changed, build_id).rstrip().endswith(text)


def test_a_parity_that_accuracy_rescues_is_explained() -> None:
    report = reports.all_pass()
    told = reports.gate("parity", "pass", "parity_rescued_by_accuracy", output="logits", sqnr_db=17.0)
    rescued = replace(report.results[1], gates=(told,))
    row = row_of(replace(report, results=(report.results[0], rescued)), reports.INT8)
    assert "Output logits is only 17.0 dB" in row
    assert row_of(report, reports.INT8).rstrip().endswith("dB (worst slice)")


def test_results_of_one_build_are_told_apart_by_how_they_ran() -> None:
    report = reports.all_pass()
    _, int8, _ = report.results
    ways = tuple(
        replace(int8.configuration, threads=threads, accelerator_requested=asked, allow_fallback=allowed)
        for threads, asked, allowed in (
            (1, "cpu", False),
            (4, "cpu", False),
            (4, "nnapi", False),
            (4, "nnapi", True),
        )
    )
    results = tuple(replace(int8, configuration=way) for way in ways)
    many = replace(report, results=(report.results[0], *results))
    verdicts = run_json(FinishedRun(Path("run"), (), many, ()))["verdicts"]
    assert len(verdicts) == len(many.results)
    assert f"{reports.INT8} @ host, cpu, 4 threads" in verdicts
    rows = [line for line in shown(many) if line.startswith(reports.INT8)]
    assert [row.partition("  ")[0] for row in rows] == [
        f"{reports.INT8}, {way}"
        for way in (
            "cpu, 1 thread",
            "cpu, 4 threads",
            "nnapi, 4 threads",
            "nnapi, 4 threads, fallback allowed",
        )
    ]
    assert row_of(many, reports.FLOAT)


def test_the_accuracy_itself_is_in_the_table_and_how_far_it_dropped() -> None:
    report = reports.all_pass()
    assert "97.75 % (drop 0.23 [\N{MINUS SIGN}0.31, 0.89])" in row_of(report, reports.INT8)
    alone = Accuracy("top1", 890, 0.5, None, None, None)
    own = Accuracy("own:score", 890, 3.25, 3.5, 0.25, None)
    for accuracy, expected in ((alone, " 50.00 %  "), (own, " 3.250 (drop 0.250)  "), (None, " -  ")):
        changed = replace(report, results=(replace(report.results[1], accuracy=accuracy),))
        assert expected in row_of(changed, reports.INT8)


def test_findings_and_the_errors_of_builds_are_data() -> None:
    failed = run_json(FinishedRun(Path("run"), (broken_build(),), None, (), reports.all_pass().findings))
    (build,) = failed["builds"]
    assert build["error"]["what"] == "GridSample is not known."
    assert build["error"]["facts"] == {"operators": ["a", "b"], "exit_code": 1}
    overlap = failed["findings"][0]
    assert (overlap["id"], overlap["subject"], overlap["waived"]) == ("DATA-OVERLAP", "calibration", False)
    assert overlap["facts"]["samples"] == 3


@pytest.mark.parametrize("reported", [False, True])
def test_a_build_that_failed_is_told_with_what_to_do(reported: bool) -> None:
    """Such as the nearest names of operators, where only the toolchain knows them."""
    error = RecipeError("The source model has no operator 'hed'.", next_step="Near ones: 'head'.")
    failed = replace(broken_build(), error=error)
    lines = shown(reports.all_pass() if reported else None, failed)
    assert f"{reports.INT8}  failed: The source model has no operator 'hed'. Near ones: 'head'." in lines


def broken_build() -> FinishedBuild:
    recipe = recipe_named("onnx-int8")
    route = recipe.routes[SourceFormat.ONNX]
    wanted = WantedBuild(
        reports.INT8, "digits/onnx", recipe, route, RecipeOptions(), reports.FLOAT, False, True
    )
    error = ToolchainError("GridSample is not known.", operators=("a", "b"), exit_code=1)
    return FinishedBuild(wanted, Path("unused"), None, error, cached=False)


def test_next_commands_can_be_pasted_into_a_shell() -> None:
    (line,) = next_commands(FinishedRun(Path("my run; rm -rf x"), (), None, ()))
    assert shlex.split(line)[1:] == ["phoneproof", "run", "--out", "my run; rm -rf x"]


def test_what_settles_an_open_verdict_is_said_once_for_all_its_builds() -> None:
    report = reports.all_pass()
    gate = reports.gate("parity", "inconclusive", "labels_differ", output="label", agreement=0.9)
    assert not any("settle" in line for line in shown(report))
    results = tuple(
        replace(one, gates=(gate,), verdict="inconclusive", reason=gate.reason) for one in report.results[1:]
    )
    lines = shown(replace(report, results=(report.results[0], *results)))
    (place,) = [n for n, line in enumerate(lines) if line.startswith("What would settle the undecided:")]
    assert lines[place + 1].startswith(f"  {reports.INT8}, {reports.DYNAMIC}: Let accuracy decide:")


def test_what_to_try_against_a_loss_is_told_once_for_each_build() -> None:
    report = reports.all_pass()
    told = (Reason.of("loss_layers", metric="top1", drop=0.025),)
    results = (report.results[0], replace(report.results[1], remedies=told), *report.results[2:])
    lines = [line for line in shown(replace(report, results=(*results, results[1]))) if "points lost" in line]
    assert len(lines) == 1
    assert lines[0].startswith(f"{reports.INT8}: 2.50 points lost: keep the most sensitive layers in float")
