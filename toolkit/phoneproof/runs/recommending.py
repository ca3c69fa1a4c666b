"""Which build of each model to ship, out of the results of a run."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from phoneproof.errors import Fact
from phoneproof.recipes.table import Format
from phoneproof.report import model as report
from phoneproof.report.formats import PLATFORMS_OF
from phoneproof.report.reading import model_name
from phoneproof.verify.verdicts import Reason

ALIKE_SIZE: Final = 0.05
"""Sizes within 5 % are alike: the form of a file then matters less than how right it is."""


def recommend_each(
    builds: Iterable[tuple[str, Format]], results: Sequence[report.Result]
) -> tuple[report.ModelRecommendation, ...]:
    """The build of each model to ship on each platform: builds of different networks do not compete, and
    neither do those that the platform does not run.

    builds: build_id and format of all builds, made or failed; they name the models, in order. The host is
    named only where nothing was built for phones.
    """
    formats = dict(builds)
    chosen = []
    for model in dict.fromkeys(model_name(build_id) for build_id in formats):
        own = [r for r in results if model_name(r.configuration.build_id) == model]
        for platform in _platforms(f for build_id, f in formats.items() if model_name(build_id) == model):
            best = recommend([r for r in own if platform in PLATFORMS_OF[formats[r.configuration.build_id]]])
            chosen.append(
                report.ModelRecommendation(best.build_id, best.device, best.reason, model, platform)
            )
    return tuple(chosen)


def _platforms(formats: Iterable[Format]) -> tuple[report.Platform, ...]:
    wanted = {platform for form in formats for platform in PLATFORMS_OF[form]}
    phones: tuple[report.Platform, ...] = ("android", "ios")
    return tuple(p for p in phones if p in wanted) or ("host",)


def the_only(each: Sequence[report.ModelRecommendation]) -> report.Recommendation:
    """The recommendation where all are the same; else none, with the reason."""
    if not each:
        return report.Recommendation(None, None, Reason("nothing_measured"))
    models = tuple(dict.fromkeys(one.model for one in each))
    if len(models) > 1:
        return report.Recommendation(None, None, Reason.of("several_models", models=models))
    first = each[0]
    if any(one.build_id != first.build_id for one in each):
        platforms = tuple(one.platform for one in each)
        return report.Recommendation(None, None, Reason.of("several_platforms", platforms=platforms))
    return report.Recommendation(first.build_id, first.device, first.reason)


def recommend(results: Sequence[report.Result]) -> report.Recommendation:
    """The build to ship, out of the results of one model: of those that pass every gate the fastest; where
    speeds are alike the smallest; and where sizes are alike the one closest to the source model.

    A build counts only if it passes wherever it was run. One that is neither faster nor smaller than its
    baseline is not recommended, and one that is shown to be slower only where no other is left.
    """
    if not any(r.latency or r.parity for r in results):
        return report.Recommendation(None, None, Reason("nothing_measured"))
    candidates = [r for r in results if not r.baseline]
    if not candidates:
        return report.Recommendation(None, None, Reason("only_baseline"))
    doubtful = {r.configuration.build_id for r in candidates if r.verdict != "pass"}
    passing = [r for r in candidates if r.configuration.build_id not in doubtful and _gains(r)]
    if not passing:
        some_pass = any(r.configuration.build_id not in doubtful for r in candidates)
        return report.Recommendation(None, None, Reason("none_gains" if some_pass else "none_passes"))
    best = _best(passing)
    facts: dict[str, Fact] = {
        "size_ratio": best.size.ratio if best.size else None,
        "speed_ratio": _known_ratio(best.comparison),
        "drop": best.accuracy.drop if best.accuracy else None,
    }
    slower = _is(best, "slower")
    reason = Reason("best_for_size", facts) if slower else Reason("best_passing", facts)
    return report.Recommendation(best.configuration.build_id, best.device.id, reason)


def _best(passing: Sequence[report.Result]) -> report.Result:
    not_slower = [r for r in passing if not _is(r, "slower")] or passing
    fastest = [r for r in not_slower if _is_among_the_fastest(r, not_slower)]
    smallest = min(_size_ratio(r) for r in fastest)
    small = [r for r in fastest if _size_ratio(r) <= smallest * (1 + ALIKE_SIZE)]
    return max(small, key=lambda r: (_worst_db(r), -_size_ratio(r)))


def _gains(result: report.Result) -> bool:
    return _is(result, "faster") or (result.size is not None and result.size.ratio < 0.95)


def _is(result: report.Result, speed: report.Speed) -> bool:
    return result.comparison is not None and result.comparison.verdict == speed


def _is_among_the_fastest(result: report.Result, among: Sequence[report.Result]) -> bool:
    """Whether no other candidate is faster beyond the intervals. A speed that is not known may be any up to
    what is known to be faster than the baseline.
    """
    own = result.comparison.counted_interval if result.comparison is not None else None
    if own is None:
        return not any(_is(other, "faster") for other in among)
    others = [r.comparison.counted_interval for r in among if r.comparison is not None]
    return all(own[1] >= interval[0] for interval in others if interval is not None)


def _known_ratio(comparison: report.Comparison | None) -> float | None:
    """Nothing is praised for a speed that the measurement does not tell."""
    return None if comparison is None or comparison.verdict == "too_noisy" else comparison.ratio


def _size_ratio(result: report.Result) -> float:
    return result.size.ratio if result.size else 1.0


def _worst_db(result: report.Result) -> float:
    """SQNR of the output or slice that agrees least; infinite where all are equal."""
    values = [v for p in result.parity or () for v in (p.sqnr_db, p.worst_slice_db) if v is not None]
    return min(values, default=math.inf if result.parity else -math.inf)
