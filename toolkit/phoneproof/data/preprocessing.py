"""The declared image preprocessing: what is done, in one fixed order, said so that any language can equal it.

docs/preprocessing.md is the specification; `pixels.py` does its steps 1 to 6, `values.py` steps 7 and 8.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from phoneproof.data import declared
from phoneproof.errors import DataError


class Mode(StrEnum):
    """Channels of the pixels: red, green, blue, or luminance."""

    RGB = "RGB"
    L = "L"


class Alpha(StrEnum):
    """refuse: an image that is anywhere not opaque is a broken file; drop: alpha is left out; composite:
    the image is laid over `background`."""

    REFUSE = "refuse"
    DROP = "drop"
    COMPOSITE = "composite"


class ResizeMethod(StrEnum):
    """stretch: to the size; with the aspect kept, shortest_side covers it and letterbox lies inside it."""

    STRETCH = "stretch"
    SHORTEST_SIDE = "shortest_side"
    LETTERBOX = "letterbox"


class Interpolation(StrEnum):
    """Pillow's resampling filters."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    LANCZOS = "lanczos"
    BOX = "box"
    HAMMING = "hamming"


class Placement(StrEnum):
    """Where a letterboxed image lies; centred, an odd rest goes to the right and the bottom."""

    CENTRE = "centre"
    TOP_LEFT = "top_left"


class CropRounding(StrEnum):
    """Where a centre crop begins when the rest d is odd: floor is d // 2 (Keras), half_even rounds d / 2
    half to even (torchvision)."""

    FLOOR = "floor"
    HALF_EVEN = "half_even"


class ColourOrder(StrEnum):
    """Order of the channels that the model takes."""

    RGB = "rgb"
    BGR = "bgr"


class Layout(StrEnum):
    """Order of batch, channels, height and width."""

    NCHW = "nchw"
    NHWC = "nhwc"


INTEGER_DTYPES: Final = ("uint8", "int8", "uint16", "int16", "int32")
FLOAT_DTYPES: Final = ("float32", "float16", "float64")


@dataclass(frozen=True)
class Resize:
    """width, height in pixels. `placement` and `pad_colour` (levels 0 to 255) are for letterbox only."""

    width: int
    height: int
    method: ResizeMethod
    interpolation: Interpolation
    placement: Placement = Placement.CENTRE
    pad_colour: tuple[int, ...] = ()


@dataclass(frozen=True)
class Preprocess:
    """One declared pipeline. Checked when built: DataError for what cannot be meant.

    background, resize.pad_colour: one level 0 to 255 per channel of `mode`, in RGB order; empty is black.
    centre_crop: (height, width) in pixels.
    scale, mean, std: y = (x * scale - mean[c]) / std[c] for level x of channel c, counted after
        `colour_order`; empty mean is 0, empty std is 1 for each channel.
    layout, dtype: of the source model's input.
    """

    mode: Mode
    layout: Layout
    dtype: str = "float32"
    alpha: Alpha = Alpha.REFUSE
    background: tuple[int, ...] = ()
    resize: Resize | None = None
    centre_crop: tuple[int, int] | None = None
    crop_rounding: CropRounding = CropRounding.FLOOR
    colour_order: ColourOrder = ColourOrder.RGB
    scale: float = 1.0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        n = self.channels
        self._set("scale", declared.number(self.scale, "preprocess.scale"))
        self._set("mean", _per_channel(self.mean, "preprocess.mean", n, 0.0))
        self._set("std", _per_channel(self.std, "preprocess.std", n, 1.0))
        self._set("background", _colour(self.background, "preprocess.background", n))
        if min(self.std) <= 0.0:
            raise DataError("The numbers of std must be above 0.", where="preprocess.std")
        if self.dtype not in FLOAT_DTYPES + INTEGER_DTYPES:
            step = declared.suggestion(str(self.dtype), FLOAT_DTYPES + INTEGER_DTYPES)
            raise DataError(
                f"{self.dtype!r} is not an input dtype.", where="preprocess.dtype", next_step=step
            )
        if self.mode is Mode.L and self.colour_order is ColourOrder.BGR:
            raise DataError("A grey image has no colour order.", where="preprocess.colour_order")
        if self.resize is not None:
            self._set("resize", _checked_resize(self.resize, n))
        self._check_crop()

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_crop(self) -> None:
        if self.centre_crop is not None:
            sides = declared.items(self.centre_crop, "preprocess.centre_crop")
            if len(sides) != 2:
                raise DataError("A centre crop is [height, width].", where="preprocess.centre_crop")
            self._set("centre_crop", tuple(declared.integer(v, "preprocess.centre_crop", 1) for v in sides))
        if self.resize is None:
            return
        if self.resize.method is ResizeMethod.SHORTEST_SIDE and self.centre_crop is None:
            raise DataError(
                "The method shortest_side leaves the longer side free, so images would differ in shape.",
                where="preprocess.centre_crop",
                next_step="Add centre_crop = [height, width].",
            )
        if self.centre_crop is not None and (
            self.centre_crop[0] > self.resize.height or self.centre_crop[1] > self.resize.width
        ):
            raise DataError("The centre crop is larger than the resize.", where="preprocess.centre_crop")

    @property
    def channels(self) -> int:
        return 3 if self.mode is Mode.RGB else 1

    @property
    def output_size(self) -> tuple[int, int] | None:
        """(height, width) of every image, or None when images keep their own size."""
        if self.centre_crop is not None:
            return self.centre_crop
        return None if self.resize is None else (self.resize.height, self.resize.width)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `Preprocess.from_dict` gives an equal Preprocess."""
        return {**self.geometry(), **self._values()}

    def geometry(self) -> dict[str, Any]:
        """The part of `to_dict` that decides the stored pixels (steps 1 to 6)."""
        return {
            "mode": self.mode.value,
            "alpha": self.alpha.value,
            "background": list(self.background),
            "resize": None if self.resize is None else _resize_dict(self.resize),
            "centre_crop": None if self.centre_crop is None else list(self.centre_crop),
            "crop_rounding": self.crop_rounding.value,
            "colour_order": self.colour_order.value,
        }

    def _values(self) -> dict[str, Any]:
        return {
            "scale": self.scale,
            "mean": list(self.mean),
            "std": list(self.std),
            "layout": self.layout.value,
            "dtype": self.dtype,
        }

    @property
    def digest(self) -> str:
        """sha256 (hexadecimal) of `canonical_json(self.to_dict())`."""
        return hashlib.sha256(canonical_json(self.to_dict())).hexdigest()

    @property
    def geometry_digest(self) -> str:
        """sha256 of `canonical_json(self.geometry())`: equal for pipelines that give the same pixels."""
        return hashlib.sha256(canonical_json(self.geometry())).hexdigest()

    @classmethod
    def from_dict(cls, given: Mapping[str, Any], where: str = "preprocess") -> "Preprocess":
        """The Preprocess that `given` declares. DataError for an unknown key, a wrong type or choice."""
        raw = declared.table(given, where)
        declared.check_keys(raw, cls.__dataclass_fields__, ("mode", "layout"), where)
        read: dict[str, Any] = {key: raw[key] for key in ("dtype", "scale") if key in raw}
        for key, kind in _CHOICES.items():
            if key in raw:
                read[key] = declared.choice(kind, raw[key], f"{where}.{key}")
        for key in ("background", "mean", "std"):
            if key in raw:
                read[key] = declared.items(raw[key], f"{where}.{key}")
        if raw.get("centre_crop") is not None:
            read["centre_crop"] = declared.items(raw["centre_crop"], f"{where}.centre_crop")
        if raw.get("resize") is not None:
            read["resize"] = _read_resize(raw["resize"], f"{where}.resize")
        try:
            return cls(**read)
        except DataError as error:
            place = where + (error.where or "").removeprefix("preprocess")
            raise DataError(error.what, where=place, next_step=error.next_step) from None


_CHOICES: Final[Mapping[str, type[StrEnum]]] = {
    "mode": Mode,
    "layout": Layout,
    "alpha": Alpha,
    "crop_rounding": CropRounding,
    "colour_order": ColourOrder,
}


def canonical_json(value: Any) -> bytes:
    """JSON: sorted keys, no spaces, ASCII only, floats by shortest round trip, no NaN or infinity."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode("ascii")


