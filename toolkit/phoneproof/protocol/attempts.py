"""What the events of a job mean: the outcome of each case, and what a next attempt has left to do.

One pure rule for the toolkit and every harness. PROTOCOL.md has it in words, protocol/golden/ as examples
that the Python, Kotlin and Swift tests read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from phoneproof.protocol.events import (
    AttemptEnded,
    CaseError,
    CaseFinished,
    CaseStarted,
    Confidence,
    Event,
    JobFinished,
    SampleFailed,
    SampleStarted,
    in_order,
)
from phoneproof.protocol.job import BenchmarkCase, Case, InferCase, Job, LoadCase, configurations_of

Outcome = Literal["passed", "failed", "crashed", "killed_low_memory", "timed_out", "device_lost", "not_run"]


@dataclass(frozen=True)
class BadEnd:
    """Why something ended badly.

    cause: `error`, `signal`, `exited`, `timed_out`, `low_memory`, `protocol`, `unknown`, `interrupted`,
    for not_run: `load`, `attempts`, `start`, `bad_samples`, `not_reached`.
    """

    outcome: Outcome
    cause: str
    confidence: Confidence
    code: int | None = None
    error: CaseError | None = None
    attempt: int | None = None


@dataclass(frozen=True)
class CaseEnd:
    """The end of one case. bad_samples: those of an infer case that have no output, and why."""

    case_id: str
    outcome: Outcome
    bad: BadEnd | None = None
    bad_samples: Mapping[int, BadEnd] = field(default_factory=dict)
    finished: CaseFinished | None = None


@dataclass(frozen=True)
class PendingCase:
    """A case that a next attempt has to run. next_sample: where an infer case goes on, else None."""

    case_id: str
    next_sample: int | None


@dataclass(frozen=True)
class Attempt:
    """A next launch of the runner."""

    number: int
    cases: tuple[PendingCase, ...]


@dataclass
class _Fold:
    """State while the events are read, in order."""

    job: Job
    ends: dict[str, CaseEnd] = field(default_factory=dict)
    next_sample: dict[str, int] = field(default_factory=dict)
    bad_samples: dict[str, dict[int, BadEnd]] = field(default_factory=dict)
    interruptions: dict[tuple[str, int | None], int] = field(default_factory=dict)
    attempts: int = 0
    blamed_attempts: int = 0
    start_failures: int = 0
    gave_up: str | None = None


def next_attempt(job: Job, events: Iterable[Event]) -> Attempt | None:
    """What the next launch has to do; None when every case has its end. Only asked while no runner runs."""
    state = _fold(job, events)
    left = (case for case in job.cases if case.case_id not in state.ends)
    pending = tuple(PendingCase(case.case_id, _resume_at(state, case)) for case in left)
    return Attempt(state.attempts + 1, pending) if pending else None


def case_ends(job: Job, events: Iterable[Event]) -> dict[str, CaseEnd]:
    """The end of every case that has one, in the job's order."""
    ends = _fold(job, events).ends
    return {case.case_id: ends[case.case_id] for case in job.cases if case.case_id in ends}


def bad_samples(job: Job, events: Iterable[Event]) -> dict[str, dict[int, BadEnd]]:
    """Samples that ended badly so far, by case, also of cases that are not at their end."""
    return _fold(job, events).bad_samples


def lost(job: Job, events: Iterable[Event]) -> dict[str, CaseEnd]:
    """Ends of all cases when the device does not come back: those without one are device_lost or not_run."""
    events = in_order(events)
    ends = case_ends(job, events)
    started = {e.case_id for e in events if isinstance(e, CaseStarted)}
    for case in job.cases:
        if case.case_id not in ends:
            reached = case.case_id in started
            bad = (
                BadEnd("device_lost", "unknown", "medium")
                if reached
                else BadEnd("not_run", "not_reached", "high")
            )
            ends[case.case_id] = CaseEnd(case.case_id, bad.outcome, bad)
    return {case.case_id: ends[case.case_id] for case in job.cases}


def _resume_at(state: _Fold, case: Case) -> int | None:
    return state.next_sample.get(case.case_id, case.first) if isinstance(case, InferCase) else None


def _fold(job: Job, events: Iterable[Event]) -> _Fold:
    state = _Fold(job)
    by_attempt: dict[int, list[Event]] = {}
    for event in in_order(events):
        by_attempt.setdefault(event.stamp.attempt, []).append(event)
    for number in sorted(by_attempt):
        state.attempts = number
        _fold_attempt(state, by_attempt[number])
        _end_unreachable(state)
    return state


