"""What the axes of a stored input mean: pixels and channels, features, or a signal."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from phoneproof.data.store import PIXELS, SampleStore, StoredInput

Array = npt.NDArray[Any]
Form = Literal["images", "features", "signal"]

LEAST_SIDE: Final = 8
"""Pixels; smaller maps with few channels are not taken for images."""
MOST_FEATURES: Final = 64
"""Longer vectors are a signal: their elements have no meaning of their own to compare one by one."""

_BATCH_BYTES: Final = 16 * 1024 * 1024
_CHANNELS: Final = (1, 3, 4)


@dataclass(frozen=True)
class InputForm:
    """channel_axis: of one sample; None where the elements share one channel."""

    kind: Form
    channel_axis: int | None

    def by_channel(self, batch: Array) -> Array:
        """[n, C, H, W] for images, [n, features, 1] for features, [n, 1, *axes] for a signal."""
        if self.kind == "features":
            return batch[:, :, np.newaxis]
        if self.channel_axis is None:
            return batch[:, np.newaxis]
        return np.moveaxis(batch, self.channel_axis + 1, 1)


def form_of(stored: StoredInput) -> InputForm | None:
    """How an input is looked at; None where its numbers are no magnitudes (token ids, masks).

    Raw arrays are images where they have three axes, the first or the last of 1, 3 or 4 elements and the
    other two of at least LEAST_SIDE.
    """
    if stored.encoding == PIXELS:
        return InputForm("images", 2)
    axis = _channel_axis(stored.shape)
    is_float = np.dtype(stored.dtype).kind == "f"
    if axis is not None and (is_float or stored.dtype in ("uint8", "int8")):
        return InputForm("images", axis)
    if not is_float or not stored.shape:
        return None
    if len(stored.shape) == 1 and stored.shape[0] <= MOST_FEATURES:
        return InputForm("features", 0)
    return InputForm("signal", None)


def _channel_axis(shape: tuple[int, ...]) -> int | None:
    if len(shape) != 3:
        return None
    fits = [
        axis
        for axis, sides in ((0, shape[1:]), (2, shape[:2]))
        if shape[axis] in _CHANNELS and min(sides) >= LEAST_SIDE
    ]
    return fits[0] if len(fits) == 1 else None


def batches(store: SampleStore, name: str) -> Iterator[Array]:
    """All stored samples of an input, in pieces of bounded size."""
    return store.batches(name, rows_at_once(store.input(name)))


def rows_at_once(stored: StoredInput) -> int:
    """How many samples one piece holds: one at least, or what fits in 16 MB."""
    return max(1, min(256, _BATCH_BYTES // max(1, math.prod(stored.shape) * 4)))
