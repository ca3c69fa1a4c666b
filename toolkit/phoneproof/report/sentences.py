"""Plain English for every id of a report. The only place, with the command line, where prose is made.

A sentence is a template: `{name:unit}` is a fact in its unit, and a part in `[brackets]` is left out when one
of its facts is missing. Facts that a template does not name follow in brackets, so that none is lost. What
comes out is text, not HTML: facts may hold foreign text, which the renderer escapes.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from phoneproof.errors import Fact
from phoneproof.findings import Finding
from phoneproof.protocol.attempts import Outcome
from phoneproof.report import units
from phoneproof.report.audit_sentences import AUDIT_FINDINGS, AUDIT_REASONS
from phoneproof.report.data_sentences import DATA_FINDINGS, DATA_WHYS
from phoneproof.report.edge_sentences import EDGE_FINDINGS, EDGE_REASONS, EDGE_WHYS
from phoneproof.report.output_sentences import OUTPUT_FINDINGS
from phoneproof.report.words import OUTCOMES
from phoneproof.verify.verdicts import Reason

Facts = Mapping[str, Fact]

REASON_SENTENCES: Final[Mapping[str, str]] = {
    "gate_passed": "Within the limits that were set.",
    "not_measured": "Not measured: {why:why}.",
    "parity_below": "Output {output} is {sqnr_db:db} from the reference[, in {slice}]; {limit_db:db} "
    "are asked.",
    "parity_doubtful": "Output {output} is {sqnr_db:db} from the reference[, in {slice}]: above "
    "{fail_db:db}, where it would fail, but below {pass_db:db}, where it would pass.",
    "parity_rescued_by_accuracy": "[Output {output} is only {sqnr_db:db} from the reference, but "
    "]accuracy on the evaluation set shows that it does no harm.",
    "parity_undefined": "How far output {output} is from the reference is not defined: {why:why}.",
    "outputs_differ_in_form": "The outputs differ in form from the reference's: {what}",
    "labels_differ": "Output {output} holds labels, and {agreement:percent} of them equal the reference's.",
    "accuracy_dropped": "[In {metric}, ]accuracy dropped by {drop:drop}[ on {n:count} samples] (95 % "
    "interval {lo:end} to {hi:end}); at most {limit:end} is allowed.",
    "accuracy_undecided": "{n:count} samples do not decide: the drop[ in {metric}] is {drop:drop} "
    "(95 % interval {lo:end} to {hi:end}), and the limit of {limit:end} lies within.",
    "accuracy_without_interval": "The drop[ in {metric}] has no interval, so {n:count} samples do "
    "not decide: {why:why}.",
    "speed_below": "{ratio:times} the baseline's speed (95 % interval {lo:times} to {hi:times}); "
    "{limit:times} is asked.",
    "speed_undecided": "The measurement does not decide: {ratio:times} the baseline's speed (95 % "
    "interval {lo:times} to {hi:times}), and the limit of {limit:times} lies within.",
    "speed_disturbed": "The machine was too busy to decide: the timed threads waited for a processor "
    "{share:percent} of their time, {largest:percent} at most is accepted. Close other programs and run "
    "again; {ratio:times} was measured, {limit:times} is asked.",
    "speed_not_shown": "Its speed does not count, because its outputs are not shown to be right.",
    "latency_above": "The median latency is {median_ms:ms}; at most {limit_ms:ms} is allowed.",
    "latency_undecided": "The measurement does not decide: the median latency is {median_ms:ms}, too "
    "close to the limit of {limit_ms:ms}.",
    "latency_disturbed": "The machine was too busy to decide: the median latency of {median_ms:ms} is above "
    "{limit_ms:ms}, but the timed threads waited for a processor {share:percent} of their time, "
    "{largest:percent} at most is accepted. Close other programs and run again.",
    "size_above": "{ratio:times} the baseline's size; at most {limit:times} is allowed.",
    "cases_ended_badly": "Not every case passed: {*:outcomes}.",
    "fallback_used": "It was to run on {requested} but ran on {actual}.",
    "accelerator_unknown": "It was to run on {requested}; where it ran is not known, and unknown "
    "does not pass.",
    "build_failed": "The build failed.",
    "load_failed": "The runtime did not load the build.",
    "reference_failed": "The source model did not run, so there is nothing to compare with.",
    "operator_unknown": "The reference interpreter does not know operators of this build, so it could not be "
    "judged here: {operators}.",
    "best_passing": "Of the builds that pass every gate it is the best[: {size_ratio:times} the "
    "baseline's size][, {speed_ratio:times} its speed][, accuracy drop {drop:drop}].",
    "best_for_size": "Of the builds that pass every gate it is the best, for its size alone: it is slower "
    "than the baseline[: {speed_ratio:times} its speed][, {size_ratio:times} its size][, accuracy drop "
    "{drop:drop}].",
    "several_models": "There are several models, and each has a recommendation of its own: {models}.",
    "several_platforms": "The platforms have recommendations of their own: {platforms}.",
    "none_passes": "No build passes every gate.",
    "none_gains": "No build that passes every gate is smaller than its baseline, or shown to be faster.",
    "only_baseline": "Only the float baseline was built, so there is nothing to recommend over it.",
    "nothing_measured": "Nothing was measured, so nothing can be recommended.",
    **EDGE_REASONS,
    **AUDIT_REASONS,
}

WHY_SENTENCES: Final[Mapping[str, str]] = {
    "not_asked": "the plan does not ask for it",
    "no_labels": "the evaluation set has no labels",
    "no_baseline": "there is no baseline to compare with",
    "no_device": "the plan names no such device",
    "too_few_rounds": "too few rounds were completed",
    "build_failed": "the build failed",
    "load_failed": "the runtime did not load the build",
    "reference_failed": "the source model did not run",
    "metric_failed": "the metric failed",
    "device_lost": "the device was lost",
    "not_run": "its case did not run",
    "no_interval": "there is no interval",
    "reference_fidelity": "a reference interpreter ran it, whose speed says nothing of a device",
    "not_supported": "this version of phoneproof cannot measure it",
    **EDGE_WHYS,
}

FINDING_SENTENCES: Final[Mapping[str, str]] = {
    "ACCURACY-AT-CHANCE": "The source model itself is not shown to be better than chance: {metric} is "
    "{accuracy:percent} on {samples:count} samples, guessing among {classes:count} classes gives "
    "{chance:percent}. The labels may not fit the model's classes, the preprocess may not be the one that it "
    "was trained with, or its weights were not loaded. Until that is mended, no accuracy tells builds apart.",
    **DATA_FINDINGS,
    "HOST-SATURATES": "This machine lacks the int8 instructions that add without saturation. Parity "
    "and accuracy were measured with the exact kernels, latency with the usual ones.",
    "OUTPUT-CLASSES": "The set has {classes:count} classes, and the output {output} has {scores:count} "
    "scores: labels may not mean the classes that the model means. List in data.classes what each score "
    "stands for; one score more than classes is often a background class in front.",
    "OUTPUT-LABELS-SHIFTED": "The labels look off by one: with {by:count} added to each, the source model is "
    "right on {shifted:percent} of {samples:count} samples, as they are on {accuracy:percent}. List in "
    "data.classes what each score stands for, a background class included.",
    "OUTPUT-NONFINITE": "The source model itself gives NaN or an infinity: {numbers:count} numbers of the "
    "output {output}.",
    "HOST-BUSY": "Other work held the processors while builds were timed: threads that could have run waited "
    "for a processor, all together for up to {share:percent} of the time. Speeds of {builds} do not count.",
    "TOOL-UNTESTED-VERSION": "{package} {version} was not tested with phoneproof; {tested} was.",
    "BUILD-KEPT-IN-INT8": "The plan keeps operators in float that a runtime computes in int8 all the "
    "same, since their neighbours are quantized[: {operators}].",
    "BUILD-NOT-DELEGATED": "{count:count} operators are not delegated and run in the runtime's portable "
    "kernels[: {operators}].",
    "BUILD-SIZE-UNUSUAL": "It has {ratio:times} the baseline's size, where {least:times} to {most:times} is "
    "usual for its recipe[; left wide: {tensors}].",
    "BUILD-FLOAT-OPERATORS": "Operators left in float: {count:count}[ ({operators})][; why: {reasons}].",
    **OUTPUT_FINDINGS,
    **AUDIT_FINDINGS,
    **EDGE_FINDINGS,
}

MEASURE_SENTENCES: Final[Mapping[str, str]] = {
    "too_few_runs": "There are too few timed runs[: {runs:count}, at least {least:count} are needed].",
    "too_short": "The timed work is too short[: {seconds:number} s, at least {least_seconds:number} "
    "s are needed].",
    "clock_unknown": "The resolution of the clock is not known.",
    "clock_too_coarse": "The clock is too coarse for runs this short[: it ticks every "
    "{resolution_ns:count} ns, and a timed run takes {run_ns:count} ns].",
    "drifting": "The run times drift[: by {drift:percent} from the first quarter to the last].",
    "machine_busy": "The machine was busy with other work[: the timed threads waited for a processor "
    "{share:percent} of their time, at most {largest:percent} is accepted].",
    "too_few_rounds": "There are too few rounds[: {rounds:count}, at least {least:count} are needed].",
    "no_variation": "The rounds do not vary at all, so the clock did not resolve them.",
    "wide_interval": "The interval is too wide to tell.",
    "zero_reference": "The reference is zero throughout, so a ratio to it is not defined.",
    "non_finite_build": "The build's output holds values that are not finite.",
    "non_finite_reference": "The reference's output holds values that are not finite.",
    "too_few_changes": "Too few samples changed for an interval of this metric.",
    "non_finite_score": "A score is not finite.",
    "one_number_for_the_set": "The metric gives one number for the whole set, so there is no interval.",
}
"""Why a measurement does not count or is not defined. Ids of the statistics in verify/."""

_TOLD_ELSEWHERE: Final = frozenset(
    {"metric", "rounds", "needed_samples", "needed_rounds", "needed_times", "has_interval"}
)
"""Facts that need no place: the unit of others, and what report/settling.py makes an instruction of."""

_PLACE: Final = re.compile(r"\{(\w+|\*)(?::(\w+))?\}")
_OPTIONAL: Final = re.compile(r"\[([^\[\]]*)\]")


def reason_sentence(reason: Reason) -> str:
    """What a reason says. An id of another version is shown as it is, with its facts."""
    return _sentence(
        REASON_SENTENCES.get(reason.id) or MEASURE_SENTENCES.get(reason.id), reason.id, reason.facts
    )


def finding_sentence(finding: Finding) -> str:
    """What a finding says; its subject and whether it is waived stand beside it."""
    return _sentence(FINDING_SENTENCES.get(finding.id), finding.id, finding.facts)


def why_sentence(why: str) -> str:
    """The clause for a `why` id; an id of another version is shown as it is."""
    if why in MEASURE_SENTENCES:
        sentence = _sentence(MEASURE_SENTENCES[why], why, {})
        return sentence[:1].lower() + sentence[1:].removesuffix(".")
    return WHY_SENTENCES.get(why) or DATA_WHYS.get(why, why)


def filled(template: str, facts: Facts) -> str:
    """A template without optional parts: its brackets stand as they are, and no fact follows it."""
    return _PLACE.sub(lambda place: _value(place[1], place[2], facts), template)


def outcomes_text(counts: Mapping[Outcome, int] | Facts, leave_out: frozenset[str] = frozenset()) -> str:
    """Numbers of cases by outcome: `2 crashed, 1 failed`. Zeros are left out."""
    parts = [
        f"{_number(counts[name], units.count)} {word}"
        for name, word in OUTCOMES.items()
        if counts.get(name) and name not in leave_out
    ]
    return ", ".join(parts) if parts else "no cases"


def fact_text(value: Fact) -> str:
    """One fact as it is, without a unit."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, float):
        return units.significant(value, 4)
    return str(value)


