"""summary.md: the report for a pull request. Short; what went wrong comes first."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from phoneproof.report import listing, plain, reading, units
from phoneproof.report.charts import SIGNS
from phoneproof.report.edge_grid import edge_troubles
from phoneproof.report.foreign import visible
from phoneproof.report.json_report import write_file
from phoneproof.report.model import Report, ReportedBuild, Result
from phoneproof.report.sentences import finding_sentence, reason_sentence
from phoneproof.report.words import SEVERITIES, SPEEDS, VERDICTS

MARKDOWN_FILE: Final = "summary.md"
MOST_ROWS: Final = 40
"""Rows of the table of results; GitHub cuts comments at 65,536 characters."""
MOST_LISTED: Final = 10
"""Failures and findings that are listed, each."""

_SPECIAL: Final = re.compile(
    r"[\\`*\[\]<>|&~@#$]"  # marks of Markdown, HTML and tables; mentions, issues and formulas of GitHub
    r"|(?<![^\W_])_|_(?![^\W_])"  # emphasis, which inside a word it does not make
    r"|:(?!\s|$)"  # addresses and emoji
    r"|(?<=www)\.",
    re.IGNORECASE,
)
_HEAD: Final = ("| | Build | Size | Latency | Speed | Accuracy | Parity |", "|---|---|--:|--:|--:|--:|--:|")
_ORDER: Final = {"fail": 0, "inconclusive": 1, "pass": 2}


def markdown_text(report: Report) -> str:
    """The summary in GitHub's Markdown."""
    parts = (_head, _failures, _table, _findings, _foot)
    return "\n".join(line for part in parts for line in part(report)) + "\n"


def write_markdown(report: Report, folder: Path) -> Path:
    """Write summary.md into `folder` and return its path. StorageError if it cannot be written."""
    return write_file(folder / MARKDOWN_FILE, markdown_text(report))


def escaped(text: str) -> str:
    """Text that Markdown and HTML show as it is, on one line: it makes no markup, link, mention or emoji.

    A mark that may be read so stands as a character reference, which is text in any place, in tables too
    (CommonMark 0.31, section 2.5). What has a meaning at the beginning of a line alone stays: no line of the
    summary begins with foreign text.
    """
    line = " ".join(visible(text).split())
    return _SPECIAL.sub(lambda mark: f"&#{ord(mark[0])};", line)


def _head(report: Report) -> Iterator[str]:
    title = report.run.title or ", ".join(dict.fromkeys(model.name for model in report.models)) or "No model"
    yield f"## phoneproof: {escaped(title)}"
    yield ""
    for model, ships in plain.shipping(report).items():
        for ship in ships:
            named = [model] if len(plain.shipping(report)) > 1 else []
            place = ", ".join(escaped(part) for part in [*named, ship.place] if part)
            yield f"**{place}:** {_choice(report, ship)}" if place else _choice(report, ship)
            yield ""
    tally = [f"{SIGNS[v]} {VERDICTS[v].lower()} {n}" for v, n in reading.tally(report).items() if n]
    if tally:
        yield ", ".join(tally) + f" of {units.counted(len(report.results), 'result')}."
        yield ""


def _choice(report: Report, ship: plain.Shipping) -> str:
    build_id, best = ship.choice.build_id, reading.recommended(report, ship.choice)
    why = escaped(reason_sentence(plain.why(ship.choice)))
    if build_id is None:
        return f"no build is recommended. {why}"
    if best is None or best.baseline:
        return f"ship **{escaped(build_id)}**. {why}"
    measured = f"Measured on {escaped(best.device.name)}"
    unreal = reading.unreal(best.device)
    place = f"{measured} ({unreal})" if unreal else measured
    interpreted = plain.interpreted(best)
    where = escaped(interpreted) if interpreted else f"{place}."
    return f"ship **{escaped(build_id)}**: {escaped(plain.gains(best))}. {where} {why}"


