"""A benchmark case: load afresh, first inference, warm-up, then rounds."""

from dataclasses import replace

from phoneproof.harness.attempt import CurrentAttempt, Done, measured
from phoneproof.harness.benchmark import (
    Visit,
    VisitTimes,
    first_ms,
    rest_until_idle,
    rounds_of,
    time_visit,
    warm_up,
)
from phoneproof.harness.configurations import Loaded
from phoneproof.harness.event_log import UNSTAMPED
from phoneproof.harness.machine import clock_resolution_ns
from phoneproof.harness.visit import ProcessVisit
from phoneproof.protocol.events import Measured, RoundFinished
from phoneproof.protocol.job import BenchmarkCase, configurations_of
from phoneproof.protocol.pace import Pace


def benchmark(attempt: CurrentAttempt, case: BenchmarkCase) -> Done:
    """Time the case; whatever the runtime raises goes through."""
    attempt.one_at_a_time.clear()
    if case.interleaving == "by_process":
        return _by_process(attempt, case)
    sides = [attempt.load(case.candidate)]
    try:
        if case.baseline is not None:
            sides.append(attempt.load(case.baseline))
        return _in_process(attempt, case, sides[0], sides[1] if len(sides) > 1 else None)
    finally:
        for side in sides:
            side.close()


class _Side:
    """One side in this process: first inference and warm-up done, its pace settled.

    rests: before each visit wait for the other side's pool of threads to fall asleep, and wake the own one by
    an inference that is not timed.
    """

    def __init__(
        self, attempt: CurrentAttempt, case: BenchmarkCase, loaded: Loaded, samples: str, rests: bool
    ) -> None:
        self._rests = rests
        self._invoke = loaded.session.prepare(attempt.reader(samples).read(0))
        self.first_ms = first_ms(self._invoke)
        self.pace = warm_up(self._invoke, case)

    def __call__(self) -> VisitTimes:
        if self._rests:
            rest_until_idle()
            self._invoke()
        return time_visit(self._invoke, self.pace)


def _in_process(
    attempt: CurrentAttempt, case: BenchmarkCase, candidate: Loaded, baseline: Loaded | None
) -> Done:
    pools = any(attempt.job.configuration(side).threads > 1 for side in configurations_of(case))
    rests = pools and baseline is not None
    b = _Side(attempt, case, candidate, case.samples, rests)
    a = None
    if baseline is not None and case.baseline_samples is not None:
        a = _Side(attempt, case, baseline, case.baseline_samples, rests)
    _run_rounds(attempt, case, b, a)
    return Done(
        replace(
            measured(candidate),
            first_ms=b.first_ms,
            baseline_first_ms=a.first_ms if a else None,
            clock_resolution_ns=clock_resolution_ns(),
        )
    )


def _by_process(attempt: CurrentAttempt, case: BenchmarkCase) -> Done:
    b = ProcessVisit(attempt.folder, case, case.candidate, case.samples, attempt.runtime_modules)
    a = None
    if case.baseline is not None and case.baseline_samples is not None:
        a = ProcessVisit(attempt.folder, case, case.baseline, case.baseline_samples, attempt.runtime_modules)
    _run_rounds(attempt, case, b, a)
    return Done(
        Measured(
            first_ms=b.first_ms,
            baseline_first_ms=a.first_ms if a else None,
            accelerator_actual=b.accelerator_actual,
            operators=b.operators,
            clock_resolution_ns=clock_resolution_ns(),
        )
    )


def _run_rounds(
    attempt: CurrentAttempt,
    case: BenchmarkCase,
    candidate: "_Side | ProcessVisit",
    baseline: "_Side | ProcessVisit | None",
) -> None:
    visit_baseline: Visit | None = baseline
    for number, visits in rounds_of(case, candidate, visit_baseline):
        batch = _batch(candidate.pace)
        baseline_batch = _batch(baseline.pace) if baseline is not None else None
        attempt.log.write(
            RoundFinished(
                "round_finished",
                UNSTAMPED,
                case.case_id,
                number,
                "B" if baseline is None else "ABBA",
                baseline_batch,
                batch,
                tuple(visit.times_ns for visit in visits),
                _waited(visits),
            )
        )


def _waited(visits: tuple[VisitTimes, ...]) -> tuple[int, ...] | None:
    """One number for each visit, or None: a system tells of every visit or of none."""
    told = tuple(visit.waited_ns for visit in visits if visit.waited_ns is not None)
    return told if len(told) == len(visits) else None


def _batch(pace: Pace | None) -> int:
    if pace is None:
        raise RuntimeError("a visit ended without a pace")
    return pace.batch
