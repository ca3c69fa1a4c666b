"""phoneproof compare."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from phoneproof.cli.options import debug_option, ends_well, json_option

if TYPE_CHECKING:
    from phoneproof.report.compare import Change


@click.command(short_help="Compare two runs; exit 1 on a regression.")
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@json_option
@debug_option
@ends_well
def command(old: Path, new: Path, as_json: bool) -> int:
    """Say what became worse and what better from run OLD to run NEW.

    Speeds are compared as ratios to each run's own baseline: latencies of two runs say nothing of a build.
    """
    from phoneproof.cli.errors_text import printable
    from phoneproof.cli.json_text import json_text
    from phoneproof.protocol.codec import to_dict
    from phoneproof.report.compare import compare_reports
    from phoneproof.report.json_report import read_report
    from phoneproof.report.sentences import facts_text
    from phoneproof.report.units import counted
    from phoneproof.runs.folder import report_file

    compared = compare_reports(read_report(report_file(old)), read_report(report_file(new)))
    if as_json:
        content: dict[str, Any] = to_dict(compared)
        regressions = to_dict(compared.regressions)
        click.echo(json_text({**content, "regressions": regressions}))
        return 1 if compared.regressions else 0
    for change in compared.changes:
        where = _where(change)
        click.echo(printable(f"{change.direction:8} {change.id:14} {where}: {facts_text(change.facts)}"))
    for change in compared.not_compared:
        where = _where(change)
        click.echo(printable(f"unknown  {change.id:14} {where}: {facts_text(change.facts)}"))
    count = len(compared.regressions)
    pairs, regressions = counted(compared.pairs, "result"), counted(count, "regression")
    click.echo(f"{pairs} compared, {regressions}, {len(compared.improvements)} better.")
    return 1 if count else 0


def _where(change: "Change") -> str:
    from phoneproof.report.reading import placement_text

    return f"{change.configuration.build_id} on {change.device}, {placement_text(change.configuration)}"
