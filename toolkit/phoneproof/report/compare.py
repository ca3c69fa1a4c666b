"""Two reports compared: what became worse, what better.

Results are paired by configuration and device. Latencies of two runs are never compared with each other: they
were measured in different sessions, on a machine that may have been warmer or busier, so that a difference
says nothing of the build. What is compared is each run's ratio to its own baseline, which was measured
interleaved, and a speed only counts where both outputs are shown to be right. Values with an interval have
changed only if their intervals do not overlap: that is stricter than a test at 5 %, on purpose, since a
comparison of many results would else raise a false alarm in every other run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from phoneproof.errors import CommandLineError, Fact
from phoneproof.report.model import Accuracy, Configuration, Interval, Report, Result
from phoneproof.report.reading import BAD_OUTCOMES, ResultKey, key, outputs_are_right

ChangeId = Literal[
    "verdict", "result_missing", "result_new", "size", "accuracy", "speed", "fallback", "outcomes"
]
Direction = Literal["worse", "better", "neutral"]

SIZE_MARGIN: Final = 0.01
"""Sizes within 1 % are the same: a converter's version string or a name is in the file."""

_RANK: Final = {"fail": 0, "inconclusive": 1, "pass": 2}


@dataclass(frozen=True)
class Change:
    """One thing that differs. facts: old and new values, with the intervals they were judged by."""

    id: ChangeId
    direction: Direction
    configuration: Configuration
    device: str
    facts: Mapping[str, Fact] = field(default_factory=dict)


@dataclass(frozen=True)
class RunComparison:
    """What differs between two runs, in the order of the older one's results.

    not_compared: why something could not be compared, as `id` of the change with a `why` fact.
    """

    old_run: str
    new_run: str
    pairs: int
    changes: tuple[Change, ...]
    not_compared: tuple[Change, ...]

    @property
    def regressions(self) -> tuple[Change, ...]:
        """What became worse. A missing result is one: what is not measured is not shown to be right."""
        return tuple(change for change in self.changes if change.direction == "worse")

    @property
    def improvements(self) -> tuple[Change, ...]:
        """What became better."""
        return tuple(change for change in self.changes if change.direction == "better")


def compare_reports(old: Report, new: Report) -> RunComparison:
    """Compare two reports of runs.

    CommandLineError where no build is in both: the runs are of different models or recipes, and all results
    of one would be regressions.
    """
    _refuse_strangers(old, new)
    before, after = _by_key(old), _by_key(new)
    found: list[Change] = []
    for place, result in before.items():
        if place in after:
            found += _changes(result, after[place])
        else:
            found.append(_change("result_missing", "worse", result, old=result.verdict))
    found += [
        _change("result_new", "neutral", result, new=result.verdict)
        for place, result in after.items()
        if place not in before
    ]
    return RunComparison(
        old_run=old.run.id,
        new_run=new.run.id,
        pairs=len(before.keys() & after.keys()),
        changes=tuple(c for c in found if "why" not in c.facts),
        not_compared=tuple(c for c in found if "why" in c.facts),
    )


def _refuse_strangers(old: Report, new: Report) -> None:
    theirs, ours = ([build.build_id for build in report.builds] for report in (old, new))
    if theirs and ours and set(theirs).isdisjoint(ours):
        raise CommandLineError(
            f"The runs have no build in common: the old one has {theirs[0]}, the new one {ours[0]}.",
            where=f"{old.run.id}, {new.run.id}",
            next_step="Compare runs of the same models and builds.",
        )


def _by_key(report: Report) -> dict[ResultKey, Result]:
    return {key(result): result for result in report.results}


def _change(id: ChangeId, direction: Direction, result: Result, **facts: Fact) -> Change:
    return Change(id, direction, result.configuration, result.device.id, facts)


def _changes(old: Result, new: Result) -> Iterator[Change]:
    if _RANK[old.verdict] != _RANK[new.verdict]:
        direction: Direction = "better" if _RANK[new.verdict] > _RANK[old.verdict] else "worse"
        yield _change("verdict", direction, new, old=old.verdict, new=new.verdict, reason=new.reason.id)
    yield from _size(old, new)
    yield from _accuracy(old.accuracy, new.accuracy, new)
    others = {one.metric: one for one in new.more_accuracy}
    for one in old.more_accuracy:
        yield from _accuracy(one, others.get(one.metric), new)
    yield from _speed(old, new)
    yield from _fallback(old, new)
    yield from _outcomes(old, new)


