"""phoneproof build."""

from pathlib import Path

import click

from phoneproof.cli.options import run_options
from phoneproof.cli.run import run_until


@click.command(short_help="Audit, and make the builds of a plan.")
@run_options
def command(plan_path: Path | None, out: Path | None, dry_run: bool, as_json: bool, verbose: bool) -> int:
    """Audit the source models and sets, and make every build of the plan."""
    return run_until("build", plan_path, out, None, dry_run, as_json, verbose)