def _fold_attempt(state: _Fold, events: list[Event]) -> None:
    open_case: str | None = None
    open_sample: int | None = None
    ended: AttemptEnded | None = None
    finished = False
    for event in events:
        if isinstance(event, CaseStarted):
            open_case, open_sample = event.case_id, None
        elif isinstance(event, SampleStarted):
            open_sample = event.sample
            state.next_sample[event.case_id] = event.sample
        elif isinstance(event, SampleFailed):
            bad = BadEnd("failed", "error", "high", None, event.error, event.stamp.attempt)
            _add_bad_sample(state, event.case_id, event.sample, bad)
            open_sample = None
        elif isinstance(event, CaseFinished):
            _finish_case(state, event)
            open_case = open_sample = None
            state.start_failures = 0
        elif isinstance(event, AttemptEnded):
            ended = event
        elif isinstance(event, JobFinished):
            finished = True
    if finished or (open_case is not None and open_case in state.ends):
        return
    _end_attempt(state, open_case, open_sample, ended)


def _finish_case(state: _Fold, event: CaseFinished) -> None:
    bad_samples = state.bad_samples.get(event.case_id, {})
    bad: BadEnd | None = None
    if event.outcome == "failed":
        bad = BadEnd("failed", "error", "high", None, event.error, event.stamp.attempt)
    elif bad_samples:
        bad = bad_samples[min(bad_samples)]
    outcome: Outcome = bad.outcome if bad else "passed"
    state.ends[event.case_id] = CaseEnd(event.case_id, outcome, bad, dict(bad_samples), event)


def _end_attempt(state: _Fold, case_id: str | None, sample: int | None, ended: AttemptEnded | None) -> None:
    if ended is None or ended.cause == "interrupted":
        _interrupt(state, case_id, sample)
        return
    state.blamed_attempts += 1
    bad = _blame(ended)
    if case_id is None:
        state.start_failures += 1
        if state.start_failures >= state.job.limits.start_failures:
            state.gave_up = "start"
    else:
        state.start_failures = 0
        _blame_case(state, case_id, sample, bad)
    if state.blamed_attempts >= state.job.limits.max_attempts and state.gave_up is None:
        state.gave_up = "attempts"


def _interrupt(state: _Fold, case_id: str | None, sample: int | None) -> None:
    if case_id is None:
        return
    place = (case_id, sample)
    state.interruptions[place] = state.interruptions.get(place, 0) + 1
    if state.interruptions[place] >= state.job.limits.interruptions_at_one_place:
        _blame_case(
            state, case_id, sample, BadEnd("crashed", "interrupted", "low", None, None, state.attempts)
        )


def _blame(ended: AttemptEnded) -> BadEnd:
    outcome: Outcome = "crashed"
    if ended.cause == "timed_out":
        outcome = "timed_out"
    elif ended.cause == "low_memory":
        outcome = "killed_low_memory"
    return BadEnd(outcome, ended.cause, ended.confidence, ended.code, None, ended.stamp.attempt)


def _blame_case(state: _Fold, case_id: str, sample: int | None, bad: BadEnd) -> None:
    if sample is not None:
        _add_bad_sample(state, case_id, sample, bad)
    else:
        bad_samples = dict(state.bad_samples.get(case_id, {}))
        state.ends[case_id] = CaseEnd(case_id, bad.outcome, bad, bad_samples)


def _add_bad_sample(state: _Fold, case_id: str, sample: int, bad: BadEnd) -> None:
    bad_samples = state.bad_samples.setdefault(case_id, {})
    bad_samples[sample] = bad
    state.next_sample[case_id] = sample + 1
    if len(bad_samples) < state.job.limits.bad_samples_per_case:
        return
    first = bad_samples[min(bad_samples)]
    case = state.job.case(case_id)
    assert isinstance(case, InferCase)  # noqa: S101 - only infer cases have samples
    left = range(sample + 1, case.first + case.count)
    skipped = {s: BadEnd("not_run", "bad_samples", "high") for s in left}
    state.ends[case_id] = CaseEnd(case_id, first.outcome, first, {**bad_samples, **skipped})


def _end_unreachable(state: _Fold) -> None:
    """Cases that will never run: of a configuration that does not load, or after the last attempt."""
    unloadable = {
        case.configuration
        for case in state.job.cases
        if isinstance(case, LoadCase)
        and case.case_id in state.ends
        and state.ends[case.case_id].outcome != "passed"
    }
    for case in state.job.cases:
        if case.case_id in state.ends:
            continue
        cause = "load" if unloadable & set(configurations_of(case)) else state.gave_up
        if cause is not None:
            bad = BadEnd("not_run", cause, "high")
            samples = state.bad_samples.get(case.case_id, {})
            state.ends[case.case_id] = CaseEnd(case.case_id, "not_run", bad, dict(samples))


__all__ = [
    "Attempt",
    "BadEnd",
    "BenchmarkCase",
    "CaseEnd",
    "Outcome",
    "PendingCase",
    "bad_samples",
    "case_ends",
    "lost",
    "next_attempt",
]
