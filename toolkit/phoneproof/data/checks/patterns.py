"""Numbers that tell photographs from noise, copies from others, and frames from pictures: pure functions.

samples are float32 [n, C, *axes] with finite values; images are [n, C, H, W].
"""

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Margins = npt.NDArray[np.int64]

THUMBNAIL: Final = 16
"""Side in cells. Smaller ones take digits of one class for copies, larger ones miss frames that moved."""

BORDERED: Final = 0.1
"""Least share of the height or width that is called a border: a letterbox of 4:3 in a square takes 0.25."""

_PATCH: Final = 16384
"""Elements in the middle of a channel that stand for it."""
_SHORTEST: Final = 16
_LAGS: Final = (1, 2, 3)
_SAME: Final = 4 / 255
"""Share of a sample's span within which a border is of one colour: what JPEG leaves of a plain area."""


def likeness(samples: Singles) -> Floats:
    """[n]: how alike neighbours are: the greatest absolute autocorrelation at lags 1 to 3 along any axis of
    at least 16 elements, in the middle of the channels' mean. White noise has about 1 / sqrt(elements).

    NaN where a sample has fewer than 256 elements in a channel, or is constant: nothing can be told.
    """
    patch = _middle(samples).mean(axis=1)
    n = len(patch)
    if patch[0].size < _SHORTEST**2:
        return np.full(n, np.nan)
    centred = patch - patch.reshape(n, -1).mean(axis=1).reshape(n, *[1] * (patch.ndim - 1))
    power = np.mean(np.square(centred).reshape(n, -1), axis=1, dtype=np.float64)
    found = np.zeros(n)
    for axis in range(1, centred.ndim):
        length = centred.shape[axis]
        lagged = np.moveaxis(centred, axis, 1)
        for lag in _LAGS if length >= _SHORTEST else ():
            products = lagged[:, lag:] * lagged[:, :-lag]
            shared = products.reshape(n, -1).mean(axis=1, dtype=np.float64)
            with np.errstate(divide="ignore", invalid="ignore"):
                found = np.maximum(found, np.abs(shared / power))
    return np.where(power > 0, found, np.nan)


def channel_likeness(images: Singles) -> Floats:
    """[n]: the greatest absolute correlation of two channels of an image; NaN where one is constant."""
    patch = _middle(images)
    flat = patch.reshape(*patch.shape[:2], -1)
    flat = flat - flat.mean(axis=2, keepdims=True)
    shared = (flat @ flat.swapaxes(1, 2)).astype(np.float64)
    power = np.einsum("ncc->nc", shared)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = np.abs(shared) / np.sqrt(power[:, :, np.newaxis] * power[:, np.newaxis, :])
    first, second = np.triu_indices(patch.shape[1], 1)
    greatest: Floats = correlation[:, first, second].max(axis=-1)
    return greatest


def cell_means(images: Singles) -> Singles:
    """[n, C, 16, 16]: means over a grid of cells; an image of fewer pixels has some of them twice."""
    return _means(_means(images, 3), 2)


def thumbnails(images: Singles, margins: Margins) -> Singles:
    """[n, C * 16 * 16]: `cell_means` within the margins, less each channel's mean, of length 1.

    The product of two rows is the correlation of two pictures. A picture of one colour has a row of zeros.
    Without the margins, since any two pictures of one letterbox would look alike.
    """
    cells = cell_means(images)
    for at in np.flatnonzero(margins.any(axis=1)):
        above, below, left, right = margins[at]
        height, width = images.shape[2:]
        cells[at] = cell_means(images[at : at + 1, :, above : height - below, left : width - right])[0]
    centred = cells - cells.mean(axis=(2, 3), keepdims=True)
    flat = centred.reshape(len(cells), -1)
    length = np.linalg.norm(flat.astype(np.float64), axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.where(length > 0, flat / length, 0)
    return scaled.astype(np.float32)


def chroma(cells: Singles) -> Floats:
    """[n, 4] of `cell_means` of three channels, each of which changes its sign when the first and the third
    are swapped: their difference in the upper and in the lower half, the difference of their spreads, and how
    their difference follows brightness."""
    values = cells.astype(np.float64)
    first, third = values[:, 0], values[:, 2]
    difference, brightness = first - third, values.mean(axis=1)
    middle = max(1, values.shape[2] // 2)
    centred = brightness - brightness.mean(axis=(1, 2), keepdims=True)
    spread = np.maximum(centred.std(axis=(1, 2)), np.finfo(np.float32).tiny)
    columns = (
        difference[:, :middle].mean(axis=(1, 2)),
        difference[:, middle:].mean(axis=(1, 2)),
        first.std(axis=(1, 2)) - third.std(axis=(1, 2)),
        (difference * centred).mean(axis=(1, 2)) / spread,
    )
    return np.stack(columns, axis=1)


def margins_of(images: Singles) -> Margins:
    """[n, 4]: rows above and below, columns left and right, that are of one colour all along.

    Zeros where they take less than BORDERED of the height and of the width, and for a picture that is nearly
    of one colour throughout.
    """
    return np.array([_margins(image) for image in images], np.int64)


def border_shares(margins: Margins, height: int, width: int) -> Floats:
    """[n]: share of the height or of the width, whichever is more, that lies in the margins."""
    shares: Floats = np.maximum(margins[:, :2].sum(axis=1) / height, margins[:, 2:].sum(axis=1) / width)
    return shares


def roughness(image: Array) -> float:
    """Mean absolute difference of neighbours along the height and the width of one image [C, H, W]."""
    return sum(float(np.abs(np.diff(image, axis=axis)).mean()) for axis in (1, 2))


def _middle(samples: Singles) -> Singles:
    """[n, C, *axes], of each axis as much as makes _PATCH elements if all are long."""
    axes = samples.shape[2:]
    most = math.floor(_PATCH ** (1 / len(axes)) + 1e-9)
    cut = (slice(max(0, side - most) // 2, max(0, side - most) // 2 + most) for side in axes)
    middle: Singles = samples[(slice(None), slice(None), *cut)]
    return middle


def _means(images: Singles, axis: int) -> Singles:
    length = images.shape[axis]
    begins = np.arange(THUMBNAIL) * length // THUMBNAIL
    sizes = np.maximum(1, np.diff(np.append(begins, length))).astype(np.float32)
    shape = [1] * images.ndim
    shape[axis] = THUMBNAIL
    sums: Singles = np.add.reduceat(images, begins, axis=axis)
    means: Singles = np.divide(sums, sizes.reshape(shape), dtype=np.float32)
    return means


def _margins(image: Singles) -> tuple[int, int, int, int]:
    tolerance = float(np.ptp(image)) * _SAME
    turned = image.swapaxes(1, 2)
    found = tuple(_leading(one, tolerance) for one in (image, image[:, ::-1], turned, turned[:, ::-1]))
    above, below, left, right = found
    shares = (above + below) / image.shape[1], (left + right) / image.shape[2]
    return (above, below, left, right) if BORDERED <= max(shares) < 1 else (0, 0, 0, 0)


def _leading(image: Singles, tolerance: float) -> int:
    """How many rows from the top on have the colour of the first, all along."""
    corner = image[:, 0, 0]
    for row in range(image.shape[1]):
        if (np.abs(image[:, row] - corner[:, np.newaxis]) > tolerance).any():
            return row
    return int(image.shape[1])
