"""What the stored data show of a model's inputs: the first sample, and the least and greatest values."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from phoneproof.data.edge_values import InputData
from phoneproof.data.preprocessing import Layout, Preprocess
from phoneproof.data.store import SampleStore
from phoneproof.data.values import layout_of, value_map
from phoneproof.protocol.tensors import TensorSpec

Array = npt.NDArray[Any]


def input_data(
    sets: Sequence[SampleStore],
    source: TensorSpec,
    taken: TensorSpec,
    preprocess: Preprocess | None,
) -> InputData:
    """What the sets show of one input, in the shape in which a build takes it.

    sets: the evaluation set, whose first sample is taken, and perhaps the calibration set.
    Of stored values the range is that of each element, of pixels that of each channel: any pixel can have
    the levels of another.
    """
    if preprocess is None:
        return InputData(source, taken, np.array(sets[0].rows(source.name, 0, 1)[0]), *_range(sets, source))
    layout = layout_of(taken, preprocess)
    real = replace(taken, dtype=preprocess.dtype, scale=None, zero_point=None)
    first = sets[0].read_inputs(0, 1, [real], preprocess, layout)[taken.name][0]
    low, high = _pixel_range(sets, source.name, preprocess)
    lowest, highest = (_spread(value, layout, first.shape) for value in (low, high))
    gives_zero = bool((value_map(preprocess) == 0).any(axis=1).all())
    return InputData(source, taken, first, lowest, highest, gives_zero)


def _range(sets: Sequence[SampleStore], source: TensorSpec) -> tuple[Array, Array]:
    """Least and greatest value of each element; of those that are not finite nothing is taken."""
    lowest: Array | None = None
    highest: Array | None = None
    for batch in (batch for one in sets for batch in one.batches(source.name)):
        usable = np.isfinite(batch) if batch.dtype.kind == "f" else np.ones(batch.shape, bool)
        low = np.where(usable, batch, _extreme(batch.dtype, highest_of=True)).min(axis=0)
        high = np.where(usable, batch, _extreme(batch.dtype, highest_of=False)).max(axis=0)
        lowest = low if lowest is None else np.minimum(lowest, low)
        highest = high if highest is None else np.maximum(highest, high)
    if lowest is None or highest is None:
        raise ValueError("no samples")
    # An element that is never finite has no range: zero stands for it.
    empty = lowest > highest
    return np.where(empty, 0, lowest).astype(lowest.dtype), np.where(empty, 0, highest).astype(highest.dtype)


def _extreme(dtype: np.dtype[Any], *, highest_of: bool) -> Any:
    if dtype.kind == "b":
        return highest_of
    limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    return limits.max if highest_of else limits.min


def _pixel_range(sets: Sequence[SampleStore], name: str, preprocess: Preprocess) -> tuple[Array, Array]:
    """Least and greatest real value of each channel. A negative scale turns the order of the levels."""
    channels = preprocess.channels
    low, high = np.full(channels, 255), np.zeros(channels, np.int64)
    for batch in (batch for one in sets for batch in one.batches(name)):
        low = np.minimum(low, batch.min(axis=(0, 1, 2)))
        high = np.maximum(high, batch.max(axis=(0, 1, 2)))
    values = value_map(preprocess)
    ends = np.stack([values[np.arange(channels), low], values[np.arange(channels), high]])
    return ends.min(axis=0), ends.max(axis=0)


def _spread(per_channel: Array, layout: Layout, shape: tuple[int, ...]) -> Array:
    axes = (-1, 1, 1) if layout is Layout.NCHW else (1, 1, -1)
    return np.broadcast_to(per_channel.reshape(axes), shape)
