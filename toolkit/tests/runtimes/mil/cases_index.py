"""Cases of slices, gathers, scatters and non-maximum suppression."""

import numpy as np
import torch
from torch import from_numpy as tensor

from tests.runtimes.mil.building import Array, Case, integers, mb, normal

X = normal(4, 5, 6)
ROWS = np.array([3, 0, 3], np.int32)

_SLICES = [
    Case(
        "slice_by_index",
        {"x": X},
        lambda x: mb.slice_by_index(x=x, begin=[1, -4, 0], end=[4, -1, 6], stride=[2, 1, 3]),
        lambda x: x[1:4:2, -4:-1, 0:6:3],
    ),
    Case(
        "slice_by_index",
        {"x": X},
        lambda x: mb.slice_by_index(
            x=x,
            begin=[2, 3, 9],
            end=[0, 0, 0],
            stride=[1, -1, 2],
            begin_mask=[False, False, True],
            end_mask=[False, True, True],
            squeeze_mask=[True, False, False],
        ),
        lambda x: x[2, 3::-1, ::2],
        "masks",
    ),
    Case(
        "slice_by_index",
        {"x": X},
        lambda x: mb.slice_by_index(x=x, begin=[-1, 0, 0], end=[0, 5, 6], squeeze_mask=[True, False, False]),
        lambda x: x[-1],
        "last",
    ),
    Case(
        "slice_by_size",
        {"x": X},
        lambda x: mb.slice_by_size(x=x, begin=[1, 2, 0], size=[2, -1, 3]),
        lambda x: x[1:3, 2:, :3],
    ),
    Case(
        "slice_update",
        {"x": X, "u": normal(2, 3, 6)},
        lambda x, u: mb.slice_update(
            x=x, update=u, begin=[1, 0, 0], end=[3, 5, 0], stride=[1, 2, 1], end_mask=[False, False, True]
        ),
        lambda x, u: torch.slice_scatter(
            tensor(x), torch.slice_scatter(tensor(x[1:3]), tensor(u), 1, 0, 5, 2), 0, 1, 3
        ),
        target=18,
    ),
]


def _batched_gather(x: Array, i: Array) -> Array:
    return np.stack([a[:, j] for a, j in zip(x, i, strict=True)])


_GATHERS = [
    Case(
        "gather",
        {"x": X, "i": integers(0, 5, 2, 3)},
        lambda x, i: mb.gather(x=x, indices=i, axis=-2),
        lambda x, i: x[:, i],
    ),
    Case(
        "gather",
        {"x": X},
        lambda x: mb.gather(x=x, indices=np.array([-1, 0], np.int32), axis=0),
        lambda x: x[[-1, 0]],
        "negative",
    ),
    Case(
        "gather",
        {"x": X},
        lambda x: mb.gather(x=x, indices=np.int32(2), axis=1),
        lambda x: x[:, 2],
        "scalar",
    ),
    Case(
        "gather",
        {"x": X, "i": integers(0, 6, 4, 2)},
        lambda x, i: mb.gather(x=x, indices=i, axis=2, batch_dims=1),
        _batched_gather,
        "batched",
        16,
    ),
    Case(
        "gather",
        {"x": X, "i": integers(0, 4, 3)},
        lambda x, i: mb.gather(x=x, indices=mb.cast(x=i, dtype="uint16"), axis=0, validate_indices=False),
        lambda x, i: x[i],
        "short_indices",
        17,
    ),
    Case(
        "gather_along_axis",
        {"x": X, "i": integers(0, 5, 4, 2, 6)},
        lambda x, i: mb.gather_along_axis(x=x, indices=i, axis=1),
        lambda x, i: torch.gather(tensor(x), 1, tensor(i).long()),
    ),
    Case(
        "gather_nd",
        {"x": X, "i": integers(0, 4, 3, 2)},
        lambda x, i: mb.gather_nd(x=x, indices=i),
        lambda x, i: x[i[:, 0], i[:, 1]],
    ),
    Case(
        "gather_nd",
        {"x": X, "i": integers(0, 5, 4, 3, 1)},
        lambda x, i: mb.gather_nd(x=x, indices=i, batch_dims=1),
        lambda x, i: np.stack([a[j[:, 0]] for a, j in zip(x, i, strict=True)]),
        "batched",
        16,
    ),
]


