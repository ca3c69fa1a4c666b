"""Gates: limits that turn what was measured into verdicts. A gate that is not set is not judged."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from phoneproof.errors import Fact
from phoneproof.protocol.attempts import Outcome
from phoneproof.verify.accuracy import AccuracyDrop
from phoneproof.verify.comparison import Comparison
from phoneproof.verify.deciding import rounds_to_decide, samples_to_decide, times_to_decide
from phoneproof.verify.intervals import Interval, judge_interval
from phoneproof.verify.parity import LabelParity, OutputParity
from phoneproof.verify.verdicts import GateResult, Reason, Verdict
from phoneproof.verify.waiting import LARGEST_WAITING_SHARE

PrecisionClass = Literal["float32", "float16", "int8"]

_ORDER: Final[Mapping[Verdict, int]] = {"fail": 0, "inconclusive": 1, "pass": 2}


@dataclass(frozen=True)
class Limits:
    """The limits of a plan. None: that gate is not set. Decibels by precision; between int8_fail_db and
    int8_db an int8 build is inconclusive unless its accuracy passes.
    """

    float32_db: float = 60.0
    float16_db: float = 40.0
    int8_db: float = 20.0
    int8_fail_db: float = 10.0
    accuracy_drop: float | None = None
    speedup: float | None = None
    latency_ms: float | None = None
    size_ratio: float | None = None
    outcomes: bool = True

    def parity_db(self, precision: PrecisionClass) -> tuple[float, float]:
        """(below this it fails, from this on it passes)."""
        if precision == "float32":
            return self.float32_db, self.float32_db
        if precision == "float16":
            return self.float16_db, self.float16_db
        return self.int8_fail_db, self.int8_db


def outcomes_gate(outcomes: Mapping[Outcome, int], load_failed: bool) -> GateResult:
    """Pass when every case passed. A lost device says nothing of the build: inconclusive."""
    bad: dict[str, Fact] = {name: count for name, count in outcomes.items() if name != "passed" and count}
    if load_failed:
        return GateResult("outcomes", "fail", Reason("load_failed"))
    if not bad:
        if not outcomes.get("passed"):
            return GateResult("outcomes", "inconclusive", Reason("not_measured", {"why": "not_run"}))
        return GateResult("outcomes", "pass", Reason("gate_passed"))
    verdict: Verdict = "inconclusive" if set(bad) <= {"device_lost", "not_run"} else "fail"
    return GateResult("outcomes", verdict, Reason("cases_ended_badly", bad))


def fallback_gate(requested: str, actual: str | None, allow_fallback: bool) -> GateResult | None:
    """None where the plan allows fallback. Unknown never passes."""
    if allow_fallback:
        return None
    if actual is None:
        return GateResult("fallback", "inconclusive", Reason("accelerator_unknown", {"requested": requested}))
    if actual != requested:
        facts = {"requested": requested, "actual": actual}
        return GateResult("fallback", "fail", Reason("fallback_used", facts))
    return GateResult("fallback", "pass", Reason("gate_passed"))


@dataclass(frozen=True)
class OutputParityOf:
    """Parity of one named output."""

    output: str
    parity: OutputParity | LabelParity


def parity_gate(
    outputs: Sequence[OutputParityOf],
    precision: PrecisionClass,
    limits: Limits,
    accuracy: GateResult | None,
) -> GateResult:
    """The worst output or slice against the limits of the build's precision."""
    if not outputs:
        return GateResult("parity", "inconclusive", Reason("not_measured", {"why": "not_run"}))
    fail_db, pass_db = limits.parity_db(precision)
    worst = min((_judge_output(one, fail_db, pass_db) for one in outputs), key=_badness)
    if worst.verdict != "inconclusive":
        return worst
    doubtful = worst
    rescuable = doubtful.reason.id in ("parity_doubtful", "labels_differ")
    if rescuable and accuracy is not None and accuracy.verdict == "pass":
        told = {k: v for k, v in doubtful.reason.facts.items() if k in ("output", "sqnr_db")}
        return GateResult("parity", "pass", Reason("parity_rescued_by_accuracy", told))
    return doubtful


def _badness(result: GateResult) -> tuple[int, float]:
    """Sorts the worst first; of two that are as bad, the one without a distance, then the farther one."""
    distance = result.reason.facts.get("sqnr_db")
    return _ORDER[result.verdict], distance if isinstance(distance, float) else -math.inf


def _judge_output(one: OutputParityOf, fail_db: float, pass_db: float) -> GateResult:
    parity = one.parity
    if isinstance(parity, LabelParity):
        if parity.agreement == 1.0:
            return GateResult("parity", "pass", Reason("gate_passed"))
        differ = Reason.of("labels_differ", output=one.output, agreement=parity.agreement)
        return GateResult("parity", "inconclusive", differ)
    if parity.exact:
        return GateResult("parity", "pass", Reason("gate_passed"))
    if parity.sqnr_db is None:
        reason = Reason("parity_undefined", {"output": one.output, "why": str(parity.reason)})
        # Where the reference itself is not finite and the build is, nothing speaks against the build.
        of_reference = parity.reason == "non_finite_reference"
        return GateResult("parity", "inconclusive" if of_reference else "fail", reason)
    worst = min(parity.worst_slices, key=lambda s: s.sqnr_db, default=None)
    in_slice = worst is not None and worst.sqnr_db < parity.sqnr_db
    value = worst.sqnr_db if worst is not None and in_slice else parity.sqnr_db
    place = f"axis {worst.axis}, index {worst.index}" if worst is not None and in_slice else None
    facts: dict[str, Fact] = {"output": one.output, "sqnr_db": value, "slice": place}
    if value < fail_db:
        return GateResult("parity", "fail", Reason("parity_below", {**facts, "limit_db": fail_db}))
    if value < pass_db:
        doubt = Reason("parity_doubtful", {**facts, "fail_db": fail_db, "pass_db": pass_db})
        return GateResult("parity", "inconclusive", doubt)
    return GateResult("parity", "pass", Reason("gate_passed"))


