"""Subsets are stratified, nested, and the same everywhere."""

from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from phoneproof.data.subset import Part, choose_subset, chosen, part_of
from phoneproof.errors import DataError

labels_lists = st.lists(st.integers(0, 6), max_size=80)


@given(labels_lists, st.integers(0, 90), st.integers(0, 5))
def test_size_order_and_repeatability(labels: list[int], n: int, seed: int) -> None:
    chosen = choose_subset(labels, n, seed)
    assert len(chosen) == min(n, len(labels))
    assert list(chosen) == sorted(set(chosen))
    assert set(chosen) <= set(range(len(labels)))
    assert chosen == choose_subset(labels, n, seed)


@given(labels_lists, st.integers(0, 90), st.integers(0, 5))
def test_each_class_is_there_as_far_as_seats_go(labels: list[int], n: int, seed: int) -> None:
    found = {labels[index] for index in choose_subset(labels, n, seed)}
    assert len(found) == min(n, len(set(labels)))


@given(labels_lists, st.integers(0, 90), st.integers(0, 5))
def test_a_larger_subset_contains_the_smaller(labels: list[int], n: int, seed: int) -> None:
    assert set(choose_subset(labels, n, seed)) <= set(choose_subset(labels, n + 1, seed))


@given(st.lists(st.integers(5, 60), min_size=2, max_size=5), st.integers(0, 3))
def test_shares_are_proportional(sizes: list[int], seed: int) -> None:
    """Sainte-Laguë stays within one seat of the quota for these sizes, where the first seat is earned."""
    labels = [label for label, size in enumerate(sizes) for _ in range(size)]
    n = sum(sizes) // 2
    found = Counter(labels[index] for index in choose_subset(labels, n, seed))
    for label, size in enumerate(sizes):
        assert abs(found[label] - n * size / sum(sizes)) <= 1


def test_the_choice_does_not_depend_on_platform_or_version() -> None:
    """Fixed on purpose: results of two machines are compared sample by sample."""
    assert choose_subset([None] * 20, 5, 0) == (4, 7, 9, 15, 18)
    assert choose_subset([0, 1] * 10, 4, 7) == (3, 4, 7, 12)


def test_another_seed_chooses_others() -> None:
    choices = {choose_subset([None] * 100, 10, seed) for seed in range(10)}
    assert len(choices) == 10


def test_labels_that_are_no_classes_are_ordinary_values() -> None:
    boxes = [[[0, 0, 1, 1]], [], [[2, 2, 3, 3]]]
    assert choose_subset(boxes, 2, 0) == choose_subset(boxes, 2, 0)
    assert len(choose_subset([0.5, 0.25, 0.5], 2, 0)) == 2


@given(st.lists(st.sampled_from("abc"), max_size=40), st.integers(0, 45), st.integers(0, 9))
def test_a_part_that_takes_and_one_that_skips_make_up_the_set(labels: list[str], n: int, seed: int) -> None:
    taken = part_of(labels, 0, n, seed)
    left = part_of(labels, n, None, seed)
    assert sorted((*taken, *left)) == list(range(len(labels)))


@given(st.lists(st.sampled_from("abc"), max_size=40), st.integers(0, 20), st.integers(1, 20))
def test_at_most_so_many_of_a_part_are_chosen(labels: list[str], skip: int, most: int) -> None:
    part = part_of(labels, skip, None, 1)
    assume(part or not labels)
    picked = chosen(labels, Part(skip=skip, most=most, seed=1), "data.evaluation")
    assert len(picked) == min(most, len(part))
    assert set(picked) <= set(part)


def test_a_part_of_nothing_is_refused_with_what_it_was_taken_of() -> None:
    with pytest.raises(DataError, match="has 3 samples, and skip = 3 leaves none") as caught:
        chosen([0, 1, 1], Part(skip=3), "data.evaluation")
    assert caught.value.where == "data.evaluation.skip"
    assert chosen([0, 1, 1], Part(skip=2), "data.evaluation")
    assert chosen([], Part(), "data.evaluation") == ()  # an empty set is told as such
