"""Intervals for the difference of two proportions that were measured on the same samples.

The pairs are counted in a table of two by two: `both` and `neither`, and the discordant ones, `only_first`
and `only_second`. The estimate is (only_first - only_second) / n. An interval that takes the estimate's own
variance (Wald, or a bootstrap) reads [0, 0] when no pair is discordant; the score interval does not, because
it takes the variance at each difference that it tests.
"""

import math
from dataclasses import dataclass

from phoneproof.verify.intervals import CONFIDENCE, Interval


@dataclass(frozen=True)
class PairedTable:
    """Counts of pairs. ValueError when a count is negative or there is no pair."""

    both: int
    only_first: int
    only_second: int
    neither: int

    def __post_init__(self) -> None:
        if min(self.both, self.only_first, self.only_second, self.neither) < 0:
            raise ValueError("a negative count of pairs")
        if self.n == 0:
            raise ValueError("no pairs")

    @property
    def n(self) -> int:
        """Number of pairs."""
        return self.both + self.only_first + self.only_second + self.neither

    @property
    def difference(self) -> float:
        """First proportion minus the second."""
        return (self.only_first - self.only_second) / self.n


def tango_interval(table: PairedTable, confidence: float = CONFIDENCE) -> Interval:
    """Score interval (Tango, Statistics in Medicine 17, 1998, 891-908).

    It holds each difference d at which the score statistic
    (b - c - n d) / sqrt(n (2 q(d) + d (1 - d))) is within +- z, where b = only_first, c = only_second and
    q(d) is the most likely proportion of only_second pairs under d.
    """
    return scaled_tango_interval(table, 1.0, confidence)


def scaled_tango_interval(table: PairedTable, times: float, confidence: float = CONFIDENCE) -> Interval:
    """The interval that `times` as many pairs with the same shares would have."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    b, c, n = (times * count for count in (table.only_first, table.only_second, table.n))
    z = float(norm.ppf((1 + confidence) / 2))
    if b + c == 0 or max(b, c) == n:
        return _degenerate_tango(b, c, n, z * z, confidence)

    def excess(d: float, sign: int) -> float:
        return (b - c - n * d) - sign * z * math.sqrt(_score_variance(b, c, n, d))

    estimate = table.difference
    lo = float(brentq(excess, -1.0, estimate, args=(1,), xtol=1e-14))
    hi = float(brentq(excess, estimate, 1.0, args=(-1,), xtol=1e-14))
    return Interval(lo, hi, confidence)


def _score_variance(b: float, c: float, n: float, d: float) -> float:
    """Variance of b - c when the true difference is d and the rest is as likely as the counts allow."""
    linear = (2 * n - b + c) * d - b - c
    constant = -c * d * (1 - d)
    q = (math.sqrt(max(linear * linear - 8 * n * constant, 0.0)) - linear) / (4 * n)
    return max(n * (2 * q + d * (1 - d)), 0.0)


def _degenerate_tango(b: float, c: float, n: float, z2: float, confidence: float) -> Interval:
    """No pair discordant, or all in one direction.

    The variance is 0 at the estimate, so root finding would stop there; the score equation can be solved:
    with b = c = 0 its square is n d / (1 - d) = z2, with b = n it is n (1 - d) / (1 + d) = z2.
    """
    if b + c == 0:
        reach = z2 / (n + z2)
        return Interval(-reach, reach, confidence)
    reach = (n - z2) / (n + z2)
    return Interval(reach, 1.0, confidence) if b == n else Interval(-1.0, -reach, confidence)


def newcombe_interval(table: PairedTable, confidence: float = CONFIDENCE) -> Interval:
    """Square-and-add interval from two Wilson intervals.

    Newcombe, Statistics in Medicine 17, 1998, 2635-2650: method 10, with the correlation phi corrected for
    continuity. A second method, to check the first.
    """
    first, second = table.both + table.only_first, table.both + table.only_second
    p1, (l1, u1) = first / table.n, _wilson(first, table.n, confidence)
    p2, (l2, u2) = second / table.n, _wilson(second, table.n, confidence)
    phi = _corrected_phi(table)
    below = math.sqrt(max((p1 - l1) ** 2 - 2 * phi * (p1 - l1) * (u2 - p2) + (u2 - p2) ** 2, 0.0))
    above = math.sqrt(max((u1 - p1) ** 2 - 2 * phi * (u1 - p1) * (p2 - l2) + (p2 - l2) ** 2, 0.0))
    return Interval(table.difference - below, table.difference + above, confidence)


def _wilson(successes: int, n: int, confidence: float) -> tuple[float, float]:
    from scipy.stats import binomtest

    bounds = binomtest(successes, n).proportion_ci(confidence_level=confidence, method="wilson")
    return float(bounds.low), float(bounds.high)


def _corrected_phi(table: PairedTable) -> float:
    first, second = table.both + table.only_first, table.both + table.only_second
    margins = first * (table.n - first) * second * (table.n - second)
    if margins == 0:
        return 0.0
    determinant = table.both * table.neither - table.only_first * table.only_second
    corrected = max(determinant - table.n / 2, 0.0) if determinant > 0 else float(determinant)
    return corrected / math.sqrt(margins)