def accuracy_gate(
    drops: Mapping[str, AccuracyDrop], limit: float | None, missing: Mapping[str, Reason]
) -> GateResult | None:
    """The worst metric's interval of the drop against the limit; None where no limit is set.

    missing: metrics that were asked for and have no drop, and why; one such is enough not to pass.
    """
    if limit is None:
        return None
    results = [_judge_drop(metric, drop, limit) for metric, drop in drops.items()]
    results += [GateResult("accuracy", "inconclusive", reason) for reason in missing.values()]
    if not results:
        return GateResult("accuracy", "inconclusive", Reason("not_measured", {"why": "not_asked"}))
    return min(results, key=lambda r: _ORDER[r.verdict])


def _judge_drop(metric: str, drop: AccuracyDrop, limit: float) -> GateResult:
    interval = drop.interval
    judged = judge_interval(*_ends(interval), limit, "at_most")
    if judged.verdict == "pass":
        return GateResult("accuracy", "pass", Reason("gate_passed"))
    if interval is None or drop.drop is None:
        why = drop.missing or "no_interval"
        missing = Reason.of("accuracy_without_interval", metric=metric, n=drop.n, why=why)
        return GateResult("accuracy", "inconclusive", missing)
    facts: dict[str, Fact] = {
        "metric": metric,
        "n": drop.n,
        "drop": drop.drop,
        "lo": interval.lo,
        "hi": interval.hi,
        "limit": limit,
    }
    if judged.verdict == "fail":
        return GateResult("accuracy", "fail", Reason("accuracy_dropped", facts))
    facts["needed_samples"] = samples_to_decide(drop, limit)
    return GateResult("accuracy", "inconclusive", Reason("accuracy_undecided", facts))


def speed_gate(
    comparison: Comparison | None, limit: float | None, parity_passed: bool, why_missing: str | None
) -> GateResult | None:
    """The interval of the speed-up against the least that is asked; None where no limit is set.

    A speed counts only when the outputs are right, and neither way when the machine was busy.
    """
    if limit is None:
        return None
    if not parity_passed:
        return GateResult("speed", "inconclusive", Reason("speed_not_shown"))
    if comparison is None or comparison.ratio is None:
        reason = Reason("not_measured", {"why": why_missing or "not_run"})
        return GateResult("speed", "inconclusive", reason)
    interval = comparison.interval
    if interval is not None and comparison.reason == "machine_busy":
        disturbed = Reason.of(
            "speed_disturbed",
            ratio=comparison.ratio,
            share=comparison.waiting_share,
            largest=LARGEST_WAITING_SHARE,
            limit=limit,
        )
        return GateResult("speed", "inconclusive", disturbed)
    judged = judge_interval(*_ends(interval), limit, "at_least")
    if judged.verdict == "pass":
        return GateResult("speed", "pass", Reason("gate_passed"))
    if interval is None:
        return GateResult("speed", "inconclusive", Reason("not_measured", {"why": "too_few_rounds"}))
    facts = {"ratio": comparison.ratio, "lo": interval.lo, "hi": interval.hi, "limit": limit}
    if judged.verdict == "fail":
        return GateResult("speed", "fail", Reason("speed_below", facts))
    told = {"rounds": comparison.rounds, "needed_rounds": rounds_to_decide(comparison, limit)}
    return GateResult("speed", "inconclusive", Reason("speed_undecided", {**facts, **told}))


def latency_gate(
    median_ms: float | None,
    interval_ms: Interval | None,
    limit_ms: float | None,
    waiting_share: float | None = None,
) -> GateResult | None:
    """The interval of the median latency against the most that is allowed; None where no limit is set.

    Waiting for a processor only lengthens runs: on a busy machine a latency can pass but not fail.
    """
    if limit_ms is None:
        return None
    if median_ms is None:
        return GateResult("latency", "inconclusive", Reason("not_measured", {"why": "not_run"}))
    judged = judge_interval(*_ends(interval_ms), limit_ms, "at_most")
    if judged.verdict == "pass":
        return GateResult("latency", "pass", Reason("gate_passed"))
    facts: dict[str, Fact] = {"median_ms": median_ms, "limit_ms": limit_ms}
    if judged.verdict == "fail" and waiting_share is not None and waiting_share > LARGEST_WAITING_SHARE:
        told = {**facts, "share": waiting_share, "largest": LARGEST_WAITING_SHARE}
        return GateResult("latency", "inconclusive", Reason("latency_disturbed", told))
    if judged.verdict == "fail":
        return GateResult("latency", "fail", Reason("latency_above", facts))
    times = None if interval_ms is None else times_to_decide(median_ms, interval_ms, limit_ms)
    told = {**facts, "has_interval": interval_ms is not None, "needed_times": times}
    return GateResult("latency", "inconclusive", Reason("latency_undecided", told))


def size_gate(ratio: float | None, limit: float | None) -> GateResult | None:
    """Size against the baseline; None where no limit is set."""
    if limit is None:
        return None
    if ratio is None:
        return GateResult("size", "inconclusive", Reason("not_measured", {"why": "no_baseline"}))
    if ratio <= limit:
        return GateResult("size", "pass", Reason("gate_passed"))
    return GateResult("size", "fail", Reason("size_above", {"ratio": ratio, "limit": limit}))


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.lo, interval.hi)
