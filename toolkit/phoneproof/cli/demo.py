"""phoneproof demo."""

from pathlib import Path

import click

from phoneproof.cli.options import (
    debug_option,
    ends_well,
    json_option,
    stopped_by_signals,
    verbose_option,
)


@click.command(short_help="Train a small network and take it through the whole job.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("demo-run"),
    show_default=True,
    help="Folder for the network, its data, the plan and its runs.",
)
@json_option
@verbose_option
@debug_option
@ends_well
def command(out: Path, as_json: bool, verbose: bool) -> int:
    """Train a small convolutional network on scikit-learn's handwritten digits (real images), write it as a
    PyTorch module, a Keras model and an ONNX model, and run a plan for it: builds by every recipe for TFLite,
    Core ML, ExecuTorch and ONNX, judged against float on this machine."""
    from phoneproof.cli.run import run_until
    from phoneproof.cli.screen import Screen
    from phoneproof.runs.demo import prepare_demo

    with stopped_by_signals() as stop, Screen(verbose, quiet=as_json) as screen:
        plan = prepare_demo(out, screen, stop)
    return run_until("report", plan, None, None, False, as_json, verbose)
