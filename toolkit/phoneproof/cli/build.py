"""phoneproof build."""

from pathlib import Path

import click

from phoneproof.cli.options import (
    debug_option,
    ends_well,
    json_option,
    out_option,
    plan_option,
    verbose_option,
)
from phoneproof.cli.run import run_until


@click.command(short_help="Audit, and make the builds of a plan.")
@plan_option
@out_option
@click.option("--dry-run", is_flag=True, help="Show what would be done, and what the store has of it.")
@json_option
@verbose_option
@debug_option
@ends_well
def command(plan_path: Path | None, out: Path | None, dry_run: bool, as_json: bool, verbose: bool) -> int:
    """Audit the source models and sets, and make every build of the plan."""
    return run_until("build", plan_path, out, None, dry_run, as_json, verbose)
