"""phoneproof init."""

from collections.abc import Sequence
from pathlib import Path

import click

from phoneproof.cli.options import PLAN_FILE, debug_option, ends_well, json_option


@click.command(short_help="Write a commented plan for a model and its data.")
@click.option(
    "--model",
    metavar="MODEL",
    required=True,
    help="The source model: an .onnx, .keras or .pt2 file, the folder of a SavedModel, or module:function "
    "that gives a PyTorch module.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="A folder of images (sub-folders are classes), a CSV manifest, an .npz or .npy file.",
)
@click.option(
    "-p", "--plan", "plan_path", type=click.Path(path_type=Path), default=Path(PLAN_FILE), show_default=True
)
@click.option("--force", is_flag=True, help="Replace a plan that is there.")
@json_option
@debug_option
@ends_well
def command(model: str, data: Path | None, plan_path: Path, force: bool, as_json: bool) -> int:
    """Write a commented plan. What had to be guessed is marked CHECK THIS.

    With --data the plan runs as it is; without, the calibration and evaluation sets are to be filled in.
    Of a module:function the inputs are to be filled in: what it takes shows only when it is run.
    """
    from phoneproof.builds.store import default_store, storage_errors
    from phoneproof.cli.json_text import json_text
    from phoneproof.runs.first_plan import write_first_plan

    with storage_errors(plan_path):
        missing = write_first_plan(model, data, plan_path, default_store(), force)
    steps = [f"phoneproof run -p {plan_path} --dry-run", f"phoneproof run -p {plan_path}"]
    if as_json:
        click.echo(json_text({"plan": plan_path, "fill_in": list(missing), "next": steps}))
        return 0
    if missing:
        needs = "names no data yet" if data is None else "is not complete yet"
        click.echo(f"Wrote {plan_path}, which {needs}: fill in {_listed(missing)}.")
        click.echo("Look at the lines marked CHECK THIS too, then:")
    else:
        click.echo(f"Wrote {plan_path}. Look at the lines marked CHECK THIS, then:")
    for step in steps:
        click.echo(f"  {step}")
    return 0


def _listed(keys: Sequence[str]) -> str:
    *first, last = keys
    return f"{', '.join(first)} and {last}" if first else last
