"""Edge inputs as numbers: for any model with float inputs, for token ids, and for sampled sound. Pure.

One input is odd at a time; the others hold the first sample of the evaluation set. Only a sequence that is
empty or full is so in all inputs of ids and masks at once, since one of them alone would contradict another.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from phoneproof.data.edge import (
    AUDIO_NAMES,
    FLOAT_ONLY,
    TOKEN_NAMES,
    VALUE_NAMES,
    EdgeKind,
    EdgeRange,
    audio_input_of,
    check_fits,
    takes_ids,
    takes_reals,
)
from phoneproof.data.values import is_quantized, quantize
from phoneproof.protocol.tensors import TensorSpec

Array = npt.NDArray[Any]

HUGE: Final = 1e30
"""Its square overflows float32, so a sum of squares (a norm, a variance) becomes infinite."""

_SQUARE_PERIOD: Final = 32
"""Samples of one period of the clipped sound: 500 Hz at the 16 kHz of most speech models."""


@dataclass(frozen=True)
class InputData:
    """What is known of one input of a model.

    source: as the source model takes it. taken: as the build does, in perhaps another dtype and layout.
    first, lowest, highest: the first sample, and element by element the least and greatest value in the data,
    in real values, in the shape of a sample of `taken`. gives_zero: whether the preprocess can make every
    value 0, whatever the data hold.
    """

    source: TensorSpec
    taken: TensorSpec
    first: Array
    lowest: Array
    highest: Array
    gives_zero: bool = False

    @property
    def is_mask(self) -> bool:
        """Whether an input of ids holds only zeros and ones in all data, so no ids."""
        return bool(self.highest.max(initial=0) <= 1)


@dataclass(frozen=True)
class EdgeSample:
    """One edge input in the build's dtypes, by the name of each input in the source model.

    guess: whether its range rests on what the data happen to hold (the size of a vocabulary).
    """

    name: str
    range: EdgeRange
    arrays: Mapping[str, Array]
    guess: bool = False


@dataclass(frozen=True)
class EdgeValues:
    """samples: in range first, not finite last, so that a build that ends early was asked the most. not_held:
    names of those that no value of the build's input dtype stands for."""

    samples: tuple[EdgeSample, ...]
    not_held: tuple[str, ...]


@dataclass(frozen=True)
class Settings:
    """skip: names that are not made. audio_input: name of the input that holds sound, for the kind audio.
    vocabulary: number of ids where it is known."""

    kind: EdgeKind
    skip: Collection[str] = ()
    audio_input: str | None = None
    vocabulary: int | None = None


@dataclass(frozen=True)
class _Odd:
    """A drawn edge input, in real values: what some inputs hold, by their names."""

    name: str
    range: EdgeRange
    values: Mapping[str, Array]
    guess: bool = False


def edge_values(inputs: Sequence[InputData], settings: Settings) -> EdgeValues:
    """All edge inputs that are numbers, for a build that takes `inputs`.

    DataError as `check_fits`.
    """
    check_fits([one.source for one in inputs], settings.kind, settings.audio_input)
    several = len(inputs) > 1
    samples: list[EdgeSample] = []
    not_held: list[str] = []
    for odd in _drawn(inputs, settings):
        base_name = odd.name.partition("@")[0]
        if base_name in settings.skip:
            continue
        named = odd if several else replace(odd, name=base_name)
        arrays = {one.source.name: _held(one, named, base_name) for one in inputs}
        kept = {name: array for name, array in arrays.items() if array is not None}
        if len(kept) < len(arrays):
            not_held.append(named.name)
        else:
            samples.append(EdgeSample(named.name, named.range, kept, named.guess))
    order: dict[EdgeRange, int] = {"in_range": 0, "out_of_range": 1, "not_finite": 2}
    return EdgeValues(tuple(sorted(samples, key=lambda sample: order[sample.range])), tuple(not_held))


def _drawn(inputs: Sequence[InputData], settings: Settings) -> Iterator[_Odd]:
    if settings.kind == "tokens":
        yield from _tokens(inputs, settings)
    if settings.kind == "audio":
        sound = audio_input_of([one.source for one in inputs], settings.audio_input)
        yield from (odd for one in inputs if one.source == sound for odd in _sounds(one))
    for one in inputs:
        if takes_reals(one.source):
            yield from _reals(one)
        elif settings.kind == "values" and not is_quantized(one.source):
            yield from _whole_numbers(one)


