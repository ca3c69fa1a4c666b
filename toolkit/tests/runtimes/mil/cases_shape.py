"""Cases of the operators that arrange and make elements."""

import numpy as np
import torch
import torch.nn.functional as nn
from torch import from_numpy as tensor

from tests.runtimes.mil.building import Array, Case, integers, mb, normal

X = normal(2, 3, 4, 6)


def _counted(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


_SHAPES = [
    Case("reshape", {"x": X}, lambda x: mb.reshape(x=x, shape=[6, -1]), lambda x: x.reshape(6, -1), "rest"),
    Case(
        "reshape",
        {"x": X},
        lambda x: mb.reshape(x=x, shape=[2, 0, 4, 0]),
        lambda x: x.reshape(2, 3, 4, 6),
        "zeros",
    ),
    Case(
        "reshape",
        {"x": X},
        lambda x: mb.reshape(x=x, shape=[6, 0, 0]),
        lambda x: x.reshape(6, 4, 6),
        "zeros_from_the_right",
        17,
    ),
    Case(
        "reshape_like",
        {"x": X, "a": normal(6, 9), "b": normal(9, 4, 6)},
        lambda x, a, b: mb.reshape_like(
            x=x, ref_tensors=(a, b), begins=(0, 1), ends=(1, 0), end_masks=(False, True)
        ),
        lambda x, a, b: x.reshape(6, 4, 6),
        target=16,
    ),
    Case(
        "expand_dims",
        {"x": normal(3, 4)},
        lambda x: mb.expand_dims(x=x, axes=[0, -1]),
        lambda x: x[None, ..., None],
    ),
    Case(
        "squeeze",
        {"x": normal(1, 3, 1, 2)},
        lambda x: (mb.squeeze(x=x, axes=[-2]), mb.squeeze(x=x)),
        lambda x: (x[:, :, 0], x[0, :, 0]),
    ),
    Case(
        "transpose",
        {"x": X},
        lambda x: mb.transpose(x=x, perm=[3, 0, -2, 1]),
        lambda x: x.transpose(3, 0, 2, 1),
    ),
    Case(
        "concat",
        {"x": X, "y": normal(2, 5, 4, 6)},
        lambda x, y: mb.concat(values=(x, y), axis=-3),
        lambda x, y: np.concatenate([x, y], 1),
    ),
    Case(
        "concat",
        {"x": _counted(3, 2), "y": -_counted(3, 2)},
        lambda x, y: mb.concat(values=(x, y), axis=0, interleave=True),
        lambda x, y: np.array([x[0], y[0], x[1], y[1], x[2], y[2]]),
        "interleaved",
    ),
    Case("concat", {"x": X}, lambda x: mb.concat(values=(x,), axis=0), lambda x: x, "of_one"),
    Case(
        "split",
        {"x": X},
        lambda x: mb.split(x=x, num_splits=3, axis=-1),
        lambda x: tuple(np.split(x, 3, -1)),
    ),
    Case(
        "split",
        {"x": X},
        lambda x: mb.split(x=x, split_sizes=[1, 3, 2], axis=3),
        lambda x: tuple(torch.split(tensor(x), [1, 3, 2], 3)),
        "sizes",
    ),
    Case(
        "stack",
        {"x": X, "y": normal(2, 3, 4, 6)},
        lambda x, y: mb.stack(values=(x, y), axis=1),
        lambda x, y: np.stack([x, y], 1),
    ),
    Case("tile", {"x": X}, lambda x: mb.tile(x=x, reps=[1, 2, 1, 3]), lambda x: tensor(x).tile(1, 2, 1, 3)),
    Case("flatten2d", {"x": X}, lambda x: mb.flatten2d(x=x, axis=2), lambda x: x.reshape(6, 24)),
    Case("shape", {"x": X}, lambda x: mb.shape(x=x), lambda x: np.array([2, 3, 4, 6])),
    Case(
        "fill",
        {"n": np.array([2, 3], np.int32)},
        lambda n: mb.reshape(x=mb.fill(shape=n, value=1.5), shape=[2, 3]),
        lambda n: np.full((2, 3), 1.5, np.float32),
    ),
    Case(
        "fill_like",
        {"x": X},
        lambda x: mb.fill_like(ref_tensor=x, value=-2.0),
        lambda x: np.full_like(x, -2),
        target=16,
    ),
    Case(
        "range_1d",
        {"end": integers(9, 10, 1)},
        lambda end: mb.reshape(x=mb.range_1d(start=1, end=mb.squeeze(x=end), step=3), shape=[3]),
        lambda end: np.array([1, 4, 7]),
    ),
    Case(
        "one_hot",
        {"i": np.array([[0, 2], [3, 1]], np.int32)},
        lambda i: mb.one_hot(indices=i, one_hot_vector_size=4, axis=1, on_value=2.0, off_value=-1.0),
        lambda i: np.moveaxis(np.eye(4, dtype=np.float32)[i], -1, 1) * 3 - 1,
    ),
    Case(
        "reverse",
        {"x": X},
        lambda x: (mb.reverse(x=x, axes=[1, -1]), mb.reverse(x=x)),
        lambda x: (np.flip(x, (1, 3)), np.flip(x)),
    ),
    Case(
        "reverse_sequence",
        {"x": _counted(2, 4)},
        lambda x: mb.reverse_sequence(x=x, lengths=[3, 2], seq_axis=1, batch_axis=0),
        lambda x: np.array([[2, 1, 0, 3], [5, 4, 6, 7]], np.float32),
    ),
    Case(
        "sliding_windows",
        {"x": X},
        lambda x: mb.sliding_windows(x=x, axis=-1, size=3, stride=2),
        lambda x: tensor(x).unfold(-1, 3, 2),
    ),
    Case(
        "sliding_windows",
        {"x": X},
        lambda x: mb.sliding_windows(x=x, axis=1, size=2),
        lambda x: tensor(x).unfold(1, 2, 1).permute(0, 1, 4, 2, 3),
        "inner_axis",
    ),
]


def _depth_to_space(x: Array, b: int) -> Array:
    """TensorFlow's definition: channel (i * b + j) * C + c goes to row i and column j of a block."""
    n, c, h, w = x.shape
    out = np.empty((n, c // b**2, h * b, w * b), x.dtype)
    for i in range(b):
        for j in range(b):
            first = (i * b + j) * (c // b**2)
            out[:, :, i::b, j::b] = x[:, first : first + c // b**2]
    return out


def _space_to_batch(x: Array) -> Array:
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (0, 0)])
    return np.concatenate([padded[:, :, i::2, j::3] for i in range(2) for j in range(3)])


_BLOCKS = [
    Case(
        "depth_to_space",
        {"x": normal(2, 12, 2, 3)},
        lambda x: mb.depth_to_space(x=x, block_size=2),
        lambda x: _depth_to_space(x, 2),
    ),
    Case(
        "space_to_depth",
        {"x": X},
        lambda x: (
            (deep := mb.space_to_depth(x=x, block_size=2)),
            mb.depth_to_space(x=deep, block_size=2),
        ),
        lambda x: (
            np.concatenate([x[:, :, i::2, j::2] for i in range(2) for j in range(2)], 1),
            x,
        ),
    ),
    Case(
        "pixel_shuffle",
        {"x": normal(2, 12, 2, 3)},
        lambda x: mb.pixel_shuffle(x=x, upscale_factor=2),
        lambda x: nn.pixel_shuffle(tensor(x), 2),
    ),
    Case(
        "pixel_unshuffle",
        {"x": X},
        lambda x: mb.pixel_unshuffle(x=x, downscale_factor=np.uint32(2)),
        lambda x: nn.pixel_unshuffle(tensor(x), 2),
        target=16,
    ),
    Case(
        "space_to_batch",
        {"x": X},
        lambda x: mb.space_to_batch(x=x, block_shape=[2, 3], paddings=[[1, 1], [0, 0]]),
        _space_to_batch,
    ),
    Case(
        "batch_to_space",
        {"x": X},
        lambda x: mb.batch_to_space(
            x=mb.space_to_batch(x=x, block_shape=[2, 3], paddings=[[1, 1], [0, 0]]),
            block_shape=[2, 3],
            crops=[[1, 1], [0, 0]],
        ),
        lambda x: x,
    ),
    Case(
        "crop",
        {"x": X},
        lambda x: mb.crop(x=x, crop_height=[1, 0], crop_width=[2, 1]),
        lambda x: x[:, :, 1:, 2:-1],
    ),
    Case(
        "pad",
        {"x": X},
        lambda x: mb.pad(x=x, pad=[1, 0, 2, 3], constant_val=1.5),
        lambda x: nn.pad(tensor(x), (2, 3, 1, 0), value=1.5),
    ),
    *(
        Case(
            "pad",
            {"x": X},
            lambda x, mode=mode: mb.pad(x=x, pad=[1, 2, 2, 1], mode=mode),
            lambda x, mode=mode: nn.pad(tensor(x), (2, 1, 1, 2), mode=mode),
            mode,
        )
        for mode in ("reflect", "replicate")
    ),
    Case(
        "band_part",
        {"x": X},
        lambda x: (mb.band_part(x=x, lower=1, upper=2), mb.band_part(x=x, lower=-1, upper=0)),
        lambda x: (np.tril(np.triu(x, -1), 2), np.tril(x)),
    ),
]
CASES = [*_SHAPES, *_BLOCKS]
