"""Convolutions, matrix products, pools and normalizations of MIL; parameters and defaults as MIL names them.

Shapes: x is [batch, channels, *spatial] with one to three spatial axes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as nn

from phoneproof.runtimes.mil.operators_elementwise import as_torch
from phoneproof.runtimes.mil.types import Array

Operator = Callable[..., Any]
Pads = list[tuple[int, int]]


def _ints(values: Array | None, default: int, count: int) -> list[int]:
    return [default] * count if values is None else [int(v) for v in values]


def pads_of(
    pad_type: str, pad: Array | None, spatial: Sequence[int], window: Sequence[int], strides: Sequence[int]
) -> Pads:
    """Elements to add before and after each spatial axis. window: length of the kernel with its dilation.

    `same` gives ceil(length / stride) outputs, an odd element after; `same_lower` puts it before.
    """
    if pad_type == "valid":
        return [(0, 0)] * len(spatial)
    if pad_type == "custom":
        amounts = _ints(pad, 0, 2 * len(spatial))
        return list(zip(amounts[::2], amounts[1::2], strict=True))
    if pad_type not in ("same", "same_lower"):
        raise ValueError(f"there is no pad_type {pad_type!r}")
    pads = []
    for length, size, stride in zip(spatial, window, strides, strict=True):
        total = max(0, stride * math.ceil(length / stride) - length + size - stride)
        less, more = total // 2, total - total // 2
        pads.append((less, more) if pad_type == "same" else (more, less))
    return pads


def _padded(x: torch.Tensor, pads: Pads, value: float = 0.0) -> torch.Tensor:
    amounts = [amount for before_after in reversed(pads) for amount in before_after]
    return nn.pad(x, amounts, value=value) if any(amounts) else x


def conv(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    strides: Array | None = None,
    pad_type: str = "valid",
    pad: Array | None = None,
    dilations: Array | None = None,
    groups: Any = 1,
) -> Array:
    """Convolution (cross-correlation). weight: [channels out, channels in / groups, *kernel]."""
    count = x.ndim - 2
    stride, dilation = _ints(strides, 1, count), _ints(dilations, 1, count)
    window = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilation, strict=True)]
    padded = _padded(as_torch(x), pads_of(pad_type, pad, x.shape[2:], window, stride))
    function = (nn.conv1d, nn.conv2d, nn.conv3d)[count - 1]
    offset = None if bias is None else as_torch(bias)
    result: Array = function(padded, as_torch(weight), offset, stride, 0, dilation, int(groups)).numpy()
    return result


def conv_transpose(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    pad: Array | None = None,
    output_shape: Array | None = None,
    pad_type: str = "valid",
    strides: Array | None = None,
    dilations: Array | None = None,
    groups: Any = 1,
) -> Array:
    """Transposed convolution. weight: [channels in, channels out / groups, *kernel].

    The whole output is computed and then cut: by pad, or for `same` to length * stride, an odd element more
    after than before; an output_shape may reach beyond it, into zeros and the bias.
    """
    count = x.ndim - 2
    stride, dilation = _ints(strides, 1, count), _ints(dilations, 1, count)
    function = (nn.conv_transpose1d, nn.conv_transpose2d, nn.conv_transpose3d)[count - 1]
    whole = function(as_torch(x), as_torch(weight), None, stride, 0, 0, int(groups), dilation)
    wanted = None if output_shape is None else [int(n) for n in output_shape][2:]
    cuts = _transpose_cuts(list(whole.shape[2:]), list(x.shape[2:]), stride, pad_type, pad, wanted)
    result = _padded(whole, [(-before, -after) for before, after in cuts])
    if bias is not None:
        result = result + as_torch(bias).reshape(-1, *[1] * count)
    cut: Array = result.numpy()
    return cut


def _transpose_cuts(
    whole: list[int],
    spatial: list[int],
    stride: list[int],
    pad_type: str,
    pad: Array | None,
    wanted: list[int] | None,
) -> Pads:
    """Elements to cut off before and after each axis of the whole output; negative to add some."""
    if pad_type in ("same", "same_lower"):
        lengths = wanted or [n * s for n, s in zip(spatial, stride, strict=True)]
        totals = [w - n for w, n in zip(whole, lengths, strict=True)]
        return [(t // 2, t - t // 2) if pad_type == "same" else (t - t // 2, t // 2) for t in totals]
    cuts = pads_of(pad_type, pad, spatial, spatial, stride)
    if wanted is None:
        return cuts
    return [(before, w - before - n) for (before, _), w, n in zip(cuts, whole, wanted, strict=True)]


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """x times weight transposed, plus bias. weight: [out, in]."""
    result: Array = nn.linear(as_torch(x), as_torch(weight), None if bias is None else as_torch(bias)).numpy()
    return result


def matmul(x: Array, y: Array, transpose_x: Any = False, transpose_y: Any = False) -> Array:
    """Matrix product with numpy's broadcasting of the leading axes."""
    left = np.swapaxes(x, -1, -2) if bool(transpose_x) and x.ndim > 1 else x
    right = np.swapaxes(y, -1, -2) if bool(transpose_y) and y.ndim > 1 else y
    if np.issubdtype(x.dtype, np.integer):
        return np.asarray(np.matmul(left, right))
    result: Array = torch.matmul(as_torch(left), as_torch(right)).numpy()
    return result