def facts_text(facts: Facts) -> str:
    """Facts by name: `samples: 12, file: a.png`. Empty lists are left out."""
    return ", ".join(f"{name}: {fact_text(value)}" for name, value in facts.items() if value != ())


def _number(value: Fact, form: Callable[[float], str]) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return form(value)
    return fact_text(value)


_UNITS: Final[Mapping[str, Callable[[float], str]]] = {
    "ms": units.milliseconds,
    "times": units.times,
    "db": units.decibel,
    "count": units.count,
    "number": units.significant,
    "percent": units.percent,
}


def _drop(metric: str | None, value: float, unit: str) -> str:
    """A drop, its unit named; an end of its interval or a limit, which follows it, without."""
    text = units.metric_difference(metric, value).removeprefix("+")
    return text if unit == "drop" else text.removesuffix(" points")


def _value(name: str, unit: str | None, facts: Facts) -> str:
    if name == "*":
        return outcomes_text(facts, leave_out=frozenset({"passed"}))
    value = facts.get(name)
    if unit == "why":
        return why_sentence(fact_text(value))
    if unit in ("drop", "end"):
        metric = facts.get("metric")
        return _number(value, lambda number: _drop(str(metric) if metric else None, number, unit))
    return fact_text(value) if unit is None else _number(value, _UNITS[unit])


def _sentence(template: str | None, id: str, facts: Facts) -> str:
    """Fill the template in one pass, so that a fact which looks like a placeholder stays as it is."""
    if template is None:
        return f"{id} ({facts_text(facts)})" if facts else id
    kept = _OPTIONAL.sub(lambda part: part[1] if _all_known(part[1], facts) else "", template)
    named = {name for name, _ in _PLACE.findall(template)} | _TOLD_ELSEWHERE
    text = _PLACE.sub(lambda place: _value(place[1], place[2], facts), kept)
    rest = {} if "*" in named else {name: value for name, value in facts.items() if name not in named}
    if not kept.startswith("{"):  # a leading part may have been left out; a fact keeps its spelling
        text = text[:1].upper() + text[1:]
    told = facts_text(rest)
    return f"{text} ({told})" if told else text


def _all_known(part: str, facts: Facts) -> bool:
    return all(facts.get(name) is not None for name, _ in _PLACE.findall(part))
