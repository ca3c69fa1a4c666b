"""phoneproof rerun."""

import contextlib
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from phoneproof.cli.options import debug_option, ends_well, json_option, stopped_by_signals
from phoneproof.errors import CommandLineError

if TYPE_CHECKING:
    from phoneproof.protocol.attempts import BadEnd, Outcome
    from phoneproof.runs.rerun import Repeat, Rerun
    from phoneproof.runs.rerun_cases import RunCase

_MOST_LINES = 10


@click.command(short_help="Repeat one case of a run, to find out why it ended as it did.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--case",
    "name",
    metavar="ID",
    help="The case: its id as in the report where that is enough, else `RUNTIME/ID`, or `BUILD_ID.infer`.",
)
@click.option("--sample", type=click.IntRange(min=0), help="Repeat it for this sample alone, by its number.")
@click.option(
    "--times", type=click.IntRange(min=1), default=1, help="How often, each time in a process of its own."
)
@click.option("--list", "listed", is_flag=True, help="List the run's cases with their names and outcomes.")
@json_option
@debug_option
@ends_well
def command(run: Path, name: str | None, sample: int | None, times: int, listed: bool, as_json: bool) -> int:
    """Repeat one case of RUN on this machine.

    What it was given, its job, the events and the harness' log are written below RUN/reruns, to be looked at
    or sent to whoever makes the runtime. Nothing of the run itself is changed.

    Exit codes: 0 it passed, 1 it ended badly, at least once of several times.
    """
    if listed:
        return _list(run, as_json)
    if name is None:
        raise CommandLineError(
            "There is no case to repeat.",
            where="--case",
            next_step="Name one; `--list` shows them all.",
        )
    from phoneproof.cli.json_text import json_text
    from phoneproof.runs.rerun import RerunOptions, rerun

    def told(one: "Repeat") -> None:
        if times > 1 and not as_json:
            click.echo(_ending(one.outcome, one.bad), err=True)

    with stopped_by_signals() as stop:
        done = rerun(run, name, RerunOptions(sample=sample, times=times, told=told), stop)
    if as_json:
        click.echo(json_text(_json(done)))
    else:
        for line in _lines(done):
            click.echo(line)
    return 1 if done.bad else 0


def _list(run: Path, as_json: bool) -> int:
    from phoneproof.cli.errors_text import printable
    from phoneproof.cli.json_text import json_text
    from phoneproof.runs.folder import read_record
    from phoneproof.runs.rerun_cases import run_cases

    read_record(run)
    cases = run_cases(run)
    if as_json:
        click.echo(json_text({"cases": [_case_json(case) for case in cases]}))
        return 0
    width = max(len(case.name) for case in cases)
    for case in cases:
        ending = "unfinished" if case.end is None else _ending(case.end.outcome, case.end.bad)
        samples = ", ".join(map(str, sorted(case.bad)))
        bad = f"; samples {samples}" if samples else ""
        click.echo(printable(f"{case.name:{width}}  {case.build_name}, {_placement(case)}: {ending}{bad}"))
    return 0


def _case_json(case: "RunCase") -> dict[str, Any]:
    configuration = case.configuration
    return {
        "case": case.name,
        "build_id": configuration.build_id,
        "kind": case.case.kind,
        "accelerator": configuration.accelerator,
        "threads": configuration.threads,
        "options": dict(configuration.options),
        "outcome": None if case.end is None else case.end.outcome,
        "bad_samples": {str(number): bad.outcome for number, bad in sorted(case.bad.items())},
    }


def _placement(case: "RunCase") -> str:
    from phoneproof.report.units import counted

    configuration = case.configuration
    options = "".join(f", {name}={value}" for name, value in configuration.options.items())
    return f"{configuration.accelerator}, {counted(configuration.threads, 'thread')}{options}"


def _lines(done: "Rerun") -> Iterator[str]:
    """What it came to, then where everything lies."""
    from phoneproof.cli.errors_text import printable
    from phoneproof.report.sentences import outcomes_text
    from phoneproof.report.units import counted
    from phoneproof.runs.rerun import outcome_in_run

    what = done.case.name if done.sample is None else f"{done.case.name}, sample {done.sample}"
    yield printable(f"{what} ({done.case.configuration.build_id}, {_placement(done.case)})")
    before = outcome_in_run(done.case, done.sample)
    yield f"  in the run: {'no end' if before is None else _ending(before, None)}"
    if len(done.repeats) > 1:
        counts = outcomes_text(Counter(one.outcome for one in done.repeats))
        yield f"  now:        {done.bad} of {counted(len(done.repeats), 'time')} ended badly: {counts}"
    shown = next((one for one in done.repeats if not one.passed), done.repeats[-1])
    if len(done.repeats) == 1 or not shown.passed:
        yield from (printable(line) for line in _repeat_lines(shown, len(done.repeats) == 1))
    for path in done.inputs:
        yield f"  input:      {path}"
    if shown.log is not None:
        yield f"  log:        {shown.log}"
    yield f"  all of it:  {done.folder}"
    if not done.may_leave:
        yield "              The plan says that data may not leave; this folder holds samples and the model."


def _repeat_lines(one: "Repeat", alone: bool) -> Iterator[str]:
    yield f"  {'now:' if alone else 'for one:':11} {_ending(one.outcome, one.bad)}"
    if not one.passed:
        yield f"  case:       {one.case_id}"
    if one.bad is not None and one.bad.error is not None:
        yield f"  error:      {one.bad.error.type}: {one.bad.error.message}"
    if one.bad_samples:
        yield f"  samples:    {', '.join(map(str, sorted(one.bad_samples)))}"
    if one.log_tail:
        yield "  last lines of the log:"
        yield from (f"    {line}" for line in one.log_tail[-_MOST_LINES:])


def _ending(outcome: "Outcome", bad: "BadEnd | None") -> str:
    """`crashed (signal 11, SIGSEGV)`."""
    from phoneproof.report.words import OUTCOMES

    word = OUTCOMES[outcome]
    if bad is None or outcome == "passed" or bad.cause in ("error", "timed_out", "low_memory"):
        return word
    code = "" if bad.code is None else f" {bad.code}"
    name = ""
    if bad.cause == "signal" and bad.code is not None:
        with contextlib.suppress(ValueError):
            name = f", {signal.Signals(bad.code).name}"
    return f"{word} ({bad.cause}{code}{name})"


def _json(done: "Rerun") -> dict[str, Any]:
    """The same as data; rerun.json of the folder has all of it."""
    return {
        "folder": done.folder,
        "case": done.case.name,
        "sample": done.sample,
        "times": len(done.repeats),
        "ended_badly": done.bad,
        "outcomes": dict(Counter(one.outcome for one in done.repeats)),
        "inputs": list(done.inputs),
    }
