"""How much more measuring decides a question that an interval left open.

What is asked for is an interval that lies on one side of the limit with the probability POWER, if the value
that was measured is the true one. With just the size at which the interval reaches from the value to the
limit, every second repetition would be undecided again: the value varies as well. So the size is enlarged by
((z + z_power) / z)^2, z for the confidence of the interval: the usual size of a sample (for paired
proportions: Connor, Biometrics 43, 1987, 207-211). The width of a mean's interval falls with one over the
root of n; for paired proportions Tango's interval itself is asked, which falls faster where few pairs differ.
"""

import math
from typing import Final

from phoneproof.verify.accuracy import AccuracyDrop
from phoneproof.verify.comparison import MARGIN, Comparison
from phoneproof.verify.intervals import CONFIDENCE, Interval
from phoneproof.verify.paired_proportions import PairedTable, scaled_tango_interval

POWER: Final = 0.8
MOST_SAMPLES: Final = 1_000_000
MOST_ROUNDS: Final = 1_000
MOST_TIMES: Final = 100.0
"""More than these are no plan: then the limit is what has to be thought about."""


def samples_to_decide(drop: AccuracyDrop, limit: float) -> int | None:
    """Samples in all that show the drop to be on its side of the limit, with the probability POWER if the
    drop stays. None where there is no interval, or more than MOST_SAMPLES are needed.
    """
    if drop.drop is None or drop.interval is None:
        return None
    if drop.table is not None:
        times = _times_for_table(drop.table, limit)
    else:
        times = times_to_decide(drop.drop, drop.interval, limit)
    needed = math.inf if times is None else times * drop.n
    return None if needed > MOST_SAMPLES else max(math.ceil(needed), drop.n + 1)


def rounds_to_decide(comparison: Comparison, limit: float | None) -> int | None:
    """Rounds in all that put the speed-up on its side of the limit; without a limit, that show it to be
    another than 1 or within the margin that does not matter. None without an interval, or for more than
    MOST_ROUNDS.
    """
    if comparison.ratio is None or comparison.interval is None:
        return None
    lo, hi = math.log(comparison.interval.lo), math.log(comparison.interval.hi)
    value, inside = math.log(comparison.ratio), Interval(lo, hi)
    if limit is not None:
        times = times_to_decide(value, inside, math.log(limit))
    else:
        zone = math.log1p(MARGIN)
        ends = (0.0, math.copysign(zone, value) if abs(value) < zone else 0.0)
        found = [one for end in ends if (one := times_to_decide(value, inside, end)) is not None]
        times = min(found, default=None)
    if times is None or times * comparison.rounds > MOST_ROUNDS:
        return None
    return max(math.ceil(times * comparison.rounds), comparison.rounds + 1)


def times_to_decide(value: float, interval: Interval, limit: float) -> float | None:
    """How many times the measurements. None for more than MOST_TIMES, or a value that is the limit."""
    distance = abs(limit - value)
    reach = interval.hi - value if limit >= value else value - interval.lo
    if distance == 0 or reach > distance * math.sqrt(MOST_TIMES):
        return None
    times = (reach / distance) ** 2 * _enlargement()
    return times if times <= MOST_TIMES else None


def _enlargement() -> float:
    from scipy.stats import norm

    z, z_power = float(norm.ppf((1 + CONFIDENCE) / 2)), float(norm.ppf(POWER))
    return ((z + z_power) / z) ** 2


def _times_for_table(table: PairedTable, limit: float) -> float | None:
    """By halving: Tango's interval of the same shares narrows steadily with the number of pairs."""
    if table.difference == limit:
        return None

    def decides(times: float) -> bool:
        interval = scaled_tango_interval(table, times)
        return interval.hi <= limit if table.difference < limit else interval.lo > limit

    most = MOST_SAMPLES / table.n
    if most < 1 or not decides(most):
        return None
    low, high = 1.0, most
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if decides(middle) else (middle, high)
    # Without a pair that differs there is no variation to allow for.
    return high if table.only_first + table.only_second == 0 else high * _enlargement()
