"""Cases of convolutions, products, pools, normalizations and recurrent operators."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as nn
from torch import from_numpy as tensor

from tests.runtimes.mil.building import Array, Case, between, integers, mb, normal

IMAGE = normal(2, 4, 9, 10)
LINE = normal(2, 4, 11)
CUBE = normal(1, 2, 5, 6, 4)
KERNEL, BIAS = normal(6, 4, 3, 3) / 4, normal(6)
GROUPED = normal(6, 2, 3, 3) / 4
TRANSPOSED = normal(4, 3, 3, 4) / 4


def _same(x: torch.Tensor, kernel: int, stride: int, lower: bool = False) -> torch.Tensor:
    """x with the padding of TensorFlow's SAME, written down independently for square kernels."""
    pads: list[int] = []
    for length in reversed(x.shape[2:]):
        total = max(0, (-(-length // stride) - 1) * stride + kernel - length)
        less, more = total // 2, (total + 1) // 2
        pads += [more, less] if lower else [less, more]
    return nn.pad(x, pads)


def _transposed_same(x: Array) -> torch.Tensor:
    """Stride 2, kernel 3 x 4: the whole output is 19 x 22 and 18 x 20 stays."""
    whole = nn.conv_transpose2d(tensor(x), tensor(TRANSPOSED), stride=2)
    return whole[:, :, 0:18, 1:21]


_CONVOLUTIONS = [
    Case(
        "conv",
        {"x": IMAGE},
        lambda x: mb.conv(x=x, weight=KERNEL, bias=BIAS, strides=[2, 1], dilations=[1, 2]),
        lambda x: nn.conv2d(tensor(x), tensor(KERNEL), tensor(BIAS), (2, 1), 0, (1, 2)),
        "strides_dilations",
    ),
    Case(
        "conv",
        {"x": IMAGE},
        lambda x: mb.conv(x=x, weight=GROUPED, pad_type="custom", pad=[1, 2, 0, 3], groups=2),
        lambda x: nn.conv2d(nn.pad(tensor(x), (0, 3, 1, 2)), tensor(GROUPED), groups=2),
        "groups_pad",
    ),
    Case(
        "conv",
        {"x": IMAGE},
        lambda x: mb.conv(x=x, weight=KERNEL, pad_type="same", strides=[2, 2]),
        lambda x: nn.conv2d(_same(tensor(x), 3, 2), tensor(KERNEL), stride=2),
        "same",
    ),
    Case(
        "conv",
        {"x": IMAGE},
        lambda x: mb.conv(x=x, weight=KERNEL, pad_type="same_lower", strides=[2, 2]),
        lambda x: nn.conv2d(_same(tensor(x), 3, 2, lower=True), tensor(KERNEL), stride=2),
        "same_lower",
        16,
    ),
    Case(
        "conv",
        {"x": LINE},
        lambda x: mb.conv(x=x, weight=KERNEL[:, :, 0], bias=BIAS),
        lambda x: nn.conv1d(tensor(x), tensor(KERNEL[:, :, 0]), tensor(BIAS)),
        "one_axis",
    ),
    Case(
        "conv",
        {"x": CUBE},
        lambda x: mb.conv(x=x, weight=KERNEL.reshape(6, 2, 2, 3, 3), pad_type="custom", pad=[1] * 6),
        lambda x: nn.conv3d(tensor(x), tensor(KERNEL.reshape(6, 2, 2, 3, 3)), padding=1),
        "three_axes",
    ),
    Case(
        "conv",
        {"x": IMAGE, "w": KERNEL},
        lambda x, w: mb.conv(x=x, weight=w),
        lambda x, w: nn.conv2d(tensor(x), tensor(w)),
        "weight_as_input",
    ),
    Case(
        "conv_transpose",
        {"x": IMAGE},
        lambda x: mb.conv_transpose(x=x, weight=TRANSPOSED, bias=BIAS[:3], strides=[2, 3], dilations=[2, 1]),
        lambda x: nn.conv_transpose2d(
            tensor(x), tensor(TRANSPOSED), tensor(BIAS[:3]), stride=(2, 3), dilation=(2, 1)
        ),
    ),
    Case(
        "conv_transpose",
        {"x": IMAGE},
        lambda x: mb.conv_transpose(
            x=x, weight=TRANSPOSED, pad_type="custom", pad=[1, 1, 2, 2], strides=[2, 2], groups=2
        ),
        lambda x: nn.conv_transpose2d(tensor(x), tensor(TRANSPOSED), stride=2, padding=(1, 2), groups=2),
        "pad_groups",
    ),
    Case(
        "conv_transpose",
        {"x": IMAGE},
        lambda x: mb.conv_transpose(
            x=x,
            weight=TRANSPOSED,
            bias=BIAS[:3],
            pad_type="custom",
            pad=[1, 1, 1, 1],
            strides=[2, 2],
            output_shape=[2, 3, 18, 21],
        ),
        lambda x: nn.conv_transpose2d(
            tensor(x), tensor(TRANSPOSED), tensor(BIAS[:3]), stride=2, padding=1, output_padding=(1, 1)
        ),
        "output_shape",
    ),
    Case(
        "conv_transpose",
        {"x": IMAGE},
        lambda x: mb.conv_transpose(x=x, weight=TRANSPOSED, pad_type="same", strides=[2, 2]),
        _transposed_same,
        "same",
    ),
    Case(
        "conv_transpose",
        {"x": LINE},
        lambda x: mb.conv_transpose(x=x, weight=TRANSPOSED[:, :, 0], strides=[3]),
        lambda x: nn.conv_transpose1d(tensor(x), tensor(TRANSPOSED[:, :, 0]), stride=3),
        "one_axis",
    ),
]
_WEIGHT = normal(6, 5)
_PRODUCTS = [
    Case(
        "linear",
        {"x": normal(2, 3, 5)},
        lambda x: mb.linear(x=x, weight=_WEIGHT, bias=BIAS),
        lambda x: nn.linear(tensor(x), tensor(_WEIGHT), tensor(BIAS)),
    ),
    Case(
        "matmul",
        {"x": normal(3, 1, 4, 5), "y": normal(2, 6, 5)},
        lambda x, y: mb.matmul(x=x, y=y, transpose_y=True),
        lambda x, y: tensor(x) @ tensor(y).mT,
    ),
    Case(
        "matmul",
        {"x": integers(-9, 9, 3, 4), "y": integers(-9, 9, 4, 2)},
        lambda x, y: mb.matmul(x=x, y=y),
        lambda x, y: tensor(x) @ tensor(y),
        "int",
    ),
    Case(
        "einsum",
        {"x": normal(2, 3, 4, 5), "y": normal(2, 5, 4, 6)},
        lambda x, y: mb.einsum(values=(x, y), equation="nchw,nwhu->nchu"),
        lambda x, y: torch.einsum("nchw,nwhu->nchu", tensor(x), tensor(y)),
    ),
]
_QKV = {"q": normal(2, 3, 4, 8), "k": normal(2, 3, 5, 8), "v": normal(2, 3, 5, 6)}
_ATTENTION = [
    Case(
        "scaled_dot_product_attention",
        _QKV,
        lambda q, k, v: mb.scaled_dot_product_attention(query=q, key=k, value=v),
        lambda q, k, v: nn.scaled_dot_product_attention(tensor(q), tensor(k), tensor(v)),
        "no_mask",
        18,
    ),
    Case(
        "scaled_dot_product_attention",
        {**_QKV, "m": normal(4, 5)},
        lambda q, k, v, m: mb.scaled_dot_product_attention(query=q, key=k, value=v, attn_mask=m),
        lambda q, k, v, m: nn.scaled_dot_product_attention(tensor(q), tensor(k), tensor(v), tensor(m)),
        "float_mask",
        18,
    ),
    Case(
        "scaled_dot_product_attention",
        {**_QKV, "m": np.tril(np.ones((4, 5), np.int32))},
        lambda q, k, v, m: mb.scaled_dot_product_attention(
            query=q, key=k, value=v, attn_mask=mb.cast(x=m, dtype="bool")
        ),
        lambda q, k, v, m: nn.scaled_dot_product_attention(tensor(q), tensor(k), tensor(v), tensor(m) != 0),
        "bool_mask",
        18,
    ),
]


def _pool(name: str, kind: str, x: Array, options: dict[str, Any], expected: Any, target: int = 15) -> Case:
    return Case(
        name,
        {"x": x},
        lambda x: getattr(mb, name)(x=x, **options),
        lambda x: expected(tensor(x)),
        kind,
        target,
    )


_PAD = {"kernel_sizes": [3, 2], "strides": [2, 2], "pad_type": "custom", "pad": [1, 1, 1, 1]}
_CEIL = {**_PAD, "ceil_mode": True}
_SAME = {"kernel_sizes": [3, 3], "strides": [2, 2], "pad_type": "same"}
_POOLS = [
    _pool("max_pool", "pad", IMAGE, _PAD, lambda x: nn.max_pool2d(x, (3, 2), 2, 1)),
    _pool("max_pool", "ceil", IMAGE, _CEIL, lambda x: nn.max_pool2d(x, (3, 2), 2, 1, ceil_mode=True)),
    _pool(
        "max_pool",
        "same",
        -np.abs(IMAGE),
        _SAME,
        lambda x: nn.max_pool2d(_same(x + 100, 3, 2), 3, 2) - 100,
    ),
    _pool(
        "max_pool",
        "one_axis",
        LINE,
        {"kernel_sizes": [3], "pad_type": "valid"},
        lambda x: nn.max_pool1d(x, 3, 1),
    ),
    _pool(
        "max_pool",
        "three_axes",
        CUBE,
        {"kernel_sizes": [2, 2, 2], "strides": [2, 2, 2], "pad_type": "valid"},
        lambda x: nn.max_pool3d(x, 2, 2),
    ),
    _pool("avg_pool", "pad", IMAGE, _PAD, lambda x: nn.avg_pool2d(x, (3, 2), 2, 1)),
    _pool(
        "avg_pool",
        "excluded",
        IMAGE,
        {**_PAD, "exclude_padding_from_average": True},
        lambda x: nn.avg_pool2d(x, (3, 2), 2, 1, count_include_pad=False),
    ),
    _pool("avg_pool", "ceil", IMAGE, _CEIL, lambda x: nn.avg_pool2d(x, (3, 2), 2, 1, ceil_mode=True)),
    _pool(
        "avg_pool",
        "ceil_excluded",
        IMAGE,
        {**_CEIL, "exclude_padding_from_average": True},
        lambda x: nn.avg_pool2d(x, (3, 2), 2, 1, ceil_mode=True, count_include_pad=False),
    ),
    _pool("avg_pool", "same", IMAGE, _SAME, lambda x: nn.avg_pool2d(_same(x, 3, 2), 3, 2)),
    _pool(
        "avg_pool",
        "same_lower",
        IMAGE,
        {**_SAME, "pad_type": "same_lower"},
        lambda x: nn.avg_pool2d(_same(x, 3, 2, lower=True), 3, 2),
        16,
    ),
    _pool("l2_pool", "pad", IMAGE, _PAD, lambda x: (nn.avg_pool2d(x**2, (3, 2), 2, 1) * 6).sqrt()),
]
_MEAN, _VARIANCE = normal(4), between(0.5, 2, 4)
_GAMMA, _BETA = normal(4), normal(4)
_NORMS = [
    Case(
        "batch_norm",
        {"x": IMAGE},
        lambda x: mb.batch_norm(x=x, mean=_MEAN, variance=_VARIANCE, gamma=_GAMMA, beta=_BETA, epsilon=1e-3),
        lambda x: nn.batch_norm(
            tensor(x), tensor(_MEAN), tensor(_VARIANCE), tensor(_GAMMA), tensor(_BETA), eps=1e-3
        ),
    ),
    Case(
        "instance_norm",
        {"x": IMAGE},
        lambda x: mb.instance_norm(x=x, gamma=_GAMMA, beta=_BETA, epsilon=1e-3),
        lambda x: nn.instance_norm(tensor(x), weight=tensor(_GAMMA), bias=tensor(_BETA), eps=1e-3),
    ),
    Case(
        "layer_norm",
        {"x": normal(3, 5, 4)},
        lambda x: mb.layer_norm(x=x, axes=[-1], gamma=_GAMMA, beta=_BETA, epsilon=1e-3),
        lambda x: nn.layer_norm(tensor(x), (4,), tensor(_GAMMA), tensor(_BETA), 1e-3),
    ),
    Case(
        "layer_norm",
        {"x": normal(3, 5, 4)},
        lambda x: mb.layer_norm(x=x, axes=[1, 2]),
        lambda x: nn.layer_norm(tensor(x), (5, 4)),
        "two_axes",
    ),
    Case(
        "l2_norm",
        {"x": IMAGE},
        lambda x: mb.l2_norm(x=x, epsilon=1e-3),
        lambda x: tensor(x) / (tensor(x).square().sum((1, 2, 3), keepdim=True) + 1e-3).sqrt(),
    ),
    Case(
        "local_response_norm",
        {"x": IMAGE},
        lambda x: mb.local_response_norm(x=x, size=3, alpha=0.5, beta=0.6, k=2.0),
        lambda x: nn.local_response_norm(tensor(x), 3, 0.5, 0.6, 2.0),
    ),
]
CASES = [*_CONVOLUTIONS, *_PRODUCTS, *_ATTENTION, *_POOLS, *_NORMS]
