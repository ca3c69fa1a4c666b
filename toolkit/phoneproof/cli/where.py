"""Which plan and which run's folder a command means."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeGuard

from phoneproof.cli.options import PLAN_FILE, plan_file
from phoneproof.errors import CommandLineError
from phoneproof.plan.model import Plan, from_effective, read_plan
from phoneproof.runs.folder import read_journal, read_record

RUNS_FOLDER: Final = "runs"


@dataclass(frozen=True)
class Meant:
    """A plan and the folder of its run."""

    plan: Plan
    out: Path


def meant(plan_path: Path | None, out: Path | None, clone: Path | None = None) -> Meant:
    """The plan given, else the one in this folder, else that of the run given.

    The folder given, else one below the plan's runs/. A run of another plan than the one in this folder is
    refused later: to take the run's own would change the request of whoever has just edited the file.
    """
    if clone is not None:
        if plan_path is not None:
            raise CommandLineError(
                "--clone takes the plan of that run, and --plan names another.",
                where="--clone",
                next_step="Leave one of the two out.",
            )
        plan = _plan_of(clone)
    elif plan_path is None and _is_run(out) and not Path(PLAN_FILE).exists():
        plan = _plan_of(out)
    else:
        plan = read_plan(plan_file(plan_path))
    if clone is not None and out is not None and out.absolute() == clone.absolute():
        raise CommandLineError(
            "--clone begins another run, and --out names the same one.",
            where="--out",
            next_step="Name another folder, or leave --clone out to finish that run.",
        )
    return Meant(plan, out if out is not None else _folder_for(plan, clone))


def _is_run(out: Path | None) -> TypeGuard[Path]:
    return out is not None and (out / "run.json").exists()


def _plan_of(run: Path) -> Plan:
    record = read_record(run)
    return from_effective(dict(record.plan), Path(record.plan_folder or "."), str(run / "run.json"))


def _folder_for(plan: Plan, cloned: Path | None) -> Path:
    """The last run of this plan below runs/ if it is unfinished and not the cloned one, else the next number.

    A folder without run.json is a run that was killed before it wrote one.
    """
    runs = plan.folder / RUNS_FOLDER
    numbered = sorted((int(p.name), p) for p in runs.glob("*") if re.fullmatch("[0-9]{1,9}", p.name))
    if not numbered:
        return runs / "001"
    number, last = numbered[-1]
    if cloned is None or last.absolute() != cloned.absolute():
        if not (last / "run.json").exists():
            return last
        is_finished = any(line.entry == "run_finished" for line in read_journal(last))
        if read_record(last).plan_sha256 == plan.digest and not is_finished:
            return last
    return runs / f"{number + 1:03d}"
