"""Write docs/commands.md out of the command line itself. With --check only say whether it is up to date."""

import argparse
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from phoneproof.cli.main import main

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"

BEGINNING = """\
# Commands

Written by `scripts/command_reference.py` out of the command line; do not edit it by hand.
What the commands are for stands in the [guide](guide.md), what their errors mean in [errors](errors.md).

`phoneproof COMMAND --help` (or `-h`) says the same. `phoneproof --version` names the version.
`python -m phoneproof` is the same command.

## Exit codes

| code | meaning |
|---|---|
| 0 | All gates pass, or the command did what was asked. |
| 1 | A gate failed; for `compare`: a regression; for `rerun`: the case ended badly. |
| 2 | The plan, the command line, a model or the data are wrong. |
| 3 | It could not be completed; for `doctor`: something is installed and not usable. |
| 4 | No gate failed, and some are inconclusive. |
| 130 | Interrupted; the same command goes on. |

## Output

The answer is on standard output; progress, findings and errors are on standard error. Without a terminal
there is no progress display.

With `--json` the answer is one JSON document; progress and findings are left out. An error is then JSON on
standard output as well, beside its text: `{"error": {...}, "exit_code": 2}`. A command line that cannot be
parsed, such as one with an unknown option, is answered in text on standard error only.
"""


def page() -> str:
    """The whole page."""
    sections = [BEGINNING, *(_section(path, command) for path, command in commands())]
    return "\n".join(sections)


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with its full name, groups before what they hold."""
    yield from _below(main, "phoneproof")


def _below(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            raise LookupError(f"{path} lists {name} and does not have it")
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from _below(command, f"{path} {name}")


def _section(path: str, command: click.Command) -> str:
    context = click.Context(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    level = "#" * (path.count(" ") + 1)
    lines = [f"{level} {path}", "", "```console", f"$ {usage}", "```", "", _paragraphs(command.help or "")]
    if not isinstance(command, click.Group):
        rows = [_row(parameter, context) for parameter in command.params]
        lines += ["", "| argument or option | default | meaning |", "|---|---|---|", *rows]
    return "\n".join(lines) + "\n"


def _paragraphs(text: str) -> str:
    """Each paragraph of a docstring on one line."""
    return "\n\n".join(" ".join(one.split()) for one in inspect.cleandoc(text).split("\n\n"))


def _row(parameter: click.Parameter, context: click.Context) -> str:
    if isinstance(parameter, click.Argument):
        return f"| `{parameter.human_readable_name}` | required | |"
    if not isinstance(parameter, click.Option):
        raise TypeError(f"no row for {type(parameter).__name__}")
    value = "" if parameter.is_flag else f" {parameter.make_metavar(context).removesuffix(' RANGE')}"
    names = ", ".join(f"`{name}{value}`" for name in parameter.opts)
    told, _, default = (parameter.help or "").partition(" [default: ")
    default = default.removesuffix("]")
    if parameter.required:
        default = "required"
    elif not parameter.is_flag and isinstance(parameter.default, str | int | float | Path):
        default = str(parameter.default)
    return f"| {names} | {default} | {told} |"


def run() -> int:
    """0 when the page is written, or is up to date; 1 when it is not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if the page is out of date"
    )
    check = parser.parse_args().check
    if check:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page():
            return 0
        sys.stderr.write(f"{PAGE} is out of date: run scripts/command_reference.py\n")
        return 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(run())
