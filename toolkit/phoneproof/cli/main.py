"""The command line. Each command is a file of this folder, imported when it is called."""

import difflib
import importlib
from collections.abc import Iterable
from typing import Any, Final

import click

import phoneproof

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "init": ("phoneproof.cli.init", "Write a commented plan for a model and its data."),
    "doctor": ("phoneproof.cli.doctor", "Say what is usable here, and what mends the rest."),
    "audit": ("phoneproof.cli.audit", "Say what a plan's models and sets are good for."),
    "run": ("phoneproof.cli.run", "Audit, build, verify and report: the whole job."),
    "build": ("phoneproof.cli.build", "Audit, and make the builds of a plan."),
    "verify": ("phoneproof.cli.verify", "Run the builds and measure them against float."),
    "report": ("phoneproof.cli.report", "Write the report of a run again."),
    "rerun": ("phoneproof.cli.rerun", "Repeat one case of a run, to find out why it ended as it did."),
    "compare": ("phoneproof.cli.compare", "Compare two runs; exit 1 on a regression."),
    "devices": ("phoneproof.cli.devices", "List the devices that jobs can run on."),
    "toolchain": ("phoneproof.cli.toolchain", "List and install toolchains."),
    "store": ("phoneproof.cli.store", "Show and prune the store of finished work."),
    "demo": ("phoneproof.cli.demo", "Train a small network and take it through the whole job."),
}
"""Name to module and one line of help: `phoneproof --help` imports none of them."""


def refuse_unknown(ctx: click.Context, args: list[str], known: Iterable[str]) -> None:
    """UsageError, with the nearest name, for a command that is not known."""
    names = list(known)
    if args and not args[0].startswith("-") and args[0] not in names:
        near = difflib.get_close_matches(args[0], names, n=1, cutoff=0.5)
        advice = f" Did you mean {near[0]!r}?" if near else f" Commands: {', '.join(names)}."
        raise click.UsageError(f"There is no command {args[0]!r}.{advice}", ctx)


class LazyCommands(click.Group):
    """Commands out of COMMANDS. A name that is close to one is refused with a suggestion, never guessed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of exactly that name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[Any, Any, list[str]]:
        """See click. UsageError with the nearest name."""
        refuse_unknown(ctx, args, COMMANDS)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table, without importing a command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(
    cls=LazyCommands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with `phoneproof init --model MODEL.onnx --data FOLDER`, or with `phoneproof demo`.",
)
@click.version_option(phoneproof.__version__, prog_name="phoneproof")
def main() -> None:
    """Quantize a float model for phones, and prove what was gained and what was lost.

    \b
    Exit codes: 0 all gates pass, 1 a gate failed, 2 wrong plan or usage,
    3 could not be completed, 4 none failed and some are inconclusive, 130 interrupted.
    """
