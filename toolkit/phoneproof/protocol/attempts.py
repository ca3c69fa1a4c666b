"""What the events of a job mean: the outcome of each case, and what a next attempt has left to do.

One pure rule for the toolkit and every harness. PROTOCOL.md has it in words, protocol/golden/ as examples
that the Python, Kotlin and Swift tests read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from phoneproof.protocol.event_checks import check_fits
from phoneproof.protocol.events import (
    AttemptEnded,
    CaseError,
    CaseFinished,
    CaseStarted,
    Confidence,
    Event,
    SampleFailed,
    SampleStarted,
    in_order,
)
from phoneproof.protocol.job import Case, InferCase, Job, LoadCase, configurations_of

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
    """The end of one case. Once a case has one, later events change nothing but `finished`.

    bad_samples: those of an infer case that was begun which have no output, and why.
    finished: what the runner wrote at the end, None if it never came to that.
    """

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
    """State while the events are read, in order. begun: cases whose start was seen."""

    job: Job
    cases: Mapping[str, Case]
    ends: dict[str, CaseEnd] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    next_sample: dict[str, int] = field(default_factory=dict)
    bad_samples: dict[str, dict[int, BadEnd]] = field(default_factory=dict)
    interruptions: dict[tuple[str, int | None], int] = field(default_factory=dict)
    attempts: int = 0
    blamed_attempts: int = 0
    start_failures: int = 0
    gave_up: str | None = None


@dataclass
class _Place:
    """Where an attempt is: between cases, in a case, or at a sample of it."""

    case_id: str | None = None
    sample: int | None = None


def next_attempt(job: Job, events: Iterable[Event]) -> Attempt | None:
    """What the next launch has to do; None when every case has its end. Only asked while no runner runs.

    Like all functions here, it raises ProtocolError for an event that does not fit the job.
    """
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
    state = _fold(job, events)
    for case in job.cases:
        if case.case_id in state.begun:
            _end_case(state, case, BadEnd("device_lost", "unknown", "medium"), "not_reached")
        else:
            _end_case(state, case, BadEnd("not_run", "not_reached", "high"), "not_reached")
    return {case.case_id: state.ends[case.case_id] for case in job.cases}


def _resume_at(state: _Fold, case: Case) -> int | None:
    return state.next_sample.get(case.case_id, case.first) if isinstance(case, InferCase) else None


def _fold(job: Job, events: Iterable[Event]) -> _Fold:
    state = _Fold(job, {case.case_id: case for case in job.cases})
    by_attempt: dict[int, list[Event]] = {}
    for event in in_order(events):
        check_fits(job, state.cases, event)
        by_attempt.setdefault(event.stamp.attempt, []).append(event)
    for number in sorted(by_attempt):
        state.attempts = number
        _fold_attempt(state, by_attempt[number])
        _end_unreachable(state)
    return state


def _fold_attempt(state: _Fold, events: list[Event]) -> None:
    place = _Place()
    word: AttemptEnded | None = None
    for event in events:
        if isinstance(event, AttemptEnded):
            word = word or event
        else:
            _fold_event(state, place, event)
    if len(state.ends) < len(state.cases):
        _end_attempt(state, place, word)


def _fold_event(state: _Fold, place: _Place, event: Event) -> None:
    if isinstance(event, CaseStarted):
        place.case_id, place.sample = event.case_id, None
        state.begun.add(event.case_id)
    elif isinstance(event, SampleStarted):
        place.case_id, place.sample = event.case_id, event.sample
        state.next_sample[event.case_id] = event.sample
    elif isinstance(event, SampleFailed):
        bad = BadEnd("failed", "error", "high", None, event.error, event.stamp.attempt)
        _add_bad_sample(state, event.case_id, event.sample, bad)
    elif isinstance(event, CaseFinished):
        _finish_case(state, event)
        place.case_id = place.sample = None
        state.start_failures = 0


def _finish_case(state: _Fold, event: CaseFinished) -> None:
    case = state.cases[event.case_id]
    if event.outcome == "failed":
        bad = BadEnd("failed", "error", "high", None, event.error, event.stamp.attempt)
        _end_case(state, case, bad, "not_reached")
    elif event.case_id not in state.ends:
        bad_samples = dict(state.bad_samples.get(event.case_id, {}))
        first = bad_samples[min(bad_samples)] if bad_samples else None
        outcome: Outcome = first.outcome if first else "passed"
        state.ends[event.case_id] = CaseEnd(event.case_id, outcome, first, bad_samples)
    end = state.ends[event.case_id]
    if end.finished is None:
        state.ends[event.case_id] = replace(end, finished=event)


def _end_case(state: _Fold, case: Case, bad: BadEnd, rest: str) -> None:
    """End a case badly, unless it has its end. rest: why its later samples, if it was begun, did not run."""
    if case.case_id in state.ends:
        return
    samples = dict(state.bad_samples.get(case.case_id, {}))
    if isinstance(case, InferCase) and case.case_id in state.begun:
        later = range(state.next_sample.get(case.case_id, case.first), case.first + case.count)
        samples = {sample: BadEnd("not_run", rest, "high") for sample in later} | samples
    state.ends[case.case_id] = CaseEnd(case.case_id, bad.outcome, bad, samples)


def _end_attempt(state: _Fold, place: _Place, word: AttemptEnded | None) -> None:
    if place.case_id in state.ends:
        place = _Place()
    if word is None or word.cause == "interrupted":
        _interrupt(state, place)
        return
    state.blamed_attempts += 1
    if place.case_id is None:
        state.start_failures += 1
        if state.start_failures >= state.job.limits.start_failures:
            state.gave_up = "start"
    else:
        state.start_failures = 0
        _blame(state, place.case_id, place.sample, _bad_end(word))
    if state.blamed_attempts >= state.job.limits.max_attempts and state.gave_up is None:
        state.gave_up = "attempts"


def _interrupt(state: _Fold, place: _Place) -> None:
    if place.case_id is None:
        return
    key = (place.case_id, place.sample)
    state.interruptions[key] = state.interruptions.get(key, 0) + 1
    if state.interruptions[key] >= state.job.limits.interruptions_at_one_place:
        bad = BadEnd("crashed", "interrupted", "low", None, None, state.attempts)
        _blame(state, place.case_id, place.sample, bad)


def _bad_end(word: AttemptEnded) -> BadEnd:
    outcome: Outcome = "crashed"
    if word.cause == "timed_out":
        outcome = "timed_out"
    elif word.cause == "low_memory":
        outcome = "killed_low_memory"
    return BadEnd(outcome, word.cause, word.confidence, word.code, None, word.stamp.attempt)


def _blame(state: _Fold, case_id: str, sample: int | None, bad: BadEnd) -> None:
    if sample is None:
        _end_case(state, state.cases[case_id], bad, "not_reached")
    else:
        _add_bad_sample(state, case_id, sample, bad)


def _add_bad_sample(state: _Fold, case_id: str, sample: int, bad: BadEnd) -> None:
    bad_samples = state.bad_samples.setdefault(case_id, {})
    bad_samples[sample] = bad
    state.next_sample[case_id] = sample + 1
    state.start_failures = 0
    if len(bad_samples) >= state.job.limits.bad_samples_per_case:
        _end_case(state, state.cases[case_id], bad_samples[min(bad_samples)], "bad_samples")


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
        cause = "load" if unloadable & set(configurations_of(case)) else state.gave_up
        if cause is not None:
            _end_unrun(state, case, cause)


def _end_unrun(state: _Fold, case: Case, cause: str) -> None:
    bad = BadEnd("not_run", cause, "high")
    bad_samples = state.bad_samples.get(case.case_id)
    _end_case(state, case, bad_samples[min(bad_samples)] if bad_samples else bad, cause)


__all__ = [
    "Attempt",
    "BadEnd",
    "CaseEnd",
    "Outcome",
    "PendingCase",
    "bad_samples",
    "case_ends",
    "lost",
    "next_attempt",
]
