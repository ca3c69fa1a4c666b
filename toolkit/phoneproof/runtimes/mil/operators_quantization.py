"""Quantization of activations, and the compressed constants (constexpr_*) of MIL iOS 16 to iOS 18."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from phoneproof.runtimes.mil.types import Array, unpacked

Operator = Callable[..., Any]


def _along(values: Any, rank: int, axis: Any | None) -> Array:
    """A scalar as it is; a vector so that it goes along `axis` of a tensor of that rank. float32."""
    wide = np.asarray(values).astype(np.float32)
    if wide.ndim == 0 or axis is None:
        return wide
    shape = [1] * rank
    shape[int(axis)] = -1
    return wide.reshape(shape)


def quantize(
    input: Array, scale: Array, output_dtype: str, zero_point: Array | None = None, axis: Any | None = None
) -> Array:
    """clip(round(input / scale) + zero_point), a half to the even integer."""
    if output_dtype not in ("int8", "uint8"):
        raise ValueError(f"quantize has no output of {output_dtype!r}")
    limits = np.iinfo(output_dtype)
    offset = 0 if zero_point is None else _along(zero_point, input.ndim, axis)
    steps = np.rint(input / _along(scale, input.ndim, axis)) + offset
    return np.asarray(np.clip(steps, limits.min, limits.max)).astype(output_dtype)


def dequantize(input: Array, scale: Array, zero_point: Array | None = None, axis: Any | None = None) -> Array:
    """scale * (input - zero_point)."""
    offset = 0 if zero_point is None else _along(zero_point, input.ndim, axis)
    return np.asarray((input.astype(np.float32) - offset) * _along(scale, input.ndim, axis))


def constexpr_affine_dequantize(quantized_data: Array, zero_point: Array, scale: Array, axis: Any) -> Array:
    """scale * (quantized_data - zero_point), each a scalar or a vector along axis."""
    return dequantize(quantized_data, scale, zero_point, axis)


def constexpr_cast(source_val: Array, output_dtype: str) -> Array:
    """A float16 constant as float32."""
    if output_dtype != "fp32":
        raise ValueError(f"constexpr_cast to {output_dtype!r} is not defined")
    return source_val


def _in_blocks(parameter: Array, shape: tuple[int, ...]) -> Array:
    """Each element of `parameter` repeated over its block of a tensor of that shape."""
    for axis, length in enumerate(shape):
        blocks = parameter.shape[axis]
        if length % blocks:
            raise ValueError(f"{blocks} blocks do not divide the {length} elements of axis {axis}")
        parameter = np.repeat(parameter, length // blocks, axis)
    return parameter


def constexpr_blockwise_shift_scale(data: Array, scale: Array, offset: Array | None = None) -> Array:
    """scale * (data - offset), with one scale and offset for each block of data."""
    wide = data.astype(np.float32)
    if offset is not None:
        wide = wide - _in_blocks(offset.astype(np.float32), data.shape)
    return np.asarray(wide * _in_blocks(scale, data.shape))


def _looked_up(indices: Array, lut: Array, vector_axis: Any | None) -> Array:
    """indices: [*shape]; lut: [*groups, palettes, vector]. The vectors go along vector_axis."""
    *groups, palettes, vector = lut.shape
    numbers = np.arange(int(np.prod(groups, dtype=np.int64))).reshape(groups)
    found = lut.reshape(-1, palettes, vector)[_in_blocks(numbers, indices.shape), indices]
    if vector == 1:
        return found[..., 0]
    if vector_axis is None:
        raise ValueError("a table of vectors has no vector_axis")
    axis = int(vector_axis) % indices.ndim
    shape = list(indices.shape)
    shape[axis] *= vector
    return np.moveaxis(found, -1, axis + 1).reshape(shape)


def constexpr_lut_to_dense(
    indices: Array, lut: Array, shape: Array | None = None, vector_axis: Any | None = None
) -> Array:
    """The entries of a table at the indices.

    iOS 16 (with shape): indices packed into bytes, log2(entries) bits each, and one table. iOS 18: indices in
    the shape of the result and a table for each group.
    """
    if shape is None:
        return _looked_up(indices, lut, vector_axis)
    lengths = [int(n) for n in shape]
    bits = int(lut.size - 1).bit_length()
    flat = unpacked(indices, bits, int(np.prod(lengths, dtype=np.int64)), signed=False)
    return lut[flat].reshape(lengths)


def _dense(nonzero_data: Array, mask: Array) -> Array:
    result = np.zeros(mask.shape, nonzero_data.dtype)
    result[mask != 0] = nonzero_data
    return result


def constexpr_sparse_to_dense(nonzero_data: Array, mask: Array, shape: Array | None = None) -> Array:
    """The values where the mask is 1, zero elsewhere. iOS 16 (with shape): mask in packed bits."""
    if shape is not None:
        lengths = [int(n) for n in shape]
        flat = unpacked(mask, 1, int(np.prod(lengths, dtype=np.int64)), signed=False)
        mask = flat.reshape(lengths)
    return _dense(nonzero_data, mask)


def constexpr_lut_to_sparse(
    indices_mask: Array, indices_nonzero_data: Array, lut: Array, vector_axis: Any | None = None
) -> tuple[Array, Array]:
    """Mask and values of a sparse tensor whose values are entries of a table."""
    dense = _looked_up(_dense(indices_nonzero_data, indices_mask), lut, vector_axis)
    mask = indices_mask
    if lut.shape[-1] > 1:
        mask = np.repeat(mask, lut.shape[-1], axis=int(vector_axis or 0))
    return mask, dense[mask != 0]


def constexpr_sparse_blockwise_shift_scale(
    data_mask: Array, nonzero_data: Array, scale: Array, offset: Array | None = None
) -> tuple[Array, Array]:
    """Mask and values of a sparse tensor whose values are quantized in blocks."""
    dense = constexpr_blockwise_shift_scale(_dense(nonzero_data, data_mask), scale, offset)
    return data_mask, dense[data_mask != 0]


OPERATORS: Final[Mapping[str, Operator]] = {
    "constexpr_affine_dequantize": constexpr_affine_dequantize,
    "constexpr_blockwise_shift_scale": constexpr_blockwise_shift_scale,
    "constexpr_cast": constexpr_cast,
    "constexpr_lut_to_dense": constexpr_lut_to_dense,
    "constexpr_lut_to_sparse": constexpr_lut_to_sparse,
    "constexpr_sparse_blockwise_shift_scale": constexpr_sparse_blockwise_shift_scale,
    "constexpr_sparse_to_dense": constexpr_sparse_to_dense,
    "dequantize": dequantize,
    "quantize": quantize,
}
