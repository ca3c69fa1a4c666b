"""phoneproof run."""

import sys
from pathlib import Path

import click

from phoneproof.cli.options import run_options, stopped_by_signals


@click.command(short_help="Audit, build, verify and report: the whole job.")
@click.option(
    "--clone",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Take the plan that this run was begun with.",
)
@run_options
def command(
    plan_path: Path | None,
    out: Path | None,
    clone: Path | None,
    dry_run: bool,
    as_json: bool,
    verbose: bool,
) -> int:
    """Take a plan through audit, build, verify and report.

    A run that was stopped, however hard, is finished by the same command.
    """
    return run_until("report", plan_path, out, clone, dry_run, as_json, verbose)


def run_until(
    stage: str,
    plan_path: Path | None,
    out: Path | None,
    clone: Path | None,
    dry_run: bool,
    as_json: bool,
    verbose: bool,
) -> int:
    """What audit, run, build and verify share."""
    from phoneproof.cli.audit_summary import audit_json, show_audit
    from phoneproof.cli.json_text import json_text
    from phoneproof.cli.screen import Screen
    from phoneproof.cli.summary import run_json, show_run
    from phoneproof.cli.where import meant
    from phoneproof.cli.wide_console import wide_console
    from phoneproof.runs.dry_run import foresee
    from phoneproof.runs.run import RunOptions, run, stage_named

    what = meant(plan_path, out, clone)
    options = RunOptions(until=stage_named(stage), command=("phoneproof", *sys.argv[1:]))
    if dry_run:
        steps = foresee(what.plan, what.out, options)
        if as_json:
            click.echo(json_text({"run": what.out, "steps": [step.__dict__ for step in steps]}))
        else:
            for step in steps:
                click.echo(f"{step.state:7} {step.step}")
        return 0
    with stopped_by_signals() as stop, Screen(verbose, quiet=as_json) as screen:
        finished = run(what.plan, what.out, screen, options, stop)
    console = wide_console()
    if as_json:
        click.echo(json_text(audit_json(finished) if stage == "audit" else run_json(finished)))
        return int(finished.exit_code)
    if stage == "audit":
        show_audit(finished, console)
    show_run(finished, console)
    return int(finished.exit_code)