def _failures(report: Report) -> Iterator[str]:
    failed = [
        *(_failed_build(b) for b in report.builds if b.status == "failed"),
        *(
            f"{_name(report, r)}: {escaped(reason_sentence(r.reason))}"
            for r in report.results
            if r.verdict == "fail"
        ),
        *(
            f"{_name(report, r)}, edge input {escaped(one.name)}: {escaped(reason_sentence(one.reason))}"
            for r, one in edge_troubles(report)
            if one.verdict == "fail"
        ),
    ]
    if failed:
        yield "### What fails"
        yield ""
        yield from _limited([f"- {SIGNS['fail']} {line}" for line in failed])
        yield ""


def _failed_build(build: ReportedBuild) -> str:
    what = build.error.what if build.error else "it was not built"
    return f"{escaped(build.build_id)} was not built: {escaped(what)}"


def _name(report: Report, result: Result) -> str:
    """The build by its short name, with how and where it ran if that is not the same for all."""
    parts = [reading.build_names(report)[result.configuration.build_id]]
    if reading.key(result) in reading.ambiguous(report):
        parts.append(reading.placement_text(result.configuration))
    unreal = reading.unreal(result.device)
    if len(reading.devices(report)) > 1 or unreal:
        parts.append(f"{result.device.name} ({unreal})" if unreal else result.device.name)
    return ", ".join(escaped(part) for part in parts)


def _table(report: Report) -> Iterator[str]:
    if not report.results:
        return
    yield "### Results"
    yield ""
    yield from _HEAD
    rows = sorted(report.results, key=lambda r: _ORDER[r.verdict])
    yield from (_row(report, result) for result in rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        yield ""
        yield f"{len(rows) - MOST_ROWS} more rows are in index.html and report.csv."
    yield ""


def _row(report: Report, result: Result) -> str:
    size = reading.build_sizes(report).get(result.configuration.build_id)
    ratio = f" ({units.times(result.size.ratio)})" if result.size and not result.baseline else ""
    cells = [
        SIGNS[reading.state(result)],
        _name(report, result) + (" (baseline)" if result.baseline else ""),
        (units.bytes_text(size) if size is not None else units.MISSING) + ratio,
        units.milliseconds(result.latency.median_ms) if result.latency else units.MISSING,
        _speed(result),
        _accuracy(result),
        _parity(result),
    ]
    return "| " + " | ".join(cells) + " |"


def _speed(result: Result) -> str:
    comparison = result.comparison
    if comparison is None or comparison.ratio is None:
        return units.MISSING
    if not reading.outputs_are_right(result):
        return "not counted"
    return f"{units.times(comparison.ratio)} {SPEEDS[comparison.verdict]}"


def _accuracy(result: Result) -> str:
    accuracy = result.accuracy
    return units.MISSING if accuracy is None else units.metric_value(accuracy.metric, accuracy.value)


def _parity(result: Result) -> str:
    worst = reading.deciding_parity(result)
    if worst is None:
        return units.MISSING
    decides = reading.deciding_db(worst)
    return "equal" if worst.exact else "not defined" if decides is None else units.decibel(decides)


def _findings(report: Report) -> Iterator[str]:
    loud, notes = listing.numbered_findings(report)
    if loud:
        yield "### Findings"
        yield ""
        yield from _limited(
            [
                f"- {SEVERITIES[f.severity]} {escaped(f.id)}{' (waived)' if f.waived else ''}"
                f"{f', {escaped(f.subject)}' if f.subject else ''}: {escaped(finding_sentence(f))}"
                for _, f in loud
            ]
        )
        yield ""
    if notes:
        yield f"{units.counted(len(notes), 'note')} in the report."
        yield ""


def _limited(lines: list[str]) -> Iterator[str]:
    yield from lines[:MOST_LISTED]
    if len(lines) > MOST_LISTED:
        yield f"- and {len(lines) - MOST_LISTED} more"


def _foot(report: Report) -> Iterator[str]:
    missing = plain.not_tested(report)
    if missing:
        yield f"Not measured: {', '.join(escaped(what) for what in missing)}."
        yield ""
    yield f"Run {escaped(report.run.id)}, phoneproof {escaped(report.run.phoneproof_version)}."
