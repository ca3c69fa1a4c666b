"""Which build to ship, out of the results of a run."""

import math
from collections.abc import Sequence
from typing import Final

from phoneproof.errors import Fact
from phoneproof.report import model as report
from phoneproof.verify.verdicts import Reason

ALIKE_SIZE: Final = 0.05
"""Sizes within 5 % are alike: the form of a file then matters less than how right it is."""


def recommend(results: Sequence[report.Result]) -> report.Recommendation:
    """The build to ship: of those that pass every gate the fastest; where speeds are alike the smallest; and
    where sizes are alike the one closest to the source model.

    A build counts only if it passes wherever it was run. One that is neither faster nor smaller than its
    baseline is not recommended.
    """
    if not any(r.latency or r.parity for r in results):
        return report.Recommendation(None, None, Reason("nothing_measured"))
    candidates = [r for r in results if not r.baseline]
    if not candidates:
        return report.Recommendation(None, None, Reason("only_baseline"))
    doubtful = {r.configuration.build_id for r in candidates if r.verdict != "pass"}
    passing = [r for r in candidates if r.configuration.build_id not in doubtful and _gains(r)]
    if not passing:
        return report.Recommendation(None, None, Reason("none_passes"))
    fastest = [r for r in passing if _is_among_the_fastest(r, passing)] or passing
    smallest = min(_size_ratio(r) for r in fastest)
    small = [r for r in fastest if _size_ratio(r) <= smallest * (1 + ALIKE_SIZE)]
    best = max(small, key=lambda r: (_worst_db(r), -_size_ratio(r)))
    facts: dict[str, Fact] = {
        "size_ratio": best.size.ratio if best.size else None,
        "speed_ratio": _shown_ratio(best.comparison),
        "drop": best.accuracy.drop if best.accuracy else None,
    }
    return report.Recommendation(best.configuration.build_id, best.device.id, Reason("best_passing", facts))


def _gains(result: report.Result) -> bool:
    faster = result.comparison is not None and result.comparison.verdict == "faster"
    smaller = result.size is not None and result.size.ratio < 0.95
    return faster or smaller


def _is_among_the_fastest(result: report.Result, among: Sequence[report.Result]) -> bool:
    """Whether no other candidate is faster beyond the intervals."""
    own = result.comparison.counted_interval if result.comparison is not None else None
    if own is None:
        return False
    others = [r.comparison.counted_interval for r in among if r.comparison is not None]
    return all(own[1] >= interval[0] for interval in others if interval is not None)


def _shown_ratio(comparison: report.Comparison | None) -> float | None:
    """Nothing is praised for a speed that a busy machine gave."""
    if comparison is None or (comparison.ci95 is not None and comparison.counted_interval is None):
        return None
    return comparison.ratio


def _size_ratio(result: report.Result) -> float:
    return result.size.ratio if result.size else 1.0


def _worst_db(result: report.Result) -> float:
    """SQNR of the output or slice that agrees least; infinite where all are equal."""
    values = [v for p in result.parity or () for v in (p.sqnr_db, p.worst_slice_db) if v is not None]
    return min(values, default=math.inf if result.parity else -math.inf)
