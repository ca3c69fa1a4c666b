"""phoneproof report."""

from pathlib import Path

import click

from phoneproof.cli.options import debug_option, ends_well, json_option


@click.command(short_help="Write the report of a run again.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Folder to write into. [default: RUN/report]")
@json_option
@debug_option
@ends_well
def command(run: Path, out: Path | None, as_json: bool) -> int:
    """Write the files of RUN's report again, out of its report.json: HTML, CSV, JUnit and Markdown."""
    from phoneproof.builds.store import storage_errors
    from phoneproof.cli.json_text import json_text
    from phoneproof.report.json_report import read_report
    from phoneproof.report.render import render
    from phoneproof.runs.folder import report_file
    from phoneproof.runs.run import exit_code_of

    report = read_report(report_file(run))
    folder = out or run / "report"
    with storage_errors(folder):
        files = render(report, folder)
    if as_json:
        click.echo(json_text({"files": list(files), "exit_code": int(exit_code_of(report))}))
    else:
        for path in files:
            click.echo(str(path))
    return int(exit_code_of(report))
