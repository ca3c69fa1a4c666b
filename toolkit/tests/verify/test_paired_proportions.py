"""Paired score intervals against published values, closed forms and simulated coverage."""

import math
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from phoneproof.verify.intervals import Interval
from phoneproof.verify.paired_proportions import PairedTable, newcombe_interval, tango_interval

Z = float(norm.ppf(0.975))
COUNTS = st.integers(min_value=0, max_value=2000)
TABLES = st.builds(PairedTable, COUNTS, COUNTS, COUNTS, st.integers(min_value=1, max_value=2000))

# Fagerland, Lydersen and Laake, "Statistical Analysis of Contingency Tables" (2017), chapter 8, and the tests
# of its R package contingencytables.
AIRWAY = PairedTable(1, 1, 7, 12)
RESPONSE = PairedTable(59, 6, 16, 80)


def ends(interval: Interval, digits: int) -> tuple[float, float]:
    return round(interval.lo, digits), round(interval.hi, digits)


@pytest.mark.parametrize(
    ("table", "digits", "published"),
    [
        (AIRWAY, 3, (-0.517, -0.026)),
        (RESPONSE, 4, (-0.1240, -0.0054)),
    ],
)
def test_tango_gives_the_published_interval(
    table: PairedTable, digits: int, published: tuple[float, float]
) -> None:
    assert ends(tango_interval(table), digits) == published


def test_tango_gives_the_interval_of_the_r_package_propcis_at_another_confidence() -> None:
    # scoreci.mp(25, 28, 618, 0.90), whose estimate is (28 - 25) / 618.
    assert ends(tango_interval(PairedTable(300, 28, 25, 265), 0.90), 4) == (-0.0148, 0.0247)


def test_newcombe_gives_the_published_intervals() -> None:
    assert ends(newcombe_interval(AIRWAY), 3) == (-0.507, -0.026)
    assert ends(newcombe_interval(RESPONSE), 4) == (-0.1186, -0.0046)
    # Altman, Machin, Bryant and Gardner, "Statistics with Confidence" (2000), table 6.2.
    assert ends(newcombe_interval(PairedTable(14, 5, 0, 22)), 2) == (0.01, 0.23)


@pytest.mark.parametrize("n", [1, 2, 8, 100, 1000, 10**7])
def test_no_discordant_pair_still_leaves_doubt(n: int) -> None:
    interval = tango_interval(PairedTable(n, 0, 0, 0))
    assert interval.hi == pytest.approx(Z**2 / (n + Z**2), rel=1e-12)
    assert interval.lo == -interval.hi
    assert newcombe_interval(PairedTable(n, 0, 0, 0)).hi > 0


@pytest.mark.parametrize("n", [1, 5, 300])
def test_all_pairs_discordant_in_one_direction(n: int) -> None:
    interval = tango_interval(PairedTable(0, n, 0, 0))
    assert interval.hi == 1.0
    assert interval.lo == pytest.approx((n - Z**2) / (n + Z**2))
    assert astuple(tango_interval(PairedTable(0, 0, n, 0)))[:2] == (-1.0, -interval.lo)


@pytest.mark.parametrize("table", [PairedTable(10**7, 1, 0, 0), PairedTable(1, 10**6, 0, 0)])
def test_the_degenerate_tables_join_smoothly_to_their_neighbours(table: PairedTable) -> None:
    interval = tango_interval(table)
    assert table.difference in interval
    assert interval.lo < table.difference < interval.hi <= 1


@given(TABLES)
def test_tango_ends_are_where_the_score_statistic_is_z(table: PairedTable) -> None:
    interval = tango_interval(table)
    assert -1 <= interval.lo <= table.difference <= interval.hi <= 1
    b, c, n = table.only_first, table.only_second, table.n
    if b + c == 0 or max(b, c) == n:
        return
    for d, expected in ((interval.lo, Z), (interval.hi, -Z)):
        # q maximises the trinomial likelihood under d: the larger root of Tango's equation.
        roots = np.roots([2 * n, (2 * n - b + c) * d - b - c, -c * d * (1 - d)])
        q = max(roots.real)
        statistic = (b - c - n * d) / math.sqrt(n * (2 * q + d * (1 - d)))
        assert statistic == pytest.approx(expected, abs=1e-4)


@given(TABLES)
def test_swapping_the_two_sides_mirrors_the_interval(table: PairedTable) -> None:
    swapped = PairedTable(table.both, table.only_second, table.only_first, table.neither)
    for method in (tango_interval, newcombe_interval):
        there, back = method(table), method(swapped)
        assert (there.lo, there.hi) == pytest.approx((-back.hi, -back.lo), abs=1e-9)


@pytest.mark.parametrize(
    ("n", "probabilities"),
    [
        (30, (0.85, 0.05, 0.02, 0.08)),
        (100, (0.90, 0.03, 0.01, 0.06)),
        (500, (0.75, 0.012, 0.008, 0.23)),
        (500, (0.80, 0.004, 0.000, 0.196)),
    ],
)
def test_the_score_interval_covers_the_true_difference(
    n: int, probabilities: tuple[float, float, float, float]
) -> None:
    random = np.random.default_rng(1998)
    truth = probabilities[1] - probabilities[2]
    tables = [PairedTable(*(int(x) for x in row)) for row in random.multinomial(n, probabilities, size=1500)]
    coverage = np.mean([truth in tango_interval(table) for table in tables])
    assert coverage >= 0.935


@pytest.mark.parametrize("counts", [(-1, 0, 0, 5), (0, 0, 0, 0)])
def test_a_table_that_cannot_be_is_refused(counts: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="pairs"):
        PairedTable(*counts)