def _size(old: Result, new: Result) -> Iterator[Change]:
    if old.size is None or new.size is None:
        yield from _lost("size", old.size, new.size, new)
        return
    before, after = old.size.bytes, new.size.bytes
    if abs(after - before) > SIZE_MARGIN * before:
        yield _change("size", "worse" if after > before else "better", new, old=before, new=after)


def _accuracy(before: Accuracy | None, after: Accuracy | None, new: Result) -> Iterator[Change]:
    """By the drop against the reference: a better source model must not hide a worse build."""
    if before is None or after is None:
        yield from _lost("accuracy", before, after, new)
        return
    if before.metric != after.metric:
        yield _change("accuracy", "neutral", new, why="other_metric", old=before.metric, new=after.metric)
        return
    if before.ci95 is None or after.ci95 is None:
        yield from _without_interval(before, after, new)
        return
    direction = _apart(before.ci95, after.ci95)
    if direction is not None:
        facts = _interval_facts(before.drop, before.ci95, after.drop, after.ci95)
        yield _change("accuracy", "worse" if direction > 0 else "better", new, metric=after.metric, **facts)


def _without_interval(before: Accuracy, after: Accuracy, new: Result) -> Iterator[Change]:
    if before.drop != after.drop:
        facts = {"metric": after.metric, "old": before.drop, "new": after.drop}
        yield _change("accuracy", "neutral", new, why="no_interval", **facts)


def _speed(old: Result, new: Result) -> Iterator[Change]:
    before, after = old.comparison, new.comparison
    if before is None or after is None:
        yield from _lost("speed", before, after, new)
        return
    if not (outputs_are_right(old) and outputs_are_right(new)):
        yield _change("speed", "neutral", new, why="outputs_not_right")
        return
    if before.baseline != after.baseline:
        yield _change("speed", "neutral", new, why="other_baseline", old=before.baseline, new=after.baseline)
        return
    old_interval, new_interval = before.counted_interval, after.counted_interval
    if old_interval is None or new_interval is None:
        busy = old_interval is not before.ci95 or new_interval is not after.ci95
        why = "machine_busy" if busy else "no_interval"
        yield _change("speed", "neutral", new, why=why, old=before.ratio, new=after.ratio)
        return
    direction = _apart(old_interval, new_interval)
    if direction is not None:
        facts = _interval_facts(before.ratio, old_interval, after.ratio, new_interval)
        yield _change("speed", "better" if direction > 0 else "worse", new, **facts)


def _fallback(old: Result, new: Result) -> Iterator[Change]:
    asked = new.configuration.accelerator_requested
    before, after = old.accelerator_actual, new.accelerator_actual
    if before == after:
        return
    direction: Direction = "neutral"
    if before == asked:
        direction = "worse"
    elif after == asked:
        direction = "better"
    yield _change("fallback", direction, new, requested=asked, old=before, new=after)


def _outcomes(old: Result, new: Result) -> Iterator[Change]:
    """By the share of all cases that ended badly; the sets of cases may differ in number."""
    before, after = _bad_share(old), _bad_share(new)
    if before != after:
        direction: Direction = "worse" if after > before else "better"
        yield _change("outcomes", direction, new, old=_bad(old), new=_bad(new))


def _bad(result: Result) -> int:
    counts = [*result.outcomes.items(), *result.edge.items()]
    return sum(number for outcome, number in counts if outcome in BAD_OUTCOMES)


def _bad_share(result: Result) -> float:
    every = sum(result.outcomes.values()) + sum(result.edge.values())
    return _bad(result) / every if every else 0.0


def _lost(id: ChangeId, before: object, after: object, new: Result) -> Iterator[Change]:
    """A number that was there and is gone is not a regression of the build, but it is said."""
    if (before is None) != (after is None):
        yield _change(id, "neutral", new, why="missing_in_new" if after is None else "missing_in_old")


def _apart(old: Interval, new: Interval) -> int | None:
    """1 if the new interval lies wholly above the old one, -1 wholly below, None if they overlap."""
    if new[0] > old[1]:
        return 1
    return -1 if new[1] < old[0] else None


def _interval_facts(
    old: float | None, old_interval: Interval, new: float | None, new_interval: Interval
) -> dict[str, Fact]:
    return {
        "old": old,
        "old_lo": old_interval[0],
        "old_hi": old_interval[1],
        "new": new,
        "new_lo": new_interval[0],
        "new_hi": new_interval[1],
    }
