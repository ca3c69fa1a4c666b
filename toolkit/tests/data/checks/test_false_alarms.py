"""No check raises an alarm at real data, parted at random; what is true of them is named here."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from phoneproof.data.checks.registry import run_checks
from tests.data.real_sets import CACHE, WHEELS, RealSet, halves, real_sets
from tests.networks.project import NotFetchedError, fetch_wheels

TRUE: Mapping[str, frozenset[str]] = {
    "iris": frozenset({"DATA-OVERLAP"}),  # two of its flowers are equal in every measure
}
SEEDS = range(3)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, RealSet]:
    try:
        wheels = fetch_wheels(CACHE, WHEELS)
    except NotFetchedError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"the wheels of wheels.txt cannot be fetched: {error}")
    return real_sets(tmp_path_factory.mktemp("real"), wheels)


@pytest.mark.slow
def test_real_data_parted_at_random(real: Mapping[str, RealSet], tmp_path: Path) -> None:
    assert len(real) >= 12
    for name, one in real.items():
        small = {"DATA-CALIBRATION-FEW"} if one.samples < 200 else set()
        for seed in SEEDS:
            found = {finding.id for part in halves(one, tmp_path, seed) for finding in run_checks(part)}
            assert found - small <= TRUE.get(name, frozenset()), f"{name}, seed {seed}"