def _held(one: InputData, odd: _Odd, base_name: str) -> Array | None:
    """One input of an edge sample in the build's dtype; None where that holds no such value."""
    is_odd = one.source.name in odd.values
    values = odd.values.get(one.source.name, one.first)
    if takes_reals(one.source):
        if not is_quantized(one.taken):
            with np.errstate(over="ignore"):
                return values.astype(one.taken.dtype)
        if is_odd and base_name in FLOAT_ONLY:
            return None
        return quantize(values.astype(np.float32), one.taken)
    limits = np.iinfo(one.taken.dtype) if one.taken.dtype != "bool" else None
    if limits is not None and not limits.min <= int(values.min()) <= int(values.max()) <= limits.max:
        return None
    return values.astype(one.taken.dtype)


def _range_of(one: InputData, values: Array) -> EdgeRange:
    """How given values lie in the data's. An empty input is in range."""
    return range_of(values, one.lowest, one.highest)


def range_of(values: Array, lowest: Array, highest: Array) -> EdgeRange:
    """How values lie between the least and the greatest of the data, element by element."""
    if values.dtype.kind == "f" and not bool(np.isfinite(values).all()):
        return "not_finite"
    return "in_range" if bool(((values >= lowest) & (values <= highest)).all()) else "out_of_range"


def _reals(one: InputData) -> Iterator[_Odd]:
    name, shape = one.source.name, one.first.shape
    dtype = np.dtype(one.source.dtype)
    info = np.finfo(dtype)
    drawn: Mapping[str, Array] = {
        "lowest": one.lowest,
        "highest": one.highest,
        "zeros": np.zeros(shape),
        "denormal": np.full(shape, float(info.smallest_normal) / 4),
        "huge": np.full(shape, min(HUGE, float(info.max))),
        "nan": np.full(shape, np.nan),
        "plus_infinity": np.full(shape, np.inf),
        "minus_infinity": np.full(shape, -np.inf),
    }
    for word in VALUE_NAMES:
        is_given = word == "zeros" and one.gives_zero
        range_ = "in_range" if is_given else _range_of(one, drawn[word])
        yield _Odd(f"{word}@{name}", range_, {name: drawn[word]})


def _whole_numbers(one: InputData) -> Iterator[_Odd]:
    name = one.source.name
    for word, values in (
        ("lowest", one.lowest),
        ("highest", one.highest),
        ("zeros", np.zeros_like(one.lowest)),
    ):
        yield _Odd(f"{word}@{name}", _range_of(one, values), {name: values})


def _tokens(inputs: Sequence[InputData], settings: Settings) -> Iterator[_Odd]:
    holders = [one for one in inputs if takes_ids(one.source)]
    empty = {one.source.name: np.zeros_like(one.first) for one in holders}
    # Of ids the range is that of all positions: a padded position can hold any of them.
    is_seen = all(int(one.lowest.min()) <= 0 for one in holders)
    yield _Odd(TOKEN_NAMES[0], "in_range" if is_seen else "out_of_range", empty)
    yield _Odd(TOKEN_NAMES[1], "in_range", {one.source.name: _filled(one) for one in holders})
    for one in (one for one in holders if not one.is_mask):
        name = one.source.name
        known = settings.vocabulary
        beyond = int(one.highest.max()) + 1 if known is None else known
        for word, odd_id, guess in ((TOKEN_NAMES[2], beyond, known is None), (TOKEN_NAMES[3], -1, False)):
            ids = one.first.astype(np.int64)
            ids.flat[0] = odd_id
            yield _Odd(f"{word}@{name}", "out_of_range", {name: ids}, guess)


def _filled(one: InputData) -> Array:
    """All positions filled: with the ids of the first sample that are not padding, over and over."""
    ids = one.first[one.first != 0].ravel()
    if ids.size == 0:
        ids = one.highest.max(initial=1, keepdims=False).reshape(1)
    return np.resize(ids, one.first.shape).astype(one.first.dtype)


def _sounds(one: InputData) -> Iterator[_Odd]:
    """Along the longest axis, which is time; full scale is the greatest magnitude in the data."""
    name, shape = one.source.name, one.first.shape
    full = float(max(np.abs(one.lowest).max(), np.abs(one.highest).max())) or 1.0
    axis = int(np.argmax(shape))
    moment = np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])
    square = np.where(moment % _SQUARE_PERIOD < _SQUARE_PERIOD // 2, full, -full)
    sounds: Mapping[str, Callable[[], Array]] = {
        "silence": lambda: np.zeros(shape),
        "clipping": lambda: np.broadcast_to(square, shape),
        "dc_offset": lambda: np.clip(one.first.astype(np.float64) + full / 2, -full, full),
        "single_click": lambda: np.broadcast_to(np.where(moment == shape[axis] // 2, full, 0.0), shape),
    }
    for word in AUDIO_NAMES:
        yield _Odd(f"{word}@{name}", "in_range", {name: sounds[word]()})
