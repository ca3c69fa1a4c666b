"""What is kept of the outputs of an inference (`keep` of an infer case)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phoneproof.errors import ProtocolError
from phoneproof.protocol.job import Keep


def apply_keep(keep: Keep, outputs: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], ...]:
    """The tensors to store for one sample.

    full: the outputs. none: nothing.
    topk: for each output two tensors: its min(k, length) largest values along the last axis, largest first,
    in its dtype, and their int32 indices.
    argmax: for each output the int32 index of the largest value along `axis` (a negative one counts from the
    last), that axis dropped.
    Among equals the lower index comes first; -0 and 0 are equal. NaN is below every number, -inf included, so
    it never wins over one; where argmax finds nothing but NaN it gives -1.
    ProtocolError for an output without the axis, or for argmax along an axis of length 0.
    """
    if keep.kind == "full":
        return tuple(outputs)
    if keep.kind == "topk":
        if keep.k is None:
            raise ProtocolError("topk without k.")
        return tuple(part for output in outputs for part in _topk(output, keep.k))
    if keep.kind == "argmax":
        if keep.axis is None:
            raise ProtocolError("argmax without axis.")
        return tuple(_argmax(output, keep.axis) for output in outputs)
    return ()


def _topk(values: NDArray[Any], k: int) -> tuple[NDArray[Any], NDArray[np.int32]]:
    if values.ndim == 0:
        raise ProtocolError("topk of an output without axes.")
    length = values.shape[-1]
    missing = np.isnan(values) if values.dtype.kind == "f" else None
    comparable = values if missing is None else np.where(missing, values.dtype.type(-np.inf), values)
    # A stable ascending sort of the reversed axis, reversed again: descending, the lower index first.
    order = length - 1 - np.argsort(comparable[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    if missing is not None:
        numbers_first = np.argsort(np.take_along_axis(missing, order, -1), axis=-1, kind="stable")
        order = np.take_along_axis(order, numbers_first, -1)
    indices = order[..., :k]
    return np.take_along_axis(values, indices, -1), indices.astype(np.int32)


def _argmax(values: NDArray[Any], axis: int) -> NDArray[np.int32]:
    if not -values.ndim <= axis < values.ndim or values.shape[axis] == 0:
        raise ProtocolError(f"argmax along axis {axis} of an output of shape {values.shape}.")
    if values.dtype.kind != "f":
        return np.asarray(np.argmax(values, axis=axis), np.int32)
    missing = np.isnan(values)
    largest = np.argmax(np.where(missing, values.dtype.type(-np.inf), values), axis=axis)
    # Where a NaN stands in for the largest, every number is -inf: the first of them, if there is one.
    at_nan = np.take_along_axis(missing, np.expand_dims(largest, axis), axis).squeeze(axis)
    largest = np.where(at_nan, np.argmin(missing, axis=axis), largest)
    return np.asarray(np.where(missing.all(axis=axis), -1, largest), np.int32)
