"""The edge inputs that are made for every model: their names, and what a model is fed with.

docs/edge.md says what each one is. Names are part of reports and plans, so they stay as they are.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from phoneproof.errors import DataError
from phoneproof.protocol.tensors import TensorSpec

EdgeKind = Literal["image", "values", "tokens", "audio"]
"""image: files that go through the declared preprocess. values: numbers. tokens: sequences of ids.
audio: sampled sound."""

EdgeRange = Literal["in_range", "out_of_range", "not_finite"]
"""in_range: what the preprocess can give, or values seen in the data. out_of_range: finite, but not so.
not_finite: NaN or an infinity."""

EDGE_KINDS: Final[tuple[EdgeKind, ...]] = ("image", "values", "tokens", "audio")

IMAGE_NAMES: Final = (
    "black",
    "white",
    "mid_grey",
    "over_bright",
    "saturated_noise",
    "checkerboard",
    "one_pixel_lit",
    "aspect_1_30",
    "aspect_30_1",
    "grey",
    "alpha",
    "cmyk",
    "sixteen_bit",
    "one_by_one",
    "very_large",
)
VALUE_NAMES: Final = (
    "lowest",
    "highest",
    "zeros",
    "denormal",
    "huge",
    "nan",
    "plus_infinity",
    "minus_infinity",
)
TOKEN_NAMES: Final = ("empty", "longest", "out_of_vocabulary", "negative_id")
AUDIO_NAMES: Final = ("silence", "clipping", "dc_offset", "single_click")
EDGE_NAMES: Final = (*IMAGE_NAMES, *VALUE_NAMES, *TOKEN_NAMES, *AUDIO_NAMES)

FLOAT_ONLY: Final = frozenset({"denormal", "huge", "nan", "plus_infinity", "minus_infinity"})
"""What no integer holds: a build that takes integers has no such input."""

MADE_OF_DATA: Final = frozenset({"over_bright"})
"""Images in which a sample of the user's can be seen."""

TOKEN_DTYPES: Final = ("int32", "int64")
"""Dtypes in which networks take ids. Narrower integers are pixels or quantized values."""

NAMES_OF: Final[Mapping[EdgeKind, tuple[str, ...]]] = {
    "image": IMAGE_NAMES,
    "values": VALUE_NAMES,
    "tokens": TOKEN_NAMES,
    "audio": AUDIO_NAMES,
}


def kind_of(inputs: Sequence[TensorSpec], has_preprocess: bool) -> EdgeKind:
    """What a model is taken to be fed with where the plan does not say: never audio, which is a guess."""
    if has_preprocess:
        return "image"
    return "tokens" if any(takes_ids(tensor) for tensor in inputs) else "values"


def check_fits(inputs: Sequence[TensorSpec], kind: EdgeKind | None, audio_input: str | None) -> None:
    """DataError for the kind tokens without an input of ids, and for the kind audio where it is not clear
    which input holds sound."""
    if kind == "tokens" and not any(takes_ids(tensor) for tensor in inputs):
        raise DataError(
            "The model has no input of token ids (int32 or int64).",
            where="edge.kind",
            next_step="Set kind = 'values', or leave kind out.",
        )
    if kind == "audio":
        audio_input_of(inputs, audio_input)


def audio_input_of(inputs: Sequence[TensorSpec], named: str | None) -> TensorSpec:
    """The input that holds sound: the only one of floats, or the one that the plan names. DataError."""
    reals = [one for one in inputs if takes_reals(one) and one.sample_shape]
    found = [one for one in reals if named in (None, one.name)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(repr(one.name) for one in reals) or "none"
    raise DataError(
        "It is not clear which input holds sound."
        if named is None
        else f"The model has no input of floats {named!r}.",
        where="edge.audio_input",
        next_step=f"Set audio_input to the input of samples; inputs of floats: {names}.",
    )


def takes_ids(tensor: TensorSpec) -> bool:
    """Whether an input holds plain integers of a dtype that networks take ids in."""
    return tensor.dtype in TOKEN_DTYPES and tensor.scale is None


def takes_reals(tensor: TensorSpec) -> bool:
    """Whether a source model's input holds real numbers."""
    return tensor.dtype.startswith("float")
