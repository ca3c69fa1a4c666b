"""One class only, and classes in other shares."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from phoneproof.data.checks.label_checks import mean_deviation
from phoneproof.data.store import SampleStore
from phoneproof.findings import Severity
from tests.data.builders import image_folder, stored_folder
from tests.data.checks.stored import found, stored_values

NAMES = ("ape", "bee", "cat", "dog")


def labelled(root: Path, labels: Sequence[Any] | None, names: tuple[str, ...] | None = None) -> SampleStore:
    count = 200 if labels is None else len(labels)
    values = np.random.default_rng(len(root.name)).normal(size=(count, 5)).astype(np.float32)
    return stored_values(root, values, labels, names)


def even(count: int, classes: int) -> list[int]:
    return [number % classes for number in range(count)]


class TestOneClass:
    def test_though_the_evaluation_set_has_more(self, tmp_path: Path) -> None:
        evaluation = labelled(tmp_path / "e", even(100, 4))
        finding = found(labelled(tmp_path / "cc", [2] * 200), evaluation)["DATA-ONE-CLASS"]
        assert finding.severity is Severity.SEVERE
        assert (finding.facts["samples"], finding.facts["classes"]) == (200, 4)
        assert finding.facts["examples"] == ("2",)

    def test_though_the_plan_names_more(self, tmp_path: Path) -> None:
        finding = found(labelled(tmp_path / "cc", [1] * 200, NAMES))["DATA-ONE-CLASS"]
        assert (finding.facts["classes"], finding.facts["examples"]) == (4, ("bee",))

    def test_one_class_is_all_there_is(self, tmp_path: Path) -> None:
        assert found(labelled(tmp_path / "cc", [0] * 200)) == {}

    def test_without_labels_nothing_is_said(self, tmp_path: Path) -> None:
        evaluation = labelled(tmp_path / "e", even(100, 4))
        assert found(labelled(tmp_path / "cc", None), evaluation) == {}

    def test_a_single_sub_folder_that_is_no_class(self, tmp_path: Path) -> None:
        calibration = stored_folder(tmp_path, image_folder(tmp_path / "c", {"images": 100}))
        evaluation = stored_folder(tmp_path, image_folder(tmp_path / "e", {"cat": 5, "dog": 5}, (7, 7)))
        assert found(calibration, evaluation) == {}


class TestBalance:
    def test_other_shares_than_in_the_evaluation_set(self, tmp_path: Path) -> None:
        evaluation = labelled(tmp_path / "e", even(400, 4))
        skewed = [0] * 140 + even(60, 4)
        finding = found(labelled(tmp_path / "cc", skewed), evaluation)["DATA-UNBALANCED"]
        assert finding.severity is Severity.WARNING
        assert finding.facts["misplaced"] == pytest.approx(155 / 200 - 1 / 4)
        assert finding.facts["largest_share"] == pytest.approx(155 / 200)
        assert finding.facts["evaluation_share"] == 0.25
        assert finding.facts["missing"] == 0

    def test_shares_that_the_evaluation_set_has_too(self, tmp_path: Path) -> None:
        skewed = [0] * 140 + even(60, 4)
        assert found(labelled(tmp_path / "cc", skewed), labelled(tmp_path / "e", skewed)) == {}

    def test_without_labels_there_equal_shares_are_expected(self, tmp_path: Path) -> None:
        skewed = [0] * 140 + even(60, 4)
        finding = found(labelled(tmp_path / "cc", skewed, NAMES), labelled(tmp_path / "e", None))
        assert finding["DATA-UNBALANCED"].facts["equal_share"] == 0.25

    @pytest.mark.parametrize("seed", range(2))
    def test_many_classes_drawn_at_random(self, tmp_path: Path, seed: int) -> None:
        draw = np.random.default_rng(seed)
        calibration = labelled(tmp_path / "cc", draw.integers(0, 1000, 200).tolist())
        evaluation = labelled(tmp_path / "e", draw.integers(0, 1000, 500).tolist())
        assert found(calibration, evaluation) == {}

    def test_labels_that_are_no_classes(self, tmp_path: Path) -> None:
        values = np.random.default_rng(0).normal(size=200).tolist()
        assert found(labelled(tmp_path / "cc", values), labelled(tmp_path / "e", even(100, 4))) == {}


@given(st.integers(1, 400), st.floats(0.001, 0.999))
def test_the_mean_deviation_is_that_of_the_binomial_distribution(n: int, share: float) -> None:
    k = np.arange(n + 1)
    expected = float(np.sum(np.abs(k / n - share) * binom.pmf(k, n, share)))
    assert math.isclose(mean_deviation(n, share), expected, rel_tol=1e-7, abs_tol=1e-12)
