"""Whether an event fits the job: what a device sends is not taken on trust."""

from collections.abc import Mapping

from phoneproof.errors import ProtocolError
from phoneproof.protocol.events import (
    AttemptEnded,
    CaseFinished,
    CaseStarted,
    Event,
    Heartbeat,
    JobFinished,
    JobStarted,
    RoundFinished,
    SampleFailed,
    SampleStarted,
)
from phoneproof.protocol.job import BenchmarkCase, Case, InferCase, Job


def check_fits(job: Job, cases: Mapping[str, Case], event: Event) -> None:
    """ProtocolError for an event of another job, or of a case, sample or round that the job does not have.

    cases: the job's cases by id.
    """
    if isinstance(event, JobStarted):
        if event.job_id != job.job_id:
            raise _wrong(event, f"of job {event.job_id[:80]!r}, not of this job")
        return
    if isinstance(event, (JobFinished, AttemptEnded)):
        return
    case = None if event.case_id is None else cases.get(event.case_id)
    if case is None:
        if not (isinstance(event, Heartbeat) and event.case_id is None):
            raise _wrong(event, f"of case {str(event.case_id)[:80]!r}, which the job does not have")
    elif isinstance(event, CaseStarted):
        _check_start(event, case)
    elif isinstance(event, (SampleStarted, SampleFailed)):
        if not isinstance(case, InferCase) or not 0 <= event.sample - case.first < case.count:
            raise _wrong(event, f"of sample {event.sample}, which its case does not have")
    elif isinstance(event, RoundFinished):
        _check_round(event, case)
    elif isinstance(event, CaseFinished):
        _check_finish(event, case)


def _check_start(event: CaseStarted, case: Case) -> None:
    if isinstance(case, InferCase):
        fits = event.next_sample is not None and 0 <= event.next_sample - case.first <= case.count
    else:
        fits = event.next_sample is None
    if not fits:
        raise _wrong(event, "with a next_sample that its case does not have")


def _check_round(event: RoundFinished, case: Case) -> None:
    fits = isinstance(case, BenchmarkCase) and 0 <= event.round < case.rounds
    if isinstance(case, BenchmarkCase) and fits:
        pair = case.baseline is not None
        fits = event.order == ("ABBA" if pair else "B") and len(event.visits_ns) == (4 if pair else 1)
        fits = fits and (event.baseline_batch is not None) == pair
        fits = fits and min(event.candidate_batch, event.baseline_batch or 1) >= 1
        fits = fits and all(visit and min(visit) >= 0 for visit in event.visits_ns)
        if event.waited_ns is not None:
            fits = fits and len(event.waited_ns) == len(event.visits_ns) and min(event.waited_ns) >= 0
    if not fits:
        raise _wrong(event, "whose visits are not those of its case")


def _check_finish(event: CaseFinished, case: Case) -> None:
    if (event.outcome == "failed") != (event.error is not None):
        raise _wrong(event, "whose outcome and error contradict each other")
    may_keep = isinstance(case, InferCase) and case.keep.kind != "none"
    if event.output is not None:
        expected = f"outputs/{case.case_id}.bin"
        if not may_keep or event.output.name != expected:
            raise _wrong(event, f"with an output that is not {expected!r}")
    elif may_keep and event.outcome == "passed":
        raise _wrong(event, "that passed without the output it had to keep")


def _wrong(event: Event, what: str) -> ProtocolError:
    return ProtocolError(
        f"An event {what}.", where=f"attempt {event.stamp.attempt}, seq {event.stamp.seq}: {event.event}"
    )
