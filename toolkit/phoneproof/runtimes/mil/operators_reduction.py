"""Reductions, ordering and cumulative operators of MIL; parameters and defaults as MIL names them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from phoneproof.runtimes.mil.types import Array

Operator = Callable[..., Any]


def _over(axes: Array | None) -> tuple[int, ...] | None:
    return None if axes is None else tuple(int(a) for a in np.atleast_1d(axes))


def _reduction(function: Callable[..., Any]) -> Operator:
    def operator(x: Array, axes: Array | None = None, keep_dims: Any = False) -> Any:
        return function(x, axis=_over(axes), keepdims=bool(keep_dims))

    return operator


def _l1(x: Array, **over: Any) -> Any:
    return np.sum(np.abs(x), **over)


def _l2(x: Array, **over: Any) -> Any:
    return np.sqrt(np.sum(np.square(x), **over))


def _log_sum(x: Array, **over: Any) -> Any:
    return np.log(np.sum(x, **over))


def _log_sum_exp(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Any:
    # The largest value is taken out first: exp(100) is beyond float32.
    most = np.max(x, axis=axis, keepdims=True)
    total = np.log(np.sum(np.exp(x - most), axis=axis, keepdims=keepdims))
    return total + (most if keepdims else np.squeeze(most, axis=axis))


def _sum_square(x: Array, **over: Any) -> Any:
    return np.sum(np.square(x), **over)


def _mean(x: Array, **over: Any) -> Any:
    mean = np.mean(x, **over)
    return np.trunc(mean) if np.issubdtype(x.dtype, np.integer) else mean


def reduce_argmax(x: Array, axis: Any = -1, keep_dims: Any = False, output_dtype: str = "int32") -> Array:
    """Index of the largest along axis, the first of equals."""
    return np.asarray(np.argmax(x, axis=int(axis), keepdims=bool(keep_dims))).astype(output_dtype)


def reduce_argmin(x: Array, axis: Any = -1, keep_dims: Any = False, output_dtype: str = "int32") -> Array:
    """Index of the least along axis, the first of equals."""
    return np.asarray(np.argmin(x, axis=int(axis), keepdims=bool(keep_dims))).astype(output_dtype)


def _order(x: Array, axis: int, ascending: bool) -> Array:
    """Indices that sort x along axis; equals keep their order in both directions."""
    if ascending:
        return np.argsort(x, axis=axis, kind="stable")
    backwards = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return np.asarray(x.shape[axis] - 1 - np.flip(backwards, axis))


def argsort(x: Array, axis: Any = -1, ascending: Any = False) -> Array:
    """Indices that sort x along axis."""
    return _order(x, int(axis), bool(ascending))


def topk(
    x: Array,
    k: Any = 1,
    axis: Any = -1,
    ascending: Any = False,
    sort: Any = True,
    return_indices: Any = True,
    output_indices_dtype: str = "int32",
) -> tuple[Array, ...]:
    """The k largest (least if ascending) along axis, in order, and their indices.

    With sort = False MIL leaves their order open; it is the same here.
    """
    del sort
    where = int(axis)
    chosen = np.take(_order(x, where, bool(ascending)), np.arange(int(k)), axis=where)
    values = np.take_along_axis(x, chosen, where)
    return (values, chosen.astype(output_indices_dtype)) if bool(return_indices) else (values,)


def cumsum(x: Array, axis: Any = 0, exclusive: Any = False, reverse: Any = False) -> Array:
    """Running sums along axis; exclusive leaves each element out of its own sum."""
    where = int(axis)
    values = np.flip(x, where) if bool(reverse) else x
    sums = np.cumsum(values, axis=where, dtype=x.dtype)
    if bool(exclusive):
        sums = sums - values
    return np.flip(sums, where) if bool(reverse) else sums


def non_zero(x: Array) -> Array:
    """Indices of the elements that are not zero. Gives [number of them, rank of x]."""
    return np.argwhere(x != 0)


OPERATORS: Final[Mapping[str, Operator]] = {
    "argsort": argsort,
    "cumsum": cumsum,
    "non_zero": non_zero,
    "reduce_argmax": reduce_argmax,
    "reduce_argmin": reduce_argmin,
    "reduce_l1_norm": _reduction(_l1),
    "reduce_l2_norm": _reduction(_l2),
    "reduce_log_sum": _reduction(_log_sum),
    "reduce_log_sum_exp": _reduction(_log_sum_exp),
    "reduce_max": _reduction(np.max),
    "reduce_mean": _reduction(_mean),
    "reduce_min": _reduction(np.min),
    "reduce_prod": _reduction(np.prod),
    "reduce_sum": _reduction(np.sum),
    "reduce_sum_square": _reduction(_sum_square),
    "topk": topk,
}