def _scattered(mode: str, x: Array, u: Array) -> Array:
    """Row 3 gets two updates."""
    out = x.copy()
    for row, update in zip(ROWS, u, strict=True):
        if mode == "update":
            out[row] = update
        elif mode == "add":
            out[row] += update
        elif mode == "sub":
            out[row] -= update
        elif mode == "mul":
            out[row] *= update
        elif mode == "div":
            out[row] /= update
        elif mode == "max":
            out[row] = np.maximum(out[row], update)
        else:
            out[row] = np.minimum(out[row], update)
    return out


_SCATTERS = [
    *(
        Case(
            "scatter",
            {"x": X, "u": np.abs(normal(3, 5, 6)) + 0.5},
            lambda x, u, mode=mode: mb.scatter(data=x, indices=ROWS, updates=u, axis=0, mode=mode),
            lambda x, u, mode=mode: _scattered(mode, x, u),
            mode,
        )
        for mode in ("update", "add", "sub", "mul", "div", "max", "min")
    ),
    Case(
        "scatter",
        {"x": X, "u": normal(4, 5, 2)},
        lambda x, u: mb.scatter(data=x, indices=np.array([5, 1], np.int32), updates=u, axis=-1, mode="add"),
        lambda x, u: tensor(x).index_add(2, torch.tensor([5, 1]), tensor(u)),
        "last_axis",
    ),
    Case(
        "scatter_along_axis",
        {"x": X, "i": integers(0, 5, 4, 3, 6), "u": normal(4, 3, 6)},
        lambda x, i, u: mb.scatter_along_axis(data=x, indices=i, updates=u, axis=1, mode="add"),
        lambda x, i, u: torch.scatter_add(tensor(x), 1, tensor(i).long(), tensor(u)),
    ),
    Case(
        "scatter_nd",
        {"x": X, "i": np.array([[0, 1], [3, 4], [0, 1]], np.int32), "u": normal(3, 6)},
        lambda x, i, u: mb.scatter_nd(data=x, indices=i, updates=u, mode="add"),
        lambda x, i, u: tensor(x).index_put(
            (tensor(i[:, 0]).long(), tensor(i[:, 1]).long()), tensor(u), accumulate=True
        ),
    ),
]
# Centre x, centre y, width, height: the second overlaps the first by 9 / 11, the fourth the third by 3 / 5.
_BOXES = np.array([[[5, 5, 10, 10], [6, 5, 10, 10], [30, 30, 4, 4], [30, 31, 4, 4]]], np.float32)
_SCORES = np.array([[[0.9, 0.1], [0.2, 0.8], [0.3, 0.1], [0.6, 0.2]]], np.float32)


def _first_form(boxes: Array, scores: Array) -> tuple[Array, ...]:
    kept = [0, 3]
    empty = np.zeros((1, 1, 4), np.float32)
    return (
        np.concatenate([boxes[:, kept], empty], 1),
        np.concatenate([scores[:, kept], empty[..., :2]], 1),
        np.array([[0, 3, -1]]),
        np.array([2]),
    )


_SUPPRESSION = [
    Case(
        "non_maximum_suppression",
        {"boxes": _BOXES, "scores": _SCORES},
        lambda boxes, scores: mb.non_maximum_suppression(
            boxes=boxes, scores=scores, iou_threshold=0.5, score_threshold=0.25, max_boxes=3
        ),
        _first_form,
    ),
    Case(
        "non_maximum_suppression",
        {"boxes": _BOXES.swapaxes(1, 2).copy(), "scores": _SCORES.swapaxes(1, 2).copy()},
        lambda boxes, scores: mb.non_maximum_suppression(
            boxes=boxes, scores=scores, iou_threshold=0.5, max_boxes=2, per_class_suppression=True
        ),
        lambda boxes, scores: (boxes[:, :, [0, 1]], scores[:, :, [0, 1]], np.array([[0, 1]])),
        "by_class",
        17,
    ),
]
CASES = [*_SLICES, *_GATHERS, *_SCATTERS, *_SUPPRESSION]
