"""Which tensor of a build made elsewhere is which of its source model's."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phoneproof.errors import RecipeError
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.toolchains.build_names import OPEN, check_names, named

IMAGE = TensorSpec("image", "float32", (1, 3, 8, 6))
IDS = TensorSpec("ids", "int64", (1, 8))


def test_equal_names_are_the_same_tensor_in_any_order() -> None:
    other = TensorSpec("mask", "float32", (1, 8))
    found = named([other, IMAGE], [IMAGE, other], {}, "input", "x.onnx")
    assert [one.name for one in found.tensors] == ["mask", "image"]
    assert found.source_names == {}


def test_a_single_choice_by_dtype_and_shape_counts() -> None:
    build = [TensorSpec("in_1", "int32", (1, 8)), TensorSpec("in_0", "float32", (1, 3, 8, 6))]
    assert named(build, [IMAGE, IDS], {}, "input", "x").source_names == {"in_1": "ids", "in_0": "image"}


def test_channels_may_have_moved() -> None:
    build = [TensorSpec("x", "int8", (1, 8, 6, 3), 0.1, -3)]
    found = named(build, [IMAGE], {}, "input", "x")
    assert found.tensors == tuple(build)
    assert found.source_names == {"x": "image"}


def test_another_permutation_is_another_tensor() -> None:
    with pytest.raises(RecipeError, match="no possible input"):
        named([TensorSpec("x", "float32", (1, 6, 8, 3))], [IMAGE], {}, "input", "x")


def test_open_lengths_take_the_sources() -> None:
    (tensor,) = named([TensorSpec("image", "float32", (OPEN, OPEN, 6, 3))], [IMAGE], {}, "input", "x").tensors
    assert tensor.shape == (1, 8, 6, 3)
    (tensor,) = named([TensorSpec("image", "float32", (OPEN,) * 4)], [IMAGE], {}, "input", "x").tensors
    assert tensor.shape == IMAGE.shape


def test_two_choices_are_none_and_both_sides_are_listed() -> None:
    source = [TensorSpec("left", "float32", (1, 4)), TensorSpec("right", "float32", (1, 4))]
    build = [TensorSpec("a", "float32", (1, 4)), TensorSpec("b", "float32", (1, 4))]
    with pytest.raises(RecipeError, match="more than one possible input") as caught:
        named(build, source, {}, "input", "x.pte")
    text = str(caught.value)
    assert all(name in text for name in ("'a'", "'b'", "'left'", "'right'", "names = "))
    assert caught.value.where == "x.pte"


def test_names_of_the_plan_settle_it_and_go_before_equal_names() -> None:
    source = [TensorSpec("a", "float32", (1, 4)), TensorSpec("b", "float32", (1, 4))]
    found = named(source, source, {"a": "b", "b": "a"}, "input", "x")
    assert found.source_names == {"a": "b", "b": "a"}
    one = named([TensorSpec("c", "float32", (1, 4)), source[0]], source, {}, "input", "x")
    assert one.source_names == {"c": "b"}


@pytest.mark.parametrize(
    "wrong",
    [
        TensorSpec("image", "int32", (1, 3, 8, 6)),
        TensorSpec("image", "bool", (1, 3, 8, 6)),
        TensorSpec("image", "float32", (1, 3, 8, 7)),
        TensorSpec("image", "float32", (1, 3, 48)),
        TensorSpec("image", "int8", (1, 3, 8, 6)),
    ],
)
def test_an_equal_name_with_another_dtype_or_shape_is_refused(wrong: TensorSpec) -> None:
    with pytest.raises(RecipeError, match="another dtype or shape"):
        named([wrong], [IMAGE], {}, "input", "x")


def test_another_number_of_tensors_is_refused() -> None:
    with pytest.raises(RecipeError, match="1 inputs, the source model 2"):
        named([IMAGE], [IMAGE, IDS], {}, "input", "x")


def test_names_that_neither_side_has_are_refused_with_the_near_one() -> None:
    with pytest.raises(RecipeError, match=r"The build has no .*'imag'") as caught:
        check_names({"imag": "image"}, [IMAGE], [IMAGE], "x")
    assert "'image'" in str(caught.value.next_step)
    with pytest.raises(RecipeError, match=r"The source model has no .*'pixels'"):
        check_names({"image": "pixels"}, [IMAGE], [IMAGE], "x")
    with pytest.raises(RecipeError, match="Two names"):
        check_names({"image": "image", "ids": "image"}, [IMAGE, IDS], [IMAGE], "x")


@given(st.permutations(range(4)), st.permutations(range(4)))
def test_distinct_tensors_are_matched_whatever_their_names_and_order(
    order: list[int], names: list[int]
) -> None:
    source = [TensorSpec(f"s{i}", "float32", (1, i + 2)) for i in range(4)]
    build = [TensorSpec(f"b{n}", "float32", source[i].shape) for i, n in zip(order, names, strict=True)]
    found = named(build, source, {}, "output", "x").source_names
    assert found == {f"b{n}": f"s{i}" for i, n in zip(order, names, strict=True)}


def test_a_matching_is_never_one_of_several() -> None:
    """Of every small set of shapes, a matching is given only where no other fits."""
    shapes = [(1, 2), (1, 3), (OPEN, 2), (1, OPEN)]
    source = [TensorSpec("s0", "float32", (1, 2)), TensorSpec("s1", "float32", (1, 3))]
    for pair in itertools.product(shapes, repeat=2):
        build = [TensorSpec(f"b{i}", "float32", shape) for i, shape in enumerate(pair)]
        fits = [
            [all(a in (OPEN, b) for a, b in zip(shape, one.shape, strict=True)) for one in source]
            for shape in pair
        ]
        matchings = [p for p in itertools.permutations(range(2)) if fits[0][p[0]] and fits[1][p[1]]]
        try:
            found = named(build, source, {}, "input", "x").source_names
        except RecipeError:
            continue
        assert len(matchings) == 1
        assert found == {f"b{i}": f"s{j}" for i, j in enumerate(matchings[0])}
