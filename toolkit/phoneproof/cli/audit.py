"""phoneproof audit."""

from pathlib import Path

import click

from phoneproof.cli.options import run_options
from phoneproof.cli.run import run_until


@click.command(short_help="Say what a plan's models and sets are good for.")
@run_options
def command(plan_path: Path | None, out: Path | None, dry_run: bool, as_json: bool, verbose: bool) -> int:
    """Inspect the source models and check the sets of a plan, and build nothing.

    Tells what each model is made of, which operators the tables predict each accelerator not to run, and
    which recipes to try. `phoneproof run` goes on from there. Only what reads the models need be installed.
    """
    return run_until("audit", plan_path, out, None, dry_run, as_json, verbose)
