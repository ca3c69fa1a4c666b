"""From stored samples to a build's input tensor: steps 7 and 8 of docs/preprocessing.md.

The value map of a channel is elementwise on 256 levels, so a table of 256 values holds it exactly. What a
phone reads is such a table in the build's own dtype; no phone computes y, and none quantizes.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from phoneproof.data.preprocessing import FLOAT_DTYPES, INTEGER_DTYPES, Layout, Preprocess
from phoneproof.data.shapes import shape_advice
from phoneproof.errors import DataError
from phoneproof.protocol.tensors import DTYPE_SIZES, TensorSpec

Array = npt.NDArray[Any]

QUANTIZED_DTYPES: Final = ("int8", "uint8", "int16", "uint16")


def value_map(preprocess: Preprocess) -> npt.NDArray[np.float64]:
    """float64 [channels, 256]: y = (x * scale - mean[c]) / std[c], each operation rounded to float64."""
    levels = np.arange(256, dtype=np.float64)
    mean = np.array(preprocess.mean)[:, np.newaxis]
    std = np.array(preprocess.std)[:, np.newaxis]
    mapped: npt.NDArray[np.float64] = (levels[np.newaxis, :] * preprocess.scale - mean) / std
    return mapped


def value_table(preprocess: Preprocess, tensor: TensorSpec) -> Array:
    """[channels, 256] in `tensor.dtype`: what each stored level becomes in the build's input.

    A float tensor takes y rounded once to its dtype; a quantized one (scale and zero_point given) takes
    `quantize` of y rounded to float32; a plain integer one, which must have the preprocess's dtype, takes y
    rounded half to even and saturated.
    Raises DataError where only a raw cast would connect the two (an int8 tensor without scale and the like),
    and for a y that its float dtype cannot hold.
    """
    y = value_map(preprocess)
    where = f"input {tensor.name!r}"
    if is_quantized(tensor):
        if preprocess.dtype not in FLOAT_DTYPES:
            raise DataError(
                f"The preprocess gives {preprocess.dtype}, but a quantized input takes real values.",
                where=where,
                next_step="Set preprocess.dtype to the float dtype of the source model's input.",
            )
        return quantize(_rounded(y, "float32", where), tensor)
    both_float = tensor.dtype in FLOAT_DTYPES and preprocess.dtype in FLOAT_DTYPES
    if both_float:
        return _rounded(y, tensor.dtype, where)
    if tensor.dtype not in INTEGER_DTYPES or tensor.dtype != preprocess.dtype:
        raise DataError(
            f"A {tensor.dtype} input without scale and zero_point cannot take {preprocess.dtype} values.",
            where=where,
            next_step="Give the input's scale and zero_point, or set preprocess.dtype to its dtype.",
        )
    limits = np.iinfo(tensor.dtype)
    table: Array = np.clip(np.rint(y), limits.min, limits.max).astype(tensor.dtype)
    return table


def layout_of(tensor: TensorSpec, preprocess: Preprocess) -> Layout:
    """How an input of images is laid out: as declared where that fits its shape, else the other way.

    One network can have forms of both layouts (PyTorch and Keras), and a preprocess declares one.
    DataError where neither axis, the second or the last, has as many elements as an image has channels.
    """
    axes = {Layout.NCHW: 1, Layout.NHWC: 3}
    for layout in (preprocess.layout, *axes):
        if len(tensor.shape) == 4 and tensor.shape[axes[layout]] == preprocess.channels:
            return layout
    raise DataError(
        f"Images with {preprocess.channels} channels do not fit the input {list(tensor.shape)}.",
        where=f"input {tensor.name!r}",
        next_step="Set [data.preprocess] mode to what the model takes.",
    )


def is_quantized(tensor: TensorSpec) -> bool:
    """Whether real values reach the tensor by scale and zero_point. DataError where the two do not fit."""
    if tensor.scale is None and tensor.zero_point is None:
        return False
    where = f"input {tensor.name!r}"
    if tensor.scale is None or tensor.zero_point is None:
        raise DataError("A scale and a zero_point are given together or not at all.", where=where)
    if tensor.dtype not in QUANTIZED_DTYPES:
        raise DataError(f"A {tensor.dtype} input has no scale and zero_point.", where=where)
    scale = np.float32(tensor.scale)
    limits = np.iinfo(tensor.dtype)
    if not (np.isfinite(scale) and scale > 0):
        raise DataError(f"A scale of {tensor.scale!r} is not a positive float32.", where=where)
    if not limits.min <= tensor.zero_point <= limits.max:
        raise DataError(f"A zero_point of {tensor.zero_point} is outside {tensor.dtype}.", where=where)
    return True


def quantize(values: npt.NDArray[np.float32], tensor: TensorSpec) -> Array:
    """ONNX QuantizeLinear: saturate(round_half_even(x / scale) + zero_point), the division in float32.

    Infinities saturate; NaN has no integer and raises DataError.
    """
    if not is_quantized(tensor) or tensor.scale is None or tensor.zero_point is None:
        raise DataError(
            f"The {tensor.dtype} input has no scale and zero_point.", where=f"input {tensor.name!r}"
        )
    if bool(np.isnan(values).any()):
        raise DataError("NaN cannot be quantized.", where=f"input {tensor.name!r}")
    limits = np.iinfo(tensor.dtype)
    with np.errstate(over="ignore"):  # an overflow to infinity saturates below, as it does in ONNX
        steps = np.rint(values.astype(np.float32) / np.float32(tensor.scale)).astype(np.float64)
    quantized: Array = np.clip(steps + tensor.zero_point, limits.min, limits.max).astype(tensor.dtype)
    return quantized


def apply(pixels: npt.NDArray[np.uint8], table: Array, layout: Layout) -> Array:
    """Pixels mapped through `table` and laid out: [..., H, W, C] to [..., H, W, C] or [..., C, H, W].

    pixels: uint8, any number of leading dimensions. table: [C, 256]. The result has the table's dtype.
    """
    if pixels.dtype != np.uint8 or pixels.ndim < 3 or table.shape != (pixels.shape[-1], 256):
        raise DataError(
            f"Pixels {pixels.dtype} {list(pixels.shape)} do not fit a table of shape {list(table.shape)}."
        )
    *leading, height, width, channels = pixels.shape
    nchw = layout is Layout.NCHW
    shape = (*leading, channels, height, width) if nchw else pixels.shape
    out = np.empty(shape, table.dtype)
    for channel in range(channels):
        plane = table[channel][pixels[..., channel]]
        if nchw:
            out[..., channel, :, :] = plane
        else:
            out[..., channel] = plane
    return out


def as_input(
    stored: Array, tensor: TensorSpec, table: Array | None = None, layout: Layout | None = None
) -> Array:
    """Stored samples [n, ...] as the values of a build's input: `tensor.dtype`, [n, *tensor.sample_shape].

    With a table (encoding `u8+table`): stored is uint8 [n, H, W, C] and `layout` is the tensor's. Without
    (encoding `raw`): stored has the tensor's dtype and shape already, or is float32 for a quantized tensor,
    which is then quantized. Anything else would be a raw cast and raises DataError.
    """
    where = f"input {tensor.name!r}"
    if table is not None:
        if table.dtype != np.dtype(tensor.dtype) or layout is None:
            raise DataError(f"The table is {table.dtype} and the input {tensor.dtype}.", where=where)
        values = apply(stored, table, layout)
    elif stored.dtype == np.dtype(tensor.dtype):
        values = stored
    elif stored.dtype == np.float32 and is_quantized(tensor):
        values = quantize(stored, tensor)
    else:
        raise DataError(
            f"Stored {stored.dtype} values cannot become {tensor.dtype} by a raw cast.",
            where=where,
            next_step="Give the input's scale and zero_point, or data in its own dtype.",
        )
    if values.shape[1:] != tensor.sample_shape:
        raise DataError(
            f"Samples have the shape {list(values.shape[1:])}, the input takes {list(tensor.sample_shape)}.",
            where=where,
        )
    return values


def input_array(value: Array, tensor: TensorSpec) -> Array:
    """One given array as a sample of `tensor`, without its batch dimension, little-endian, ready to store.

    Taken are the tensor's own shape after the batch dimension, or with a leading batch of 1; its own dtype;
    float64 (rounded once) and float16 for float32; other integers, and truths as 0 and 1, that an integer
    dtype holds; and float32 or float64 for a quantized tensor, quantized. Any other dtype or shape raises
    DataError: integers are never cast to float, since unscaled pixels hide there.
    """
    where = f"input {tensor.name!r}"
    value = value.astype(value.dtype.newbyteorder("="), copy=False)
    if value.ndim == len(tensor.sample_shape) + 1 and value.shape[0] == 1:
        value = value[0]
    if value.shape != tensor.sample_shape:
        raise DataError(
            f"A sample has the shape {list(value.shape)}, the input takes {list(tensor.sample_shape)}.",
            where=where,
            next_step=shape_advice(value.shape, tensor.sample_shape),
        )
    if value.dtype == np.float64 and (tensor.dtype == "float32" or is_quantized(tensor)):
        with np.errstate(over="ignore"):  # becomes infinity, which the checks of the set report
            value = value.astype(np.float32)
    if value.dtype == np.float32 and is_quantized(tensor):
        value = quantize(value, tensor)
    if value.dtype == np.float16 and tensor.dtype == "float32":
        value = value.astype(np.float32)
    if value.dtype.kind in "iub" and tensor.dtype in (*INTEGER_DTYPES, "int64") and not is_quantized(tensor):
        value = _narrowed(value, tensor, where)
    if tensor.dtype not in DTYPE_SIZES or value.dtype != np.dtype(tensor.dtype):
        raise DataError(
            f"A sample is {value.dtype}, the input takes {tensor.dtype}.",
            where=where,
            next_step="Convert the data, or declare a preprocess if it holds pixels.",
        )
    return np.asarray(value, dtype=np.dtype(tensor.dtype).newbyteorder("<"), order="C")


def _narrowed(value: Array, tensor: TensorSpec, where: str) -> Array:
    """Integers in the tensor's own integer dtype: PyTorch counts tokens in int64, phones in int32."""
    limits = np.iinfo(tensor.dtype)
    if value.size and not limits.min <= int(value.min()) <= int(value.max()) <= limits.max:
        raise DataError(
            f"A sample holds {int(value.min())} to {int(value.max())}, which {tensor.dtype} cannot hold.",
            where=where,
            next_step="Check the data, or use a source model that takes smaller integers.",
        )
    narrowed: Array = value.astype(tensor.dtype)
    return narrowed


def _rounded(y: npt.NDArray[np.float64], dtype: str, where: str) -> Array:
    with np.errstate(over="ignore"):
        rounded: Array = y.astype(dtype)
    if not bool(np.isfinite(rounded).all()):
        raise DataError(
            f"Scale, mean and std give values that {dtype} cannot hold.",
            where=where,
            next_step="Check preprocess.scale, mean and std.",
        )
    return rounded
