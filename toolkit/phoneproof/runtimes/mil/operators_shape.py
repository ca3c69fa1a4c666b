"""Operators of MIL that arrange or make elements; parameters and defaults as MIL names them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from phoneproof.runtimes.mil.types import Array

Operator = Callable[..., Any]


def _ints(values: Array) -> list[int]:
    return [int(v) for v in np.atleast_1d(values)]


def reshape(x: Array, shape: Array) -> Array:
    """x in another shape. 0 takes the length of x's axis, counted from the last; 1 where x has none there."""
    lengths = _ints(shape)
    for i, length in enumerate(lengths):
        if length == 0:
            from_end = len(lengths) - i
            lengths[i] = x.shape[-from_end] if from_end <= x.ndim else 1
    return x.reshape(lengths)


def reshape_like(
    x: Array,
    ref_tensors: tuple[Array, ...],
    begins: tuple[Array, ...],
    ends: tuple[Array, ...],
    end_masks: tuple[Array, ...],
) -> Array:
    """x in a shape put together from parts of the shapes of other tensors."""
    lengths: list[int] = []
    for reference, begin, end, to_end in zip(ref_tensors, begins, ends, end_masks, strict=True):
        lengths.extend(reference.shape[int(begin) : None if bool(to_end) else int(end)])
    return x.reshape(lengths)


def expand_dims(x: Array, axes: Array) -> Array:
    """x with axes of length 1 at those places of the result."""
    return np.expand_dims(x, tuple(_ints(axes)))


def squeeze(x: Array, axes: Array | None = None) -> Array:
    """x without those axes of length 1; without all of them if axes is not given."""
    return np.squeeze(x, None if axes is None else tuple(_ints(axes)))


def transpose(x: Array, perm: Array) -> Array:
    """x with its axes in the order perm."""
    return np.transpose(x, _ints(perm))


def concat(values: tuple[Array, ...], axis: Any, interleave: Any = False) -> Array:
    """The values after one another along axis; interleave takes one slice of each in turn."""
    where = int(axis) % values[0].ndim
    if not bool(interleave):
        return np.concatenate(values, axis=where)
    shape = list(values[0].shape)
    shape[where] *= len(values)
    return np.stack(values, axis=where + 1).reshape(shape)


def split(
    x: Array, axis: Any, num_splits: Any | None = None, split_sizes: Array | None = None
) -> tuple[Array, ...]:
    """x cut along axis, into equal parts or parts of the given lengths."""
    if split_sizes is None:
        return tuple(np.split(x, int(num_splits or 0), axis=int(axis)))
    return tuple(np.split(x, np.cumsum(_ints(split_sizes))[:-1], axis=int(axis)))


def stack(values: tuple[Array, ...], axis: Any) -> Array:
    """The values along a new axis."""
    return np.stack(values, axis=int(axis))


def tile(x: Array, reps: Array) -> Array:
    """x repeated along each axis."""
    return np.tile(x, _ints(reps))


def flatten2d(x: Array, axis: Any = 1) -> Array:
    """[product of the axes before axis, product of the rest]."""
    before = int(np.prod(x.shape[: int(axis)], dtype=np.int64))
    return x.reshape(before, -1)


def shape(x: Array) -> Array:
    """The shape of x."""
    return np.array(x.shape, np.int32)


def fill(shape: Array, value: Any = 0.0) -> Array:
    """A tensor of one value."""
    return np.full(_ints(shape), value)


def fill_like(ref_tensor: Array, value: Any = 0.0) -> Array:
    """A tensor of one value in the shape of another."""
    return np.full(ref_tensor.shape, value)


def range_1d(end: Any, start: Any, step: Any) -> Array:
    """start, start + step, ... before end."""
    return np.arange(start[()], end[()], step[()])


def one_hot(
    indices: Array, one_hot_vector_size: Any, axis: Any = -1, on_value: Any = 1, off_value: Any = 0
) -> Array:
    """on_value at each index along a new axis, off_value elsewhere; an index out of range gives only off."""
    places = np.arange(int(one_hot_vector_size))
    where = int(axis) % (indices.ndim + 1)
    hits = np.moveaxis(indices[..., np.newaxis] == places, -1, where)
    return np.asarray(np.where(hits, on_value, off_value))


def reverse(x: Array, axes: Array | None = None) -> Array:
    """x backwards along those axes, along all if axes is not given."""
    return np.flip(x, None if axes is None else tuple(_ints(axes)))


def reverse_sequence(x: Array, lengths: Array, seq_axis: Any = 0, batch_axis: Any = 0) -> Array:
    """The first lengths[i] elements along seq_axis backwards, for each i of batch_axis."""
    turned = np.moveaxis(x, (int(batch_axis), int(seq_axis)), (0, 1)).copy()
    for i, length in enumerate(_ints(lengths)):
        turned[i, :length] = turned[i, :length][::-1].copy()
    return np.moveaxis(turned, (0, 1), (int(batch_axis), int(seq_axis)))


def sliding_windows(x: Array, axis: Any, size: Any, stride: Any = 1) -> Array:
    """Windows of `size` along axis, `stride` apart; the elements of a window stand in a new axis after it."""
    where = int(axis) % x.ndim
    windows = np.lib.stride_tricks.sliding_window_view(x, int(size), axis=where)
    picked = np.take(windows, np.arange(0, windows.shape[where], int(stride)), axis=where)
    return np.moveaxis(picked, -1, where + 1)


