"""Options that several commands have, and how a command ends."""

import contextlib
import functools
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from phoneproof.cli.errors_text import error_json, error_text
from phoneproof.cli.json_text import json_text
from phoneproof.errors import CommandLineError, Interrupted, PhoneproofError

PLAN_FILE: Final = "phoneproof.toml"
INTERNAL_ERROR: Final = 3

Command = TypeVar("Command", bound=Callable[..., Any])

plan_option = click.option(
    "-p", "--plan", "plan_path", type=click.Path(path_type=Path), help=f"The plan. [default: {PLAN_FILE}]"
)
out_option = click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Folder of the run. [default: the unfinished run of this plan below runs/, else a new one]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
verbose_option = click.option("-v", "--verbose", is_flag=True, help="Name every step.")
debug_option = click.option("--debug", is_flag=True, help="Show the traceback of an error.")
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Show what would be done, and what the store has of it."
)


def run_options(function: Command) -> Command:
    """The options of the commands that take a plan through stages."""
    wrapped = ends_well(function)
    for option in (
        debug_option,
        verbose_option,
        json_option,
        dry_run_option,
        out_option,
        plan_option,
    ):
        wrapped = option(wrapped)
    return wrapped


def ends_well(function: Command) -> Command:
    """Print a PhoneproofError as text (as JSON with --json) and exit with its code; never a traceback.

    An error that nobody foresaw is said to be one, with how to see more. The function returns the exit code.
    """

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        debug = bool(kwargs.pop("debug", False))
        as_json = bool(kwargs.get("as_json", False))
        try:
            code = function(*args, **kwargs)
        except PhoneproofError as error:
            _show(error, as_json, debug)
            code = error.exit_code
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            code = Interrupted.exit_code
        except BrokenPipeError:
            sys.stderr.close()
            code = 0
        except (click.ClickException, click.exceptions.Exit):
            raise
        except Exception as error:  # noqa: BLE001 - the last resort: no user sees a traceback unasked
            _show(_unforeseen(error), as_json, debug)
            code = INTERNAL_ERROR
        sys.exit(int(code or 0))

    return wrapped  # type: ignore[return-value]


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that is set by the first SIGINT or SIGTERM; a second SIGINT raises KeyboardInterrupt."""
    stop = threading.Event()

    def handle(number: int, frame: Any) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def plan_file(plan_path: Path | None) -> Path:
    """The plan given, or the one in this folder. CommandLineError if there is none."""
    if plan_path is not None:
        if not plan_path.exists():
            from phoneproof.runs.near_paths import did_you_mean

            near = did_you_mean(plan_path, lambda entry: entry.suffix == ".toml")
            step = near + "Write one with `phoneproof init --model MODEL --data DATA`."
            raise CommandLineError("There is no plan.", where=str(plan_path), next_step=step)
        return plan_path
    if Path(PLAN_FILE).exists():
        return Path(PLAN_FILE)
    raise CommandLineError(
        f"There is no {PLAN_FILE} here.",
        where="--plan",
        next_step="Name one with -p, or write one with `phoneproof init --model MODEL --data DATA`.",
    )


def _show(error: PhoneproofError, as_json: bool, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    if as_json:
        click.echo(json_text({"error": error_json(error), "exit_code": error.exit_code}))
    click.echo(error_text(error), err=True)


def _unforeseen(error: Exception) -> PhoneproofError:
    return PhoneproofError(
        f"phoneproof has a fault: {type(error).__name__}: {error}",
        next_step="Run the command again with --debug and report what it prints.",
    )
