"""Operators of MIL that sample an image at other places; parameters and defaults as MIL names them."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as nn

from phoneproof.runtimes.mil.operators_elementwise import as_torch
from phoneproof.runtimes.mil.types import Array

Operator = Callable[..., Any]


def grid_points(length: int, wanted: int, mode: str) -> Array:
    """Where in [0, length - 1] each of the wanted elements is taken. float64 [wanted], not yet clipped.

    Source: the notes of MIL's resize_bilinear.
    """
    steps = np.arange(wanted, dtype=np.float64)
    if mode == "DEFAULT":
        return steps * length / wanted
    if mode == "UNALIGN_CORNERS":
        return (steps + 0.5) * length / wanted - 0.5
    if mode == "OFFSET_CORNERS":
        return (steps + 0.5) * max(1, length - 1) / wanted
    if mode == "ALIGN_CORNERS" and wanted == 1:
        return np.array([(length - 1) / 2])
    if mode in ("ALIGN_CORNERS", "STRICT_ALIGN_CORNERS"):
        return steps * (length - 1) / max(1, wanted - 1)
    raise ValueError(f"there is no sampling mode {mode!r}")


def _linear(x: Array, axis: int, wanted: int, mode: str) -> Array:
    length = x.shape[axis]
    points = np.clip(grid_points(length, wanted, mode), 0, length - 1)
    below = np.floor(points).astype(np.int64)
    share = (points - below).astype(np.float32).reshape(-1, *[1] * (x.ndim - 1 - axis % x.ndim))
    lower = np.take(x, below, axis)
    upper = np.take(x, np.minimum(below + 1, length - 1), axis)
    return np.asarray(lower + (upper - lower) * share)


def _nearest(x: Array, axis: int, wanted: int, mode: str) -> Array:
    """DEFAULT takes the element below the grid point, the other modes the nearest, a half upwards.

    These are the elements that torch's and TensorFlow's nearest-neighbour resizes take, which coremltools
    converts to these modes; MIL itself does not say.
    """
    length = x.shape[axis]
    if mode == "DEFAULT":
        return np.asarray(np.take(x, np.arange(wanted) * length // wanted, axis))
    points = np.floor(grid_points(length, wanted, mode) + 0.5).astype(np.int64)
    return np.take(x, np.clip(points, 0, length - 1), axis)


def _image(x: Array, height: int, width: int, mode: str) -> Array:
    return _linear(_linear(x, -2, height, mode), -1, width, mode)


def resize_bilinear(
    x: Array, target_size_height: Any = 1, target_size_width: Any = 1, sampling_mode: str = "DEFAULT"
) -> Array:
    """The last two axes in another size."""
    return _image(x, int(target_size_height), int(target_size_width), sampling_mode)


def resize_nearest_neighbor(x: Array, target_size_height: Any, target_size_width: Any) -> Array:
    """The last two axes in another size, element (i * old) // new for each i."""
    rows = _nearest(x, -2, int(target_size_height), "DEFAULT")
    return _nearest(rows, -1, int(target_size_width), "DEFAULT")


def resize(
    x: Array,
    shape: Array,
    resized_dims: Any,
    interpolation_mode: str = "LINEAR",
    sampling_mode: str = "DEFAULT",
) -> Array:
    """The last resized_dims axes in the lengths of shape; 0 there keeps x's."""
    if interpolation_mode not in ("LINEAR", "NEAREST_NEIGHBOR"):
        raise ValueError(f"resize has no interpolation mode {interpolation_mode!r}")
    one_axis = _linear if interpolation_mode == "LINEAR" else _nearest
    for axis in range(-int(resized_dims), 0):
        wanted = int(shape[axis]) or x.shape[axis]
        x = one_axis(x, axis, wanted, sampling_mode)
    return x


def _scaled(length: int, factor: Any) -> int:
    # The factor is a float32 of a ratio such as 7 / 3: times 3 it may fall just short of 7.
    product = length * float(factor)
    near = round(product)
    return near if abs(product - near) < 1e-4 else math.floor(product)


