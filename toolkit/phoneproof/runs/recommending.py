"""Which build to ship, out of the results of a run."""

from collections.abc import Sequence

from phoneproof.errors import Fact
from phoneproof.report import model as report
from phoneproof.verify.verdicts import Reason


def recommend(results: Sequence[report.Result]) -> report.Recommendation:
    """The build to ship: of those that pass every gate the fastest, the smaller one where speeds are alike.

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
    best = max(passing, key=lambda r: (_speed_class(r, passing), -(r.size.ratio if r.size else 1.0)))
    facts: dict[str, Fact] = {
        "size_ratio": best.size.ratio if best.size else None,
        "speed_ratio": best.comparison.ratio if best.comparison else None,
        "drop": best.accuracy.drop if best.accuracy else None,
    }
    return report.Recommendation(best.configuration.build_id, best.device.id, Reason("best_passing", facts))


def _gains(result: report.Result) -> bool:
    faster = result.comparison is not None and result.comparison.verdict == "faster"
    smaller = result.size is not None and result.size.ratio < 0.95
    return faster or smaller


def _speed_class(result: report.Result, among: Sequence[report.Result]) -> int:
    """1 where no other candidate is faster beyond the intervals, else 0."""
    own = result.comparison
    if own is None or own.ci95 is None:
        return 0
    others = [r.comparison.ci95 for r in among if r.comparison is not None and r.comparison.ci95 is not None]
    return int(all(own.ci95[1] >= lo for lo, _ in others))
