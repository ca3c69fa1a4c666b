"""The cases that a run's jobs on the host are made of, by names that tell each from all others.

A case id such as `c003.infer` stands once in a job, and a run has a job for each runtime and each source
model. So a case's name is its job's step and its id: `host/onnxruntime/c003.infer`.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from phoneproof.devices.job_folder import JOB_FILE
from phoneproof.errors import CommandLineError, RunFolderError
from phoneproof.protocol.attempts import BadEnd, CaseEnd, bad_samples, case_ends
from phoneproof.protocol.event_files import read_events
from phoneproof.protocol.job import Case, Configuration, InferCase, Job, configurations_of, read_job
from phoneproof.runs.folder import read_journal
from phoneproof.runs.planned import job_step, reference_job_step

HOST_JOBS: Final = Path("jobs") / "host"
_STEP: Final = job_step("", "").partition("/")[0] + "/"
_REFERENCES: Final = reference_job_step("").removeprefix(_STEP)
_MOST_LISTED: Final = 8


@dataclass(frozen=True)
class RunCase:
    """One case of a job that a run has on this machine.

    place: its job's step without `job/`: `host/RUNTIME`, or `reference/MODEL` for a source model's own run.
    folder: the job's. end: None while the case has none, as after a kill. bad: samples that ended badly.
    """

    place: str
    folder: Path
    job: Job
    case: Case
    end: CaseEnd | None
    bad: Mapping[int, BadEnd]

    @property
    def name(self) -> str:
        """The name that no other case of the run has."""
        return f"{self.place}/{self.case.case_id}"

    @property
    def configuration(self) -> Configuration:
        """The configuration that it runs: of a benchmark, the candidate's."""
        return self.job.configuration(configurations_of(self.case)[-1])

    @property
    def is_of_a_reference(self) -> bool:
        """Whether a source model ran here, and no build."""
        return self.place.startswith(_REFERENCES)

    @property
    def build_name(self) -> str:
        """The same by its build: `MODEL/SOURCE/RECIPE.infer`. Several cases have it where a build is run in
        several configurations.
        """
        what = self.case.case_id.partition(".")[2] or self.case.kind
        return f"{self.configuration.build_id}.{what}"

    def is_called(self, given: str) -> bool:
        """Whether `given` is its name, the end of it after a slash, or its build's.

        Reports list the cases of builds by their ids alone, so those never mean a source model's case.
        """
        if given in (self.name, self.build_name):
            return True
        return not self.is_of_a_reference and self.name.endswith(f"/{given}")


def run_cases(run: Path) -> tuple[RunCase, ...]:
    """All cases of the jobs on this machine, in the order of the journal and of each job.

    A job that was planned anew counts as it was last. RunFolderError where no job has been laid out;
    ProtocolError for one that is damaged.
    """
    keys: dict[str, str] = {}
    for line in read_journal(run):
        if line.step is not None and line.step.startswith(_STEP):
            keys[line.step] = str(line.facts.get("key"))
    found = [one for step, key in keys.items() for one in _cases_of(run, step, key)]
    if not found:
        raise RunFolderError(
            "No case of this run has been run on this machine.",
            where=str(run),
            next_step=f"Go on with it first: `phoneproof run --out {run}`.",
        )
    return tuple(found)


def _cases_of(run: Path, step: str, job_id: str) -> list[RunCase]:
    folder = run / HOST_JOBS / job_id[:16]
    if not (folder / JOB_FILE).is_file():
        return []
    job = read_job((folder / JOB_FILE).read_bytes())
    events = read_events(folder)
    ends, bad = case_ends(job, events), bad_samples(job, events)
    place = step.removeprefix(_STEP)
    return [
        RunCase(place, folder, job, case, ends.get(case.case_id), bad.get(case.case_id, {}))
        for case in job.cases
    ]


def case_called(cases: Sequence[RunCase], given: str) -> RunCase:
    """The only case that is called so. CommandLineError for none or several, with names that are near."""
    found = [one for one in cases if one.is_called(given)]
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(one.name for one in found[:_MOST_LISTED])
        more = f" and {len(found) - _MOST_LISTED} more" if len(found) > _MOST_LISTED else ""
        raise CommandLineError(
            f"{len(found)} cases are called {given!r}.",
            where="--case",
            next_step=f"Name one of them: {listed}{more}.",
        )
    names = {form: one.name for one in cases for form in (one.name, one.build_name, one.case.case_id)}
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    meant = f"Did you mean {names[near[0]]!r}? " if near else ""
    raise CommandLineError(
        f"The run has no case {given!r}.",
        where="--case",
        next_step=f"{meant}`phoneproof rerun RUN --list` lists them all.",
    )


def check_sample(case: RunCase, sample: int | None) -> None:
    """CommandLineError for a sample that the case does not have."""
    if sample is None:
        return
    if not isinstance(case.case, InferCase):
        raise CommandLineError(
            f"{case.name} is a {case.case.kind} case, which has no samples.",
            where="--sample",
            next_step="Leave --sample out.",
        )
    first, count = case.case.first, case.case.count
    if not first <= sample < first + count:
        raise CommandLineError(
            f"{case.name} has the samples {first} to {first + count - 1}, not {sample}.",
            where="--sample",
            next_step="Give the number that stands before the sample's name in the report.",
        )
