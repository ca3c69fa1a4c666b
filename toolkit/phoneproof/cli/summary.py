"""The end of a run on a terminal: one table, the recommendation, and the next useful commands."""

import shlex
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from phoneproof.cli.errors_text import error_json, printable, told_briefly
from phoneproof.protocol.codec import to_dict
from phoneproof.report import plain, reading, units
from phoneproof.report.model import ModelRecommendation, Report, Result
from phoneproof.report.sentences import reason_sentence
from phoneproof.report.settling import undecided
from phoneproof.report.words import PLATFORMS
from phoneproof.runs.run import FinishedRun

_MOST_NAMED = 3
_STYLE = {"pass": "green", "fail": "bold red", "inconclusive": "yellow"}


def show_run(finished: FinishedRun, console: Console) -> None:
    """Print what a run came to."""
    if finished.report is not None:
        console.print(_table(finished.report))
        for line in (*recommendation_lines(finished.report), *remedy_lines(finished.report)):
            console.print(escape(printable(line)))
        for line in settling_lines(finished.report):
            console.print(escape(printable(line)))
    for build in finished.builds:
        state = "failed" if build.error is not None else "built"
        if finished.report is None or build.error is not None:
            detail = f": {told_briefly(build.error)}" if build.error is not None else ""
            console.print(escape(printable(f"{build.wanted.build_id}  {state}{detail}")))
    console.print()
    for line in next_commands(finished):
        console.print(line, style="dim", soft_wrap=True)


def recommendation_lines(report: Report) -> Iterator[str]:
    """The recommendation for each model as one sentence."""
    for chosen in reading.advice(report):
        sentence = reason_sentence(chosen.reason)
        place = ""
        if isinstance(chosen, ModelRecommendation) and len(report.recommendations) > 1:
            place = f" for {chosen.model} on {PLATFORMS[chosen.platform]}"
        if chosen.build_id:
            best = reading.recommended(report, chosen)
            platforms = (chosen.platform,) if isinstance(chosen, ModelRecommendation) else ()
            where = None if best is None else plain.measured_where(best, platforms)
            yield f"Recommended{place}: {chosen.build_id}. {sentence}{f' {where}' if where else ''}"
        else:
            yield f"No recommendation{place}. {sentence}"


def remedy_lines(report: Report) -> Iterator[str]:
    """What to try with each build that lost accuracy."""
    lost: dict[str, str] = {}
    for result in report.results:
        for remedy in result.remedies:
            lost.setdefault(result.configuration.build_id, reason_sentence(remedy))
    for build_id, sentence in lost.items():
        yield f"{build_id}: {sentence}"


def settling_lines(report: Report) -> Iterator[str]:
    """What would settle the results that are open: each instruction once, with the builds that it is for."""
    several = reading.ambiguous(report)
    builds: dict[str, list[str]] = {}
    for result, sentences in undecided(report):
        for sentence in sentences:
            builds.setdefault(sentence, []).append(_name(result, several))
    if builds:
        yield "What would settle the undecided:"
    for sentence, named in builds.items():
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        yield f"  {', '.join(named[:_MOST_NAMED])}{more}: {sentence}"


def next_commands(finished: FinishedRun) -> Iterator[str]:
    """What a user would want to do now; paths as a shell takes them."""
    run = shlex.quote(str(finished.folder))
    if finished.report is None:
        yield f"next: phoneproof run --out {run}"
        return
    page = next((path for path in finished.files if path.suffix == ".html"), finished.folder)
    yield f"report: {page}"
    yield f"next: phoneproof run --clone {run}      the same plan once more"
    yield f"      phoneproof compare {run} OTHER    what changed against another run"


def run_json(finished: FinishedRun) -> dict[str, Any]:
    """The same as data; the whole report is in report.json."""
    report = finished.report
    return {
        "run": str(finished.folder),
        "exit_code": int(finished.exit_code),
        "builds": [
            {
                "build_id": build.wanted.build_id,
                "status": build.status,
                "cached": build.cached,
                "error": error_json(build.error) if build.error is not None else None,
            }
            for build in finished.builds
        ],
        "verdicts": {} if report is None else {_key(r): r.verdict for r in report.results},
        "recommendation": None if report is None else report.recommendation.build_id,
        "recommendations": {}
        if report is None
        else {f"{one.model} on {one.platform}": one.build_id for one in report.recommendations},
        "findings": [to_dict(finding) for finding in finished.findings],
        "files": [str(path) for path in finished.files],
    }


def _key(result: Result) -> str:
    configuration = result.configuration
    return f"{configuration.build_id} @ {result.device.id}, {reading.placement_text(configuration)}"


def _table(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("build", "verdict", "size", "median", "speed", "accuracy", "parity", "why"):
        table.add_column(column, overflow="fold")
    several = reading.ambiguous(report)
    for result in report.results:
        style = _STYLE[result.verdict]
        table.add_row(
            escape(_name(result, several)),
            f"[{style}]{result.verdict}[/{style}]",
            _size(report, result),
            units.milliseconds(result.latency.median_ms) if result.latency else "-",
            _speed(result),
            _accuracy(result),
            _parity(result),
            escape(printable(_why(result))),
        )
    for build in report.builds:
        if build.error is not None:
            what = escape(printable(build.error.what))
            table.add_row(
                escape(build.build_id), "[bold red]not built[/bold red]", "-", "-", "-", "-", "-", what
            )
    return table


def _name(result: Result, several: frozenset[reading.ResultKey]) -> str:
    """The build, and how it ran where that is not the only way on its device."""
    build_id = result.configuration.build_id
    return (
        f"{build_id}, {reading.placement_text(result.configuration)}"
        if reading.key(result) in several
        else build_id
    )


def _why(result: Result) -> str:
    """What keeps it from passing; of one that passes, what a reader of its numbers would ask."""
    if result.verdict != "pass":
        return reason_sentence(result.reason)
    return " ".join(reason_sentence(gate.reason) for gate in reading.further_gates(result))


def _size(report: Report, result: Result) -> str:
    found = {build.build_id: build.size_bytes for build in report.builds}
    size = found.get(result.configuration.build_id)
    return units.bytes_text(size) if size is not None else "-"


def _speed(result: Result) -> str:
    comparison = result.comparison
    if comparison is None:
        return "baseline" if result.baseline else "-"
    parity = next((gate for gate in result.gates if gate.id == "parity"), None)
    if parity is None or parity.verdict != "pass":
        return "not counted"
    return f"{comparison.ratio:.2f}x {comparison.verdict.replace('_', ' ')}"


def _accuracy(result: Result) -> str:
    """The value, and how far it is below the reference's."""
    accuracy = result.accuracy
    if accuracy is None:
        return "-"
    value = units.metric_value(accuracy.metric, accuracy.value)
    if accuracy.drop is None:
        return value
    drop, *ends = (
        units.metric_difference(accuracy.metric, number).removesuffix(" points").removeprefix("+")
        for number in (accuracy.drop, *(accuracy.ci95 or ()))
    )
    interval = f" [{', '.join(ends)}]" if ends else ""
    return f"{value} (drop {drop}{interval})"


def _parity(result: Result) -> str:
    parity = reading.deciding_parity(result)
    if parity is None:
        return "-"
    if parity.exact:
        return "equal"
    value = reading.deciding_db(parity)
    if value is None:
        return "not defined"
    return f"{units.decibel(value)}{' (worst slice)' if reading.slice_decides(parity) else ''}"