def einsum(values: tuple[Array, ...], equation: str) -> Array:
    """Sum of products by Einstein's notation."""
    result: Array = torch.einsum(equation, *(as_torch(v) for v in values)).numpy()
    return result


def scaled_dot_product_attention(
    query: Array, key: Array, value: Array, attn_mask: Array | None = None
) -> Array:
    """softmax(query key^T / sqrt(E) + mask) value; a boolean mask keeps what is true.

    query: [*batch, L, E]; key: [*batch, S, E]; value: [*batch, S, EV]; mask: broadcast to [*batch, L, S].
    """
    products = torch.matmul(as_torch(query), as_torch(key).transpose(-1, -2))
    scores = products / math.sqrt(query.shape[-1])
    if attn_mask is not None:
        mask = as_torch(attn_mask)
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    result: Array = torch.matmul(torch.softmax(scores, -1), as_torch(value)).numpy()
    return result


def _windows(
    x: Array,
    kernel_sizes: Array,
    strides: Array | None,
    pad_type: str,
    pad: Array | None,
    ceil_mode: Any,
) -> tuple[list[int], list[int], Pads]:
    """Kernel, strides and pads of a pool; with ceil_mode the last window reaches beyond the end."""
    kernel = [int(k) for k in kernel_sizes]
    stride = _ints(strides, 1, len(kernel))
    pads = pads_of(pad_type, pad, x.shape[2:], kernel, stride)
    if bool(ceil_mode):
        longer = []
        for length, size, step, (before, after) in zip(x.shape[2:], kernel, stride, pads, strict=True):
            windows = (length + before + after - size + step - 1) // step + 1
            if (windows - 1) * step >= length + before and before + after > 0:
                windows -= 1
            longer.append((before, max(after, (windows - 1) * step + size - length - before)))
        pads = longer
    return kernel, stride, pads


