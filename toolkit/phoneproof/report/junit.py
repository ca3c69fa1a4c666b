"""junit.xml: gates, edge inputs and cases as test cases, for continuous integration.

A suite is one result; one more holds the builds. A gate that fails is a failure, one that is inconclusive is
skipped with its reason, and what crashed, hung or was not built is an error.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from phoneproof.protocol.attempts import Outcome
from phoneproof.report import reading
from phoneproof.report.foreign import visible
from phoneproof.report.json_report import write_file
from phoneproof.report.model import CaseResult, Report, ReportedBuild, Result
from phoneproof.report.sentences import reason_sentence
from phoneproof.report.words import GATES, OUTCOMES
from phoneproof.verify.verdicts import Reason, Verdict

if TYPE_CHECKING:
    from junitparser import TestCase, TestSuite
    from junitparser.junitparser import FinalResult as Ending

JUNIT_FILE: Final = "junit.xml"

_ERRORS: Final[frozenset[Outcome]] = frozenset({"crashed", "killed_low_memory", "timed_out", "device_lost"})


def junit_text(report: Report) -> str:
    """The suites in XML."""
    from junitparser import JUnitXml

    whole = JUnitXml(visible(report.run.id))
    if report.builds:
        whole.append(_suite("builds", [_build(build) for build in report.builds]))
    for result in report.results:
        place = _place(result)
        whole.append(_suite(place, [_case(name, place, endings) for name, endings in _endings(result)]))
    whole.update_statistics()
    text: str = whole.tostring().decode("utf-8")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def write_junit(report: Report, folder: Path) -> Path:
    """Write junit.xml into `folder` and return its path. StorageError if it cannot be written."""
    return write_file(folder / JUNIT_FILE, junit_text(report))


def _place(result: Result) -> str:
    """What tells one result from another, as one line."""
    how = reading.configuration_text(result)
    unreal = reading.unreal(result.device)
    return f"{result.configuration.build_id}, {how}, {result.device.id}" + (f", {unreal}" if unreal else "")


def _suite(name: str, cases: list["TestCase"]) -> "TestSuite":
    from junitparser import TestSuite

    suite = TestSuite(visible(name))
    suite.add_testcases(cases)
    return suite


def _case(name: str, place: str, endings: list["Ending"]) -> "TestCase":
    from junitparser import TestCase

    case = TestCase(visible(name), visible(place))
    case.result = endings
    return case


def _build(build: ReportedBuild) -> "TestCase":
    from junitparser import Error

    if build.error is None:
        return _case(build.build_id, "builds", [])
    error = Error(visible(build.error.what), "build_failed")
    told = [build.error.where, build.error.next_step, build.error.log_tail]
    error.text = visible("\n".join(part for part in told if part))
    return _case(build.build_id, "builds", [error])


def _endings(result: Result) -> Iterator[tuple[str, list["Ending"]]]:
    """Name and ending of each test case of a result; no ending is a pass."""
    for gate in result.gates:
        yield f"gate: {GATES[gate.id]}", _judged(gate.verdict, gate.reason, "passed")
    for edge in result.edge_results:
        yield f"edge input: {edge.name}", _judged(edge.verdict, edge.reason, edge.outcome)
    for case in result.cases:
        sample = "" if case.sample is None else f", sample {case.sample}"
        yield f"case: {case.case_id}{sample}", _ended(case)


def _judged(verdict: Verdict, reason: Reason, outcome: Outcome) -> list["Ending"]:
    from junitparser import Error, Failure, Skipped

    if verdict == "pass":
        return []
    told = visible(reason_sentence(reason))
    if verdict == "inconclusive":
        return [Skipped(f"Inconclusive: {told}", reason.id)]
    return [Error(told, reason.id) if outcome in _ERRORS else Failure(told, reason.id)]


def _ended(case: CaseResult) -> list["Ending"]:
    from junitparser import Error, Failure, Skipped

    if case.outcome == "passed":
        return []
    told = visible(": ".join(part for part in (OUTCOMES[case.outcome], case.cause, case.error) if part))
    if case.outcome == "not_run":
        return [Skipped(told, case.outcome)]
    return [Failure(told, case.outcome) if case.outcome == "failed" else Error(told, case.outcome)]
