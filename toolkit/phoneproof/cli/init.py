"""phoneproof init."""

from pathlib import Path

import click

from phoneproof.cli.options import PLAN_FILE, debug_option, ends_well, json_option

_SETS = ("data.calibration", "data.evaluation")


@click.command(short_help="Write a commented plan for a model and its data.")
@click.option("--model", type=click.Path(path_type=Path), required=True, help="The source model (ONNX).")
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
def command(model: Path, data: Path | None, plan_path: Path, force: bool, as_json: bool) -> int:
    """Write a commented plan. What had to be guessed is marked CHECK THIS.

    With --data the plan runs as it is; without, the calibration and evaluation sets are to be filled in.
    """
    from phoneproof.builds.store import default_store, storage_errors
    from phoneproof.cli.json_text import json_text
    from phoneproof.runs.first_plan import write_first_plan

    with storage_errors(plan_path):
        write_first_plan(model, data, plan_path, default_store(), force)
    steps = [f"phoneproof run -p {plan_path} --dry-run", f"phoneproof run -p {plan_path}"]
    if as_json:
        missing = [] if data is not None else list(_SETS)
        click.echo(json_text({"plan": plan_path, "fill_in": missing, "next": steps}))
        return 0
    if data is None:
        click.echo(f"Wrote {plan_path}, which names no data yet: fill in {' and '.join(_SETS)}.")
        click.echo("Look at the lines marked CHECK THIS too, then:")
    else:
        click.echo(f"Wrote {plan_path}. Look at the lines marked CHECK THIS, then:")
    for step in steps:
        click.echo(f"  {step}")
    return 0
