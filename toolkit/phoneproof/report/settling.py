"""What would settle a question that a run left open: one instruction, with a number where there is one.

A sentence for each reason that a gate, a comparison or a latency can be undecided for. The numbers are facts
of the reasons (verify/deciding.py says how they come about).
"""

from collections.abc import Iterator, Mapping
from typing import Final

from phoneproof.report.model import Report, Result
from phoneproof.report.sentences import filled
from phoneproof.verify.verdicts import Reason

_LIMIT: Final = "decide about the limit instead"
_RIGHT_FOUR_IN_FIVE: Final = "(then it is decided four times in five, if the measured value is the true one)"

_QUIET: Final = (
    "Close other programs, or take a machine that does nothing else, and run again: the timed threads may "
    "wait for a processor {largest:percent} of their time at most."
)

SETTLED_BY: Final[Mapping[str, str]] = {
    "parity_doubtful": "Let accuracy decide: give the evaluation set labels and set `accuracy_drop_max` in "
    "[gates]; a build that keeps its accuracy passes. Or bring output {output} nearer by another `method` or "
    "by `keep_float_names`, or say in `parity_min_db` what is enough.",
    "labels_differ": "Let accuracy decide: give the evaluation set labels and set `accuracy_drop_max` in "
    "[gates]; a build that keeps its accuracy passes.",
    "parity_undefined": "Mend the source model, whose output {output} is not finite on some sample; the "
    "finding OUTPUT-NONFINITE says how often.",
    "accuracy_undecided": "Evaluate on about {needed_samples:count} samples in all "
    f"{_RIGHT_FOUR_IN_FIVE}: {{n:count}} were used. `samples` in [data] is the most that are taken.",
    "speed_undecided": "Raise `rounds` in [benchmark] from {rounds:count} to {needed_rounds:count} "
    f"{_RIGHT_FOUR_IN_FIVE}.",
    "speed_disturbed": _QUIET,
    "latency_disturbed": _QUIET,
    "latency_undecided": "Raise `rounds` in [benchmark] to {needed_times:number} times as many "
    f"{_RIGHT_FOUR_IN_FIVE}.",
    "speed_not_shown": "Settle parity first: a speed counts only where the outputs are right.",
    "accelerator_unknown": "Run it by a runtime that tells where operators ran, or set `allow_fallback = "
    "true` if it does not matter whether that was {requested}.",
    "operator_unknown": "Run it on a device that has the runtime itself: this machine's interpreter lacks "
    "operators that the build has.",
    "reference_failed": "Make the source model run on every sample first: `phoneproof rerun RUN --list` "
    "names its cases, and `rerun` repeats one with its log.",
    "cases_ended_badly": "Run the same command again with the device attached: cases that it lost or did not "
    "come to are run then.",
    "edge_undecided": "Look at the edge inputs that are open ({inputs}): each says why. Those that were lost "
    "run again with the same command.",
    "too_few_rounds": "Set `rounds` in [benchmark] to {least:count} or more, and see that all are completed: "
    "`round_timeout_s` in [limits] ends one that takes too long.",
    "no_variation": "Raise `visit_ms` in [benchmark], or take a device whose clock is finer: all rounds took "
    "the same time to the tick.",
    "machine_busy": _QUIET,
    "wide_interval": "Raise `rounds` in [benchmark] from {rounds:count} to {needed_rounds:count} "
    f"{_RIGHT_FOUR_IN_FIVE}.",
    "too_few_runs": "Raise `rounds` or `visit_ms` in [benchmark] until there are {least:count} timed runs; "
    "there were {runs:count}.",
    "too_short": "Raise `visit_ms` in [benchmark] until {least_seconds:number} s are timed; "
    "{seconds:number} s were.",
    "clock_unknown": "Measure on a device that tells the resolution of its clock.",
    "clock_too_coarse": "Measure on a device with a finer clock: a tick may be a hundredth of a run.",
    "drifting": "Let the machine come to a steady pace: raise `warmup_ms`, or `pause_ms` between visits so "
    "that it stays cool, and fix the frequency of the processor where you can.",
}
"""By the id of a reason."""

NUMBER_OF: Final[Mapping[str, str]] = {
    "accuracy_undecided": "needed_samples",
    "speed_undecided": "needed_rounds",
    "latency_undecided": "needed_times",
    "wide_interval": "needed_rounds",
}
"""The fact that is missing where no number is in reach."""

