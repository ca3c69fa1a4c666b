"""Which operators stay in float: a name beats a type, a type beats the global wish."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phoneproof.errors import RecipeError
from phoneproof.recipes.selection import is_kept_in_float, kept_in_float, wish
from phoneproof.recipes.table import RecipeOptions

TYPES = {"conv1": "Conv", "conv2": "Conv", "fc": "Gemm", "out": "Softmax"}


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (RecipeOptions(), set()),
        (RecipeOptions(keep_float=True), set(TYPES)),
        (RecipeOptions(keep_float_names=("fc",)), {"fc"}),
        (RecipeOptions(keep_float_types=("Conv",)), {"conv1", "conv2"}),
        (RecipeOptions(keep_float_types=("Conv",), quantize_names=("conv2",)), {"conv1"}),
        (RecipeOptions(keep_float=True, quantize_types=("Conv",)), {"fc", "out"}),
        (RecipeOptions(keep_float=True, quantize_names=("fc",)), {"conv1", "conv2", "out"}),
        (
            RecipeOptions(keep_float=True, quantize_types=("Conv",), keep_float_names=("conv1",)),
            {"conv1", "fc", "out"},
        ),
    ],
)
def test_the_nearest_wish_counts(options: RecipeOptions, kept: set[str]) -> None:
    assert kept_in_float(TYPES, options) == kept


names = st.sampled_from(["a", "b", "c"])
some = st.lists(names, unique=True).map(tuple)


@given(
    st.builds(
        RecipeOptions,
        st.just("minmax"),
        keep_float=st.booleans(),
        keep_float_names=some,
        keep_float_types=some,
        quantize_names=some,
        quantize_types=some,
    ),
    names,
    names,
)
def test_a_name_beats_a_type_and_a_type_beats_all(options: RecipeOptions, name: str, kind: str) -> None:
    kept = is_kept_in_float(name, kind, options)
    if name in options.keep_float_names:
        assert kept
    elif name in options.quantize_names:
        assert not kept
    elif kind in options.keep_float_types:
        assert kept
    elif kind in options.quantize_types:
        assert not kept
    else:
        assert kept is options.keep_float


def test_of_several_names_the_nearest_that_is_named_decides() -> None:
    options = RecipeOptions(
        keep_float_names=("block",), quantize_names=("block.0",), quantize_types=("Conv",)
    )
    assert wish(("block.0", "block"), ("Conv",), options) is False
    assert wish(("block.1", "block"), ("Conv",), options) is True
    assert wish(("other",), ("Conv",), options) is False
    assert wish(("other",), ("Add",), options) is None


@pytest.mark.parametrize("key", ["keep_float_names", "quantize_names", "keep_float_types", "quantize_types"])
def test_an_unknown_name_or_type_is_refused_with_near_ones(key: str) -> None:
    given_word, near = ("cnv1", "conv1") if key.endswith("names") else ("conv", "Conv")
    options = RecipeOptions(**{key: (given_word,)})  # type: ignore[arg-type]
    with pytest.raises(RecipeError) as caught:
        kept_in_float(TYPES, options)
    assert caught.value.where == key
    assert f"Near ones: '{near}'" in (caught.value.next_step or "")


def test_a_name_that_is_near_none_is_answered_with_what_there_is() -> None:
    with pytest.raises(RecipeError) as caught:
        kept_in_float(TYPES, RecipeOptions(keep_float_names=("zzzzzzzz",)))
    assert caught.value.next_step == "It has: 'conv1', 'conv2', 'fc', 'out'."


def test_a_type_is_no_name() -> None:
    with pytest.raises(RecipeError, match="no operator 'Conv'"):
        kept_in_float(TYPES, RecipeOptions(keep_float_names=("Conv",)))
