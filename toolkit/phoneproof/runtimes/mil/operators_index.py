"""Slices, gathers, scatters and non-maximum suppression of MIL; parameters and defaults as MIL names them.

An index out of range is undefined in MIL. Here a negative one counts from the end, as in iOS 15 and 16, and
any other is an IndexError: the inference fails instead of giving what no device gives.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from phoneproof.runtimes.mil.types import Array

Operator = Callable[..., Any]


def _slices(
    rank: int,
    begin: Array,
    end: Array,
    stride: Array | None,
    begin_mask: Array | None,
    end_mask: Array | None,
    squeeze_mask: Array | None,
) -> tuple[slice | int, ...]:
    def masked(mask: Array | None, axis: int) -> bool:
        return mask is not None and bool(mask[axis])

    slices: list[slice | int] = []
    for axis in range(rank):
        first = None if masked(begin_mask, axis) else int(begin[axis])
        if masked(squeeze_mask, axis):
            slices.append(first or 0)
            continue
        last = None if masked(end_mask, axis) else int(end[axis])
        slices.append(slice(first, last, 1 if stride is None else int(stride[axis])))
    return tuple(slices)


def slice_by_index(
    x: Array,
    begin: Array,
    end: Array,
    stride: Array | None = None,
    begin_mask: Array | None = None,
    end_mask: Array | None = None,
    squeeze_mask: Array | None = None,
) -> Array:
    """x[begin:end:stride] along each axis; a mask leaves begin or end open, or takes one element away."""
    return np.asarray(x[_slices(x.ndim, begin, end, stride, begin_mask, end_mask, squeeze_mask)])


def slice_update(
    x: Array,
    update: Array,
    begin: Array,
    end: Array,
    stride: Array | None = None,
    begin_mask: Array | None = None,
    end_mask: Array | None = None,
    squeeze_mask: Array | None = None,
) -> Array:
    """x with its slice replaced."""
    result = x.copy()
    result[_slices(x.ndim, begin, end, stride, begin_mask, end_mask, squeeze_mask)] = update
    return result


def slice_by_size(x: Array, begin: Array, size: Array) -> Array:
    """size elements from begin along each axis; all to the end where size is -1."""
    slices = []
    for axis in range(x.ndim):
        first, count = int(begin[axis]) % max(x.shape[axis], 1), int(size[axis])
        slices.append(slice(first, None if count == -1 else first + count))
    return x[tuple(slices)]


def gather(
    x: Array, indices: Array, axis: Any = 0, batch_dims: Any = 0, validate_indices: Any = False
) -> Array:
    """Slices of x along axis. The first batch_dims axes of x and indices go together."""
    del validate_indices
    where, batches = int(axis) % x.ndim, int(batch_dims)
    if batches == 0:
        return np.asarray(np.take(x, indices, axis=where))
    flat_x = x.reshape(-1, *x.shape[batches:])
    flat_indices = indices.reshape(-1, *indices.shape[batches:])
    parts = [np.take(a, i, axis=where - batches) for a, i in zip(flat_x, flat_indices, strict=True)]
    return np.stack(parts).reshape(*x.shape[:batches], *parts[0].shape)


def gather_along_axis(x: Array, indices: Array, axis: Any = 0, validate_indices: Any = False) -> Array:
    """One element of x for each index, the other axes going together."""
    del validate_indices
    return np.take_along_axis(x, indices.astype(np.int64), int(axis))


def gather_nd(x: Array, indices: Array, batch_dims: Any = 0, validate_indices: Any = False) -> Array:
    """Slices of x at the positions in the last axis of indices, after batch_dims axes that go together."""
    del validate_indices
    batches = int(batch_dims)
    flat_x = x.reshape(-1, *x.shape[batches:])
    flat_indices = indices.reshape(-1, *indices.shape[batches:])
    parts = [a[tuple(np.moveaxis(i, -1, 0))] for a, i in zip(flat_x, flat_indices, strict=True)]
    return np.stack(parts).reshape(*x.shape[:batches], *parts[0].shape)


_AT: Final[Mapping[str, Callable[..., Any]]] = {
    "add": np.add.at,
    "sub": np.subtract.at,
    "mul": np.multiply.at,
    "div": np.divide.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}


def _scattered(data: Array, where: tuple[Any, ...], updates: Array, mode: str) -> Array:
    result = data.copy()
    if mode == "update":
        result[where] = updates
    elif mode in _AT:
        _AT[mode](result, where, updates)
    else:
        raise ValueError(f"there is no scatter mode {mode!r}")
    return result


def scatter(
    data: Array,
    indices: Array,
    updates: Array,
    axis: Any = 0,
    mode: str = "add",
    validate_indices: Any = False,
) -> Array:
    """data with updates worked into its slices at the indices along axis."""
    del validate_indices
    where = (slice(None),) * (int(axis) % data.ndim)
    return _scattered(data, (*where, indices), updates, mode)


def scatter_along_axis(
    data: Array,
    indices: Array,
    updates: Array,
    axis: Any = 0,
    mode: str = "add",
    validate_indices: Any = False,
) -> Array:
    """data with each update worked in at its index along axis, the other axes going together."""
    del validate_indices
    where: list[Array] = list(np.indices(indices.shape, sparse=True))
    where[int(axis) % data.ndim] = indices
    return _scattered(data, tuple(where), updates, mode)


def scatter_nd(
    data: Array, indices: Array, updates: Array, mode: str = "add", validate_indices: Any = False
) -> Array:
    """data with updates worked in at the positions in the last axis of indices."""
    del validate_indices
    return _scattered(data, tuple(np.moveaxis(indices, -1, 0)), updates, mode)


def _overlaps(box: Array, boxes: Array) -> Array:
    """Intersection over union of one box with others, as (centre x, centre y, width, height)."""
    low, high = box[:2] - box[2:] / 2, box[:2] + box[2:] / 2
    lows, highs = boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
    both = np.prod(np.clip(np.minimum(high, highs) - np.maximum(low, lows), 0, None), axis=1)
    either = np.prod(box[2:]) + np.prod(boxes[:, 2:], axis=1) - both
    return np.asarray(np.divide(both, either, out=np.zeros_like(both), where=either > 0))


def _kept(boxes: Array, scores: Array, iou: float, least: float, most: int, per_class: bool) -> list[int]:
    """Indices of the boxes of one image that are kept. boxes: [B, 4]; scores: [B, classes]."""
    best, classes = scores.max(axis=1), scores.argmax(axis=1)
    kept: list[int] = []
    for candidate in np.argsort(-best, kind="stable"):
        if best[candidate] < least or len(kept) == most:
            break
        rivals = [k for k in kept if not per_class or classes[k] == classes[candidate]]
        if not rivals or bool((_overlaps(boxes[candidate], boxes[rivals]) <= iou).all()):
            kept.append(int(candidate))
    return kept


def non_maximum_suppression(
    boxes: Array,
    scores: Array,
    iou_threshold: Any,
    max_boxes: Any,
    score_threshold: Any | None = None,
    per_class_suppression: Any = False,
) -> tuple[Array, ...]:
    """The boxes that no better box overlaps by more than iou_threshold; a box counts with its best class.

    iOS 15 and 16 (with score_threshold): boxes [n, B, 4], scores [n, B, K], and a fourth result, how many
    were kept. Later: boxes [n, 4, B], scores [n, K, B]. Rows that are not filled hold 0, their index is -1.
    """
    first_form = score_threshold is not None
    least = float(score_threshold) if score_threshold is not None else -np.inf
    if not first_form:
        boxes, scores = np.swapaxes(boxes, 1, 2), np.swapaxes(scores, 1, 2)
    n, most = boxes.shape[0], int(max_boxes)
    out_boxes = np.zeros((n, most, 4), np.float32)
    out_scores = np.zeros((n, most, scores.shape[2]), np.float32)
    indices, counts = np.full((n, most), -1, np.int32), np.zeros(n, np.int32)
    for i in range(n):
        kept = _kept(boxes[i], scores[i], float(iou_threshold), least, most, bool(per_class_suppression))
        out_boxes[i, : len(kept)], out_scores[i, : len(kept)] = boxes[i][kept], scores[i][kept]
        indices[i, : len(kept)], counts[i] = kept, len(kept)
    if first_form:
        return out_boxes, out_scores, indices, counts
    return np.swapaxes(out_boxes, 1, 2), np.swapaxes(out_scores, 1, 2), indices


OPERATORS: Final[Mapping[str, Operator]] = {
    "gather": gather,
    "gather_along_axis": gather_along_axis,
    "gather_nd": gather_nd,
    "non_maximum_suppression": non_maximum_suppression,
    "scatter": scatter,
    "scatter_along_axis": scatter_along_axis,
    "scatter_nd": scatter_nd,
    "slice_by_index": slice_by_index,
    "slice_by_size": slice_by_size,
    "slice_update": slice_update,
}
