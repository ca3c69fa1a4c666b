"""Edge inputs that are numbers: what they hold for any input of any dtype."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from phoneproof.data.edge import (
    AUDIO_NAMES,
    EDGE_NAMES,
    FLOAT_ONLY,
    VALUE_NAMES,
    EdgeKind,
    check_fits,
    kind_of,
)
from phoneproof.data.edge_values import EdgeSample, InputData, Settings, edge_values, range_of
from phoneproof.errors import DataError
from phoneproof.protocol.tensors import TensorSpec

SHAPES = arrays.array_shapes(min_dims=1, max_dims=3, max_side=5)
NUMBERS = st.floats(-1e3, 1e3, width=32)


def data_of(source: TensorSpec, taken: TensorSpec, samples: Any) -> InputData:
    return InputData(source, taken, samples[0], samples.min(axis=0), samples.max(axis=0))


@st.composite
def real_inputs(draw: st.DrawFn, name: str = "x") -> InputData:
    """A float input, taken as it is, as float16, or quantized."""
    shape = draw(SHAPES)
    samples = draw(arrays.arrays(np.float32, (3, *shape), elements=NUMBERS))
    source = TensorSpec(name, "float32", (1, *shape))
    quantized = TensorSpec(name, "int8", (1, *shape), draw(st.floats(0.001, 2)), draw(st.integers(-128, 127)))
    taken = draw(st.sampled_from([source, TensorSpec(name, "float16", (1, *shape)), quantized]))
    return data_of(source, taken, samples)


@st.composite
def id_inputs(draw: st.DrawFn, name: str = "ids") -> InputData:
    length = draw(st.integers(1, 6))
    samples = draw(arrays.arrays(np.int64, (3, length), elements=st.integers(0, 50)))
    source = TensorSpec(name, "int64", (1, length))
    taken = draw(st.sampled_from([source, TensorSpec(name, "int32", (1, length))]))
    return data_of(source, taken, samples)


INPUTS = st.one_of(
    real_inputs().map(lambda one: [one]),
    id_inputs().map(lambda one: [one]),
    st.tuples(real_inputs(), id_inputs("ids"), id_inputs("mask")).map(list),
)


def kind(inputs: Sequence[InputData]) -> EdgeKind:
    return kind_of([one.source for one in inputs], has_preprocess=False)


@given(INPUTS)
def test_every_sample_is_what_the_build_takes(inputs: list[InputData]) -> None:
    made = edge_values(inputs, Settings(kind(inputs)))
    assert made.samples
    names = [*(sample.name for sample in made.samples), *made.not_held]
    assert len(set(names)) == len(names)
    assert {name.partition("@")[0] for name in names} <= set(EDGE_NAMES)
    assert all(("@" in name) == (len(inputs) > 1) or name in ("empty", "longest") for name in names)
    for sample in made.samples:
        assert set(sample.arrays) == {one.source.name for one in inputs}
        for one in inputs:
            array = sample.arrays[one.source.name]
            assert (array.dtype, array.shape) == (np.dtype(one.taken.dtype), one.taken.sample_shape)


@given(INPUTS)
def test_the_same_data_give_the_same_samples(inputs: list[InputData]) -> None:
    settings = Settings(kind(inputs))
    first, second = edge_values(inputs, settings), edge_values(inputs, settings)
    assert [one.name for one in first.samples] == [one.name for one in second.samples]
    for a, b in zip(first.samples, second.samples, strict=True):
        assert all(a.arrays[name].tobytes() == b.arrays[name].tobytes() for name in a.arrays)


@given(INPUTS)
def test_what_is_asked_most_comes_first(inputs: list[InputData]) -> None:
    ranges = [one.range for one in edge_values(inputs, Settings(kind(inputs))).samples]
    order = ("in_range", "out_of_range", "not_finite")
    assert ranges == sorted(ranges, key=order.index)


@given(real_inputs())
def test_ranges_say_what_the_samples_hold(one: InputData) -> None:
    for sample in edge_values([one], Settings("values")).samples:
        values = sample.arrays["x"]
        if sample.range == "not_finite":
            assert not np.isfinite(values).all()
        elif one.taken == one.source:
            inside = ((values >= one.lowest) & (values <= one.highest)).all()
            assert np.isfinite(values).all()
            assert inside == (sample.range == "in_range")
    assert range_of(one.first, one.lowest, one.highest) == "in_range"


@given(real_inputs())
def test_integers_hold_no_more_than_integers_can(one: InputData) -> None:
    made = edge_values([one], Settings("values"))
    held = {sample.name: sample for sample in made.samples}
    is_quantized = one.taken.scale is not None
    assert set(made.not_held) == (FLOAT_ONLY if is_quantized else set())
    assert set(held) == set(VALUE_NAMES) - set(made.not_held)
    if is_quantized:
        assert (held["zeros"].arrays["x"] == one.taken.zero_point).all()


@given(st.integers(1, 400), NUMBERS)
def test_sounds_stay_within_full_scale(length: int, offset: float) -> None:
    time = np.arange(length, dtype=np.float32)
    samples = np.stack([np.sin(time), np.sin(3 * time)]) * np.float32(offset)
    spec = TensorSpec("x", "float32", (1, length))
    made = edge_values([data_of(spec, spec, samples)], Settings("audio"))
    full = float(np.abs(samples).max()) or 1.0
    sounds: dict[str, EdgeSample] = {one.name: one for one in made.samples if one.name in AUDIO_NAMES}
    assert set(sounds) == set(AUDIO_NAMES)
    assert all(one.range == "in_range" for one in sounds.values())
    for one in sounds.values():
        assert np.abs(one.arrays["x"]).max() <= np.float32(full)
    assert not sounds["silence"].arrays["x"].any()
    assert np.count_nonzero(sounds["single_click"].arrays["x"]) == 1
    assert set(np.unique(np.abs(sounds["clipping"].arrays["x"]))) == {np.float32(full)}


def tokens(*rows: list[int], name: str = "ids", dtype: str = "int64") -> InputData:
    spec = TensorSpec(name, dtype, (1, len(rows[0])))
    return data_of(spec, spec, np.array(rows, dtype))


def made_of(*inputs: InputData, **settings: Any) -> dict[str, EdgeSample]:
    return {one.name: one for one in edge_values(inputs, Settings("tokens", **settings)).samples}


def test_token_sequences_beside_their_mask() -> None:
    ids, mask = tokens([7, 9, 0, 0], [3, 41, 5, 0]), tokens([1, 1, 0, 0], [1, 1, 1, 0], name="mask")
    made = made_of(ids, mask)
    assert set(made) == {"empty", "longest", "out_of_vocabulary@ids", "negative_id@ids"}
    assert not any(array.any() for array in made["empty"].arrays.values())
    assert made["longest"].arrays["ids"].tolist() == [7, 9, 7, 9]
    assert made["longest"].arrays["mask"].tolist() == [1, 1, 1, 1]
    assert made["out_of_vocabulary@ids"].arrays["ids"].tolist() == [42, 9, 0, 0]
    assert made["out_of_vocabulary@ids"].arrays["mask"].tolist() == [1, 1, 0, 0]
    assert made["negative_id@ids"].arrays["ids"].tolist() == [-1, 9, 0, 0]
    assert [one.range for one in made.values()] == ["in_range", "in_range", "out_of_range", "out_of_range"]
    assert {name for name, one in made.items() if one.guess} == {"out_of_vocabulary@ids"}


def test_a_known_vocabulary_is_no_guess() -> None:
    made = made_of(tokens([7, 9]), vocabulary=30_000)
    assert made["out_of_vocabulary"].arrays["ids"].tolist() == [30_000, 9]
    assert not any(one.guess for one in made.values())


def test_an_id_that_the_dtype_cannot_hold_is_left_out() -> None:
    ids = tokens([7, 9])
    narrow = InputData(ids.source, TensorSpec("ids", "uint8", (1, 2)), ids.first, ids.lowest, ids.highest)
    made = edge_values([narrow], Settings("tokens", vocabulary=300))
    assert set(made.not_held) == {"out_of_vocabulary", "negative_id"}


def test_what_is_skipped_is_not_made() -> None:
    spec = TensorSpec("x", "float32", (1, 3))
    one = data_of(spec, spec, np.ones((2, 3), np.float32))
    made = edge_values([one], Settings("values", skip=("nan", "huge")))
    assert {sample.name for sample in made.samples} == set(VALUE_NAMES) - {"nan", "huge"}


FLOATS = [TensorSpec("sound", "float32", (1, 512)), TensorSpec("state", "float32", (2, 1, 128))]


@pytest.mark.parametrize(
    ("inputs", "wanted", "audio_input", "where"),
    [
        (FLOATS, "tokens", None, "edge.kind"),
        (FLOATS, "audio", None, "edge.audio_input"),
        (FLOATS, "audio", "sond", "edge.audio_input"),
        ([TensorSpec("ids", "int64", (1, 4))], "audio", None, "edge.audio_input"),
        (FLOATS, "audio", "sound", None),
        (FLOATS[:1], "audio", None, None),
        (FLOATS, "values", None, None),
        (FLOATS, None, None, None),
    ],
)
def test_a_kind_that_does_not_fit_the_model_is_refused(
    inputs: list[TensorSpec], wanted: Any, audio_input: str | None, where: str | None
) -> None:
    if where is None:
        check_fits(inputs, wanted, audio_input)
        return
    with pytest.raises(DataError) as told:
        check_fits(inputs, wanted, audio_input)
    assert told.value.where == where
    if wanted == "audio" and inputs is FLOATS:
        assert "'sound', 'state'" in (told.value.next_step or "")