def upsample_bilinear(
    x: Array,
    scale_factor_height: Any = 1,
    scale_factor_width: Any = 1,
    align_corners: Any = True,
    half_pixel_centers: Any | None = None,
) -> Array:
    """The last two axes times a factor; the factor in force is that of the lengths, rounded down."""
    aligned = bool(align_corners)
    half = not aligned if half_pixel_centers is None else bool(half_pixel_centers)
    if aligned and half:
        raise ValueError("upsample_bilinear with align_corners and half_pixel_centers is not defined")
    mode = "STRICT_ALIGN_CORNERS" if aligned else "UNALIGN_CORNERS" if half else "DEFAULT"
    height, width = _scaled(x.shape[-2], scale_factor_height), _scaled(x.shape[-1], scale_factor_width)
    return _image(x, height, width, mode)


def upsample_nearest_neighbor(x: Array, scale_factor_height: Any = 1, scale_factor_width: Any = 1) -> Array:
    """The last two axes times a factor."""
    return resize_nearest_neighbor(
        x, _scaled(x.shape[-2], scale_factor_height), _scaled(x.shape[-1], scale_factor_width)
    )


def _pixels(coordinates: Array, lengths: Array, mode: str, aligned: bool) -> Array:
    """Coordinates (x, y) as places of pixels: 0 is the centre of the first, length - 1 that of the last."""
    if mode == "unnormalized":
        return coordinates.astype(np.float32)
    if mode == "normalized_minus_one_to_one":
        share = (coordinates + 1) / 2
    elif mode == "normalized_zero_to_one":
        share = coordinates
    else:
        raise ValueError(f"there is no coordinates mode {mode!r}")
    return np.asarray(share * (lengths - 1) if aligned else share * lengths - 0.5)


_PADDING: Final = {
    "constant": "zeros",
    "border": "border",
    "reflection": "reflection",
    "symmetric": "reflection",
}


def resample(
    x: Array,
    coordinates: Array,
    sampling_mode: str,
    padding_mode: str,
    padding_value: Any,
    coordinates_mode: str,
    align_corners: Any,
) -> Array:
    """x at places (x, y). x: [n, C, H, W]; coordinates: [n, h, w, 2]. Gives [n, C, h, w].

    torch reflects at the centres of the edge pixels if corners are aligned ("reflection"), else at their
    outer edges ("symmetric").
    """
    lengths = np.array([x.shape[3], x.shape[2]], np.float32)
    pixels = _pixels(coordinates, lengths, coordinates_mode, bool(align_corners))
    aligned = padding_mode != "symmetric"
    grid = pixels * 2 / np.maximum(lengths - 1, 1) - 1 if aligned else (pixels * 2 + 1) / lengths - 1
    value = float(padding_value) if padding_mode == "constant" else 0.0
    sampled = nn.grid_sample(
        as_torch(x - np.float32(value)),
        as_torch(grid.astype(np.float32)),
        mode=sampling_mode.lower(),
        padding_mode=_PADDING[padding_mode],
        align_corners=aligned,
    )
    result: Array = sampled.numpy() + np.float32(value)
    return result


def affine(
    x: Array,
    transform_matrix: Array,
    output_height: Any,
    output_width: Any,
    sampling_mode: str,
    padding_mode: str,
    padding_value: Any,
    coordinates_mode: str,
    align_corners: Any,
) -> Array:
    """x at places (a0 x + a1 y + a2, b0 x + b1 y + b2). transform_matrix: [n or 1, 6]."""
    matrices = np.broadcast_to(transform_matrix, (x.shape[0], 6)).reshape(-1, 2, 3)
    size = [x.shape[0], x.shape[1], int(output_height), int(output_width)]
    grid = nn.affine_grid(torch.from_numpy(matrices.copy()), size, align_corners=bool(align_corners)).numpy()
    return resample(x, grid, sampling_mode, padding_mode, padding_value, coordinates_mode, align_corners)


OPERATORS: Final[Mapping[str, Operator]] = {
    "affine": affine,
    "resample": resample,
    "resize": resize,
    "resize_bilinear": resize_bilinear,
    "resize_nearest_neighbor": resize_nearest_neighbor,
    "upsample_bilinear": upsample_bilinear,
    "upsample_nearest_neighbor": upsample_nearest_neighbor,
}
