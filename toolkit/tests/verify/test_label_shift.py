import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from phoneproof.verify.label_shift import LabelShift, label_shift


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Scores of a real classifier on samples that it has not seen, and their labels."""
    data = load_digits()
    model = LogisticRegression(C=0.01, max_iter=200).fit(data.data[:800] / 16, data.target[:800])
    return model.decision_function(data.data[800:1200] / 16), data.target[800:1200]


def test_right_labels(digits: tuple[np.ndarray, np.ndarray]) -> None:
    assert label_shift(*digits) is None


@pytest.mark.parametrize("by", [1, -1])
def test_labels_counted_from_another_number(digits: tuple[np.ndarray, np.ndarray], by: int) -> None:
    scores, labels = digits
    background = np.full((len(scores), 1), -100.0)
    wide = np.hstack([background, scores] if by == 1 else [scores, background])
    found = label_shift(wide, labels if by == 1 else labels + 1)
    assert isinstance(found, LabelShift)
    assert found.by == by
    assert found.shifted > 0.8 > 0.2 > found.accuracy
    assert found.n == 400


def test_labels_in_another_order(digits: tuple[np.ndarray, np.ndarray]) -> None:
    scores, labels = digits
    assert label_shift(scores, np.random.default_rng(3).permutation(10)[labels]) is None


def test_two_classes_are_not_judged() -> None:
    scores = np.eye(2)[np.zeros(50, int)]
    assert label_shift(scores, np.ones(50, int)) is None


def test_scores_that_are_not_numbers_are_never_right() -> None:
    scores = np.full((50, 5), np.nan)
    assert label_shift(scores, np.zeros(50, int)) is None


@given(st.integers(0, 2**32 - 1), st.integers(3, 50), st.integers(1, 200))
def test_guessing_has_no_shift_but_by_rare_luck(seed: int, classes: int, n: int) -> None:
    draw = np.random.default_rng(seed)
    found = label_shift(draw.normal(size=(n, classes)), draw.integers(0, classes, n))
    assert found is None or found.shifted >= 2 * found.accuracy


def test_other_shapes() -> None:
    with pytest.raises(ValueError):
        label_shift(np.zeros((3, 4)), np.zeros(2, int))