def depth_to_space(x: Array, block_size: Any) -> Array:
    """Channels into blocks, the place in the block being the channel's outer part (TensorFlow's order)."""
    n, c, h, w = x.shape
    b = int(block_size)
    blocks = x.reshape(n, b, b, c // b**2, h, w)
    return blocks.transpose(0, 3, 4, 1, 5, 2).reshape(n, c // b**2, h * b, w * b)


def space_to_depth(x: Array, block_size: Any) -> Array:
    """The inverse of depth_to_space."""
    n, c, h, w = x.shape
    b = int(block_size)
    blocks = x.reshape(n, c, h // b, b, w // b, b)
    return blocks.transpose(0, 3, 5, 1, 2, 4).reshape(n, c * b**2, h // b, w // b)


def pixel_shuffle(x: Array, upscale_factor: Any) -> Array:
    """Channels into blocks, the place in the block being the channel's inner part (torch's order)."""
    n, c, h, w = x.shape
    f = int(upscale_factor)
    blocks = x.reshape(n, c // f**2, f, f, h, w)
    return blocks.transpose(0, 1, 4, 2, 5, 3).reshape(n, c // f**2, h * f, w * f)


def pixel_unshuffle(x: Array, downscale_factor: Any) -> Array:
    """The inverse of pixel_shuffle."""
    n, c, h, w = x.shape
    f = int(downscale_factor)
    blocks = x.reshape(n, c, h // f, f, w // f, f)
    return blocks.transpose(0, 1, 3, 5, 2, 4).reshape(n, c * f**2, h // f, w // f)


def space_to_batch(x: Array, block_shape: Array, paddings: Array) -> Array:
    """Spatial blocks into the batch, the place in the block being its outer part (TensorFlow's order)."""
    padded = np.pad(x, [(0, 0), (0, 0), *[(int(a), int(b)) for a, b in paddings]])
    n, c, h, w = padded.shape
    p, q = _ints(block_shape)
    blocks = padded.reshape(n, c, h // p, p, w // q, q)
    return blocks.transpose(3, 5, 0, 1, 2, 4).reshape(n * p * q, c, h // p, w // q)


def batch_to_space(x: Array, block_shape: Array, crops: Array) -> Array:
    """The inverse of space_to_batch."""
    n, c, h, w = x.shape
    p, q = _ints(block_shape)
    blocks = x.reshape(p, q, n // (p * q), c, h, w)
    whole = blocks.transpose(2, 3, 4, 0, 5, 1).reshape(n // (p * q), c, h * p, w * q)
    (top, bottom), (left, right) = ([int(a) for a in pair] for pair in crops)
    return whole[:, :, top : h * p - bottom, left : w * q - right]


def crop(x: Array, crop_height: Array, crop_width: Array) -> Array:
    """x without so many rows before and after, and columns before and after."""
    (top, bottom), (left, right) = _ints(crop_height), _ints(crop_width)
    return x[..., top : x.shape[-2] - bottom, left : x.shape[-1] - right]


def pad(x: Array, pad: Array, mode: str = "constant", constant_val: Any = 0.0) -> Array:
    """x with elements before and after its last axes. pad: (before, after) of each of them in order."""
    amounts = _ints(pad)
    pairs = [(0, 0)] * (x.ndim - len(amounts) // 2) + list(zip(amounts[::2], amounts[1::2], strict=True))
    if mode == "constant":
        return np.pad(x, pairs, constant_values=constant_val)
    if mode == "reflect":
        return np.pad(x, pairs, mode="reflect")
    if mode == "replicate":
        return np.pad(x, pairs, mode="edge")
    raise ValueError(f"pad has no mode {mode!r}")


def band_part(x: Array, lower: Any = -1, upper: Any = -1) -> Array:
    """x with zeros further than lower below, or upper above, the diagonal of the last two axes."""
    rows, columns = np.ogrid[: x.shape[-2], : x.shape[-1]]
    inside = np.ones((x.shape[-2], x.shape[-1]), bool)
    if int(lower) >= 0:
        inside &= rows - columns <= int(lower)
    if int(upper) >= 0:
        inside &= columns - rows <= int(upper)
    return np.where(inside, x, np.zeros((), x.dtype))


OPERATORS: Final[Mapping[str, Operator]] = {
    "band_part": band_part,
    "batch_to_space": batch_to_space,
    "concat": concat,
    "crop": crop,
    "depth_to_space": depth_to_space,
    "expand_dims": expand_dims,
    "fill": fill,
    "fill_like": fill_like,
    "flatten2d": flatten2d,
    "one_hot": one_hot,
    "pad": pad,
    "pixel_shuffle": pixel_shuffle,
    "pixel_unshuffle": pixel_unshuffle,
    "range_1d": range_1d,
    "reshape": reshape,
    "reshape_like": reshape_like,
    "reverse": reverse,
    "reverse_sequence": reverse_sequence,
    "shape": shape,
    "sliding_windows": sliding_windows,
    "space_to_batch": space_to_batch,
    "space_to_depth": space_to_depth,
    "split": split,
    "squeeze": squeeze,
    "stack": stack,
    "tile": tile,
    "transpose": transpose,
}