def _read_resize(given: Any, where: str) -> Resize:
    raw = declared.table(given, where)
    required = ("width", "height", "method", "interpolation")
    declared.check_keys(raw, Resize.__dataclass_fields__, required, where)
    method = declared.choice(ResizeMethod, raw["method"], f"{where}.method")
    if method is not ResizeMethod.LETTERBOX:
        for key in ("placement", "pad_colour"):
            if key in raw:
                step = f"Remove {key!r} or set method = 'letterbox'."
                raise DataError(f"Only letterbox has {key!r}.", where=f"{where}.{key}", next_step=step)
    return Resize(
        width=raw["width"],
        height=raw["height"],
        method=method,
        interpolation=declared.choice(Interpolation, raw["interpolation"], f"{where}.interpolation"),
        placement=declared.choice(Placement, raw.get("placement", "centre"), f"{where}.placement"),
        pad_colour=declared.items(raw.get("pad_colour", ()), f"{where}.pad_colour"),
    )


def _checked_resize(resize: Resize, channels: int) -> Resize:
    letterbox = resize.method is ResizeMethod.LETTERBOX
    if not letterbox and (resize.pad_colour or resize.placement is not Placement.CENTRE):
        raise DataError("Only letterbox has a pad colour and a placement.", where="preprocess.resize")
    return Resize(
        width=declared.integer(resize.width, "preprocess.resize.width", 1),
        height=declared.integer(resize.height, "preprocess.resize.height", 1),
        method=resize.method,
        interpolation=resize.interpolation,
        placement=resize.placement,
        pad_colour=_colour(resize.pad_colour, "preprocess.resize.pad_colour", channels) if letterbox else (),
    )


def _resize_dict(resize: Resize) -> dict[str, Any]:
    written: dict[str, Any] = {
        "width": resize.width,
        "height": resize.height,
        "method": resize.method.value,
        "interpolation": resize.interpolation.value,
    }
    if resize.method is ResizeMethod.LETTERBOX:
        written |= {"placement": resize.placement.value, "pad_colour": list(resize.pad_colour)}
    return written


def _per_channel(values: Any, where: str, channels: int, default: float) -> tuple[float, ...]:
    given = declared.items(values, where)
    if given and len(given) != channels:
        raise DataError(f"Expected {channels} numbers, one per channel, not {len(given)}.", where=where)
    return tuple(declared.number(value, where) for value in given) or (default,) * channels


def _colour(values: Any, where: str, channels: int) -> tuple[int, ...]:
    given = declared.items(values, where)
    if given and len(given) != channels:
        raise DataError(f"Expected {channels} levels, one per channel, not {len(given)}.", where=where)
    if any(declared.integer(value, where, 0) > 255 for value in given):
        raise DataError("A level is at most 255.", where=where)
    return tuple(given) or (0,) * channels
