"""phoneproof verify."""

from pathlib import Path

import click

from phoneproof.cli.options import run_options
from phoneproof.cli.run import run_until


@click.command(short_help="Run the builds and measure them against float.")
@run_options
def command(plan_path: Path | None, out: Path | None, dry_run: bool, as_json: bool, verbose: bool) -> int:
    """Do what is left up to the measurements: audit, build, run the builds on the devices."""
    return run_until("verify", plan_path, out, None, dry_run, as_json, verbose)