WITHOUT_NUMBER: Final[Mapping[str, str]] = {
    "accuracy_undecided": "No number of samples in reach decides it, since the drop of {drop:drop} is so "
    f"near to the limit of {{limit:end}}: {_LIMIT} (`accuracy_drop_max`).",
    "speed_undecided": "No number of rounds in reach decides it, since {ratio:times} is so near to the limit "
    f"of {{limit:times}}: {_LIMIT} (`speedup_min`).",
    "latency_undecided": "No number of rounds in reach decides it, since {median_ms:ms} is so near to the "
    f"limit of {{limit_ms:ms}}: {_LIMIT} (`latency_max_ms`).",
    "wide_interval": "Take a quieter machine, and raise `visit_ms` in [benchmark]: more rounds alone do not "
    "narrow the interval enough.",
}

FEW_RUNS: Final = "Raise `rounds` in [benchmark]: fewer than six timed runs have no interval."

SETTLED_WHY: Final[Mapping[str, str]] = {
    "not_asked": "Ask for it: name `metrics` in [task].",
    "no_labels": "Give the evaluation set labels: by folder, by a column of a manifest, or by a function.",
    "no_baseline": "See why the float build of the same format was not made; it is what others are compared "
    "with.",
    "no_device": "Name the device in [[devices]].",
    "too_few_rounds": "Set `rounds` in [benchmark] to 10 or more, and see that all are completed: "
    "`round_timeout_s` in [limits] ends one that takes too long.",
    "build_failed": "Mend the build: its error says what to do.",
    "load_failed": "See why the runtime refuses the build: `phoneproof rerun` repeats loading with its log.",
    "reference_failed": SETTLED_BY["reference_failed"],
    "metric_failed": "Mend the metric that the plan names: its error stands beside it.",
    "device_lost": "Attach the device again and run the same command: it goes on from there.",
    "not_run": "See how the cases before it ended; `phoneproof rerun` repeats one with its log.",
    "no_interval": "Measure more: there are too few values for an interval.",
    "reference_fidelity": "Measure on a device: an interpreter that only computes what a file says has no "
    "speed. Leave the limit out for this build, or run it on a phone.",
    "not_supported": "Measure it by hand: this version of phoneproof cannot.",
    "too_few_changes": "Give the metric `bounds`, or evaluate on more samples: too few changed for an "
    "interval of a score without bounds.",
    "non_finite_score": "See why the metric is not finite for some sample.",
    "one_number_for_the_set": "Let the metric give one score for each sample, so that there is an interval.",
}
"""For reasons that say by `why` what is missing."""

_BY_WHY: Final = frozenset({"not_measured", "accuracy_without_interval"})


def what_settles(reason: Reason) -> str | None:
    """What would settle a question that is open for this reason; None for a reason that leaves none open, or
    of another version.
    """
    facts = reason.facts
    if reason.id in _BY_WHY:
        return SETTLED_WHY.get(str(facts.get("why")))
    if reason.id == "latency_undecided" and facts.get("has_interval") is False:
        return FEW_RUNS
    template = SETTLED_BY.get(reason.id)
    if reason.id in NUMBER_OF and facts.get(NUMBER_OF[reason.id]) is None:
        template = WITHOUT_NUMBER[reason.id]
    return None if template is None else filled(template, facts)


def settling(result: Result) -> tuple[str, ...]:
    """What would settle what is open in a result: its undecided gates, then a comparison that is too noisy,
    then a latency that is not valid. Each instruction once; () where nothing is open.
    """
    return tuple(dict.fromkeys(one for reason in _open(result) if (one := what_settles(reason))))


def undecided(report: Report) -> tuple[tuple[Result, tuple[str, ...]], ...]:
    """The results whose verdict is open, each with what would settle it."""
    open_results = (r for r in report.results if r.verdict == "inconclusive")
    return tuple((result, found) for result in open_results if (found := settling(result)))


def _open(result: Result) -> Iterator[Reason]:
    yield from (gate.reason for gate in result.gates if gate.verdict == "inconclusive")
    if result.comparison is not None and result.comparison.reason is not None:
        yield result.comparison.reason
    if result.latency is not None:
        yield from result.latency.validity_reasons