def max_pool(
    x: Array,
    kernel_sizes: Array,
    strides: Array | None = None,
    pad_type: str = "valid",
    pad: Array | None = None,
    ceil_mode: Any = False,
) -> Array:
    """Largest element of each window; padding is never the largest."""
    kernel, stride, pads = _windows(x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    function = (nn.max_pool1d, nn.max_pool2d, nn.max_pool3d)[len(kernel) - 1]
    result: Array = function(_padded(as_torch(x), pads, -math.inf), kernel, stride).numpy()
    return result


def _sums(x: torch.Tensor, kernel: list[int], stride: list[int], pads: Pads) -> torch.Tensor:
    function = (nn.avg_pool1d, nn.avg_pool2d, nn.avg_pool3d)[len(kernel) - 1]
    means: torch.Tensor = function(_padded(x, pads), kernel, stride)
    return means * math.prod(kernel)


def avg_pool(
    x: Array,
    kernel_sizes: Array,
    strides: Array | None = None,
    pad_type: str = "valid",
    pad: Array | None = None,
    exclude_padding_from_average: Any = False,
    ceil_mode: Any = False,
) -> Array:
    """Mean of each window. What ceil_mode adds at the end is never counted; padding is, unless excluded.

    That is torch's rule, whose ceil_mode MIL takes over.
    """
    kernel, stride, pads = _windows(x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    ones = torch.ones(1, 1, *x.shape[2:])
    counted = pads
    if not bool(exclude_padding_from_average):
        declared = pads_of(pad_type, pad, x.shape[2:], kernel, stride)
        ones = _padded(ones, declared, 1.0)
        counted = [(0, after - before) for (_, after), (_, before) in zip(pads, declared, strict=True)]
    result: Array = (_sums(as_torch(x), kernel, stride, pads) / _sums(ones, kernel, stride, counted)).numpy()
    return result


def l2_pool(
    x: Array,
    kernel_sizes: Array,
    strides: Array | None = None,
    pad_type: str = "valid",
    pad: Array | None = None,
    ceil_mode: Any = False,
) -> Array:
    """Root of the sum of squares of each window."""
    kernel, stride, pads = _windows(x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    result: Array = torch.sqrt(_sums(as_torch(np.square(x)), kernel, stride, pads)).numpy()
    return result


def _along_channels(values: Array | None, rank: int, default: float) -> Array:
    if values is None:
        return np.array(default, np.float32)
    return values.reshape(-1, *[1] * (rank - 2))


def batch_norm(
    x: Array,
    mean: Array,
    variance: Array,
    gamma: Array | None = None,
    beta: Array | None = None,
    epsilon: Any = 1e-5,
) -> Array:
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta, with one of each for every channel."""
    scale = _along_channels(gamma, x.ndim, 1) / np.sqrt(_along_channels(variance, x.ndim, 1) + epsilon)
    centred = x - _along_channels(mean, x.ndim, 0)
    return np.asarray(centred * scale + _along_channels(beta, x.ndim, 0))


def _normalized(x: Array, axes: tuple[int, ...], epsilon: Any) -> Array:
    centred = x - np.mean(x, axis=axes, keepdims=True)
    variance = np.mean(np.square(centred), axis=axes, keepdims=True)
    return np.asarray(centred / np.sqrt(variance + np.float32(epsilon)))


def instance_norm(
    x: Array, gamma: Array | None = None, beta: Array | None = None, epsilon: Any = 1e-5
) -> Array:
    """Each channel of each image to mean 0 and variance 1, then gamma and beta of the channel."""
    normal = _normalized(x, tuple(range(2, x.ndim)), epsilon)
    return normal * _along_channels(gamma, x.ndim, 1) + _along_channels(beta, x.ndim, 0)


def layer_norm(
    x: Array,
    axes: Array | None = None,
    gamma: Array | None = None,
    beta: Array | None = None,
    epsilon: Any = 1e-5,
) -> Array:
    """x to mean 0 and variance 1 over axes. gamma and beta: of the lengths of those axes, in order."""
    given = range(x.ndim) if axes is None else np.atleast_1d(axes)
    over = tuple(sorted(int(a) % x.ndim for a in given))
    shape = [x.shape[i] if i in over else 1 for i in range(x.ndim)]
    normal = _normalized(x, over, epsilon)
    if gamma is not None:
        normal = normal * gamma.reshape(shape)
    return normal if beta is None else normal + beta.reshape(shape)


def l2_norm(x: Array, epsilon: Any = 1e-6) -> Array:
    """x over sqrt(sum of squares + epsilon), the sum over the last three axes."""
    total = np.sum(np.square(x), axis=(-3, -2, -1), keepdims=True)
    return np.asarray(x / np.sqrt(total + np.float32(epsilon)))


def local_response_norm(x: Array, size: Any, alpha: Any = 1e-4, beta: Any = 0.75, k: Any = 1.0) -> Array:
    """x over (k + alpha / size * sum of squares of `size` neighbouring channels) ** beta."""
    result: Array = nn.local_response_norm(
        as_torch(x), int(size), float(alpha), float(beta), float(k)
    ).numpy()
    return result


OPERATORS: Final[Mapping[str, Operator]] = {
    "avg_pool": avg_pool,
    "batch_norm": batch_norm,
    "conv": conv,
    "conv_transpose": conv_transpose,
    "einsum": einsum,
    "instance_norm": instance_norm,
    "l2_norm": l2_norm,
    "l2_pool": l2_pool,
    "layer_norm": layer_norm,
    "linear": linear,
    "local_response_norm": local_response_norm,
    "matmul": matmul,
    "max_pool": max_pool,
    "scaled_dot_product_attention": scaled_dot_product_attention,
}
