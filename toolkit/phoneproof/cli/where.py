"""Which plan and which run's folder a command means."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from phoneproof.cli.options import plan_file
from phoneproof.errors import CommandLineError
from phoneproof.plan.model import Plan, from_effective, read_plan
from phoneproof.runs.folder import RunFolder, read_record

RUNS_FOLDER: Final = "runs"


@dataclass(frozen=True)
class Meant:
    """A plan and the folder of its run."""

    plan: Plan
    out: Path


def meant(plan_path: Path | None, out: Path | None, clone: Path | None = None) -> Meant:
    """The plan given, else that of the run given; the folder given, else one below the plan's runs/."""
    if clone is not None:
        if plan_path is not None:
            raise CommandLineError(
                "--clone takes the plan of that run, and --plan names another.",
                where="--clone",
                next_step="Leave one of the two out.",
            )
        plan = _plan_of(clone)
    elif plan_path is None and out is not None and (out / "run.json").exists():
        plan = _plan_of(out)
    else:
        plan = read_plan(plan_file(plan_path))
    return Meant(plan, out if out is not None else _folder_for(plan, fresh=clone is not None))


def _plan_of(run: Path) -> Plan:
    record = read_record(run)
    return from_effective(dict(record.plan), Path(record.plan_folder or "."), str(run / "run.json"))


def _folder_for(plan: Plan, fresh: bool) -> Path:
    """The unfinished run of this plan with the greatest number, else the next number."""
    runs = plan.folder / RUNS_FOLDER
    numbered = sorted(int(path.name) for path in runs.glob("[0-9]*") if path.name.isdigit())
    for number in reversed(numbered):
        path = runs / f"{number:03d}"
        if fresh or not (path / "run.json").exists():
            continue
        record = read_record(path)
        if record.plan_sha256 == plan.digest and not RunFolder(path, record).is_finished:
            return path
        break
    return runs / f"{(numbered[-1] if numbered else 0) + 1:03d}"
