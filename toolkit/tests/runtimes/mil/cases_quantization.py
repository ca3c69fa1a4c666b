"""Cases of quantization and of compressed constants, each held against what MIL's definition says."""

from typing import Any

import numpy as np
import torch
from torch import from_numpy as tensor

from tests.runtimes.mil.building import Array, Case, between, mb, types

X = between(-2, 2, 2, 3, 4)
SCALES = np.array([0.01, 0.02, 0.013], np.float32)
DATA = np.arange(-12, 12, dtype=np.int8).reshape(4, 6)
ONES = np.ones((4, 6), np.float32)


def _times(constant: Any, x: Any) -> Any:
    """A constant as a program's output, through an operation that leaves it as it is."""
    return mb.mul(x=x, y=constant)


def _sub_byte(values: Any, name: str) -> Array:
    return np.array(values).astype(types.nptype_from_builtin(types.string_to_builtin(name)))


_BLOCK_SCALES = np.array([[0.5, 0.25, 2.0], [1.0, 0.125, 4.0]], np.float32)
_GROUPED = np.array([[2, 3], [3, 0], [1, 0], [3, 0], [2, 1], [0, 3]])
_TABLES = np.array([1, 5, 9, 13, 2, 10, 18, 26], np.float32).reshape(2, 1, 4, 1)
_MASK = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0]])
_MASK_BITS = np.array([[0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0]])
_NONZERO = np.array([10, 11, 3, 4, 5, 6, 7, 8, 9], np.int8)
_SPARSE = np.array([[10, 11, 0, 0], [3, 4, 5, 0], [0, 0, 6, 7], [8, 9, 0, 0]], np.float32)
_VECTORS = np.array([1, 2, 3, 4, 5, 6], np.float32).reshape(1, 1, 2, 3)
_BITS = np.array([[0, 0], [1, 0]])

_ACTIVATIONS = [
    Case(
        "quantize",
        {"x": X},
        lambda x: mb.cast(x=mb.quantize(input=x, scale=np.float32(0.01), output_dtype="int8"), dtype="int32"),
        lambda x: (tensor(x) / 0.01).round().clamp(-128, 127).int(),
        "scalar",
        17,
    ),
    Case(
        "quantize",
        {"x": np.array([0.5, 1.5, 2.5, -0.5, 200, -200], np.float32)},
        lambda x: mb.cast(
            x=mb.quantize(input=x, scale=np.float32(1), zero_point=np.uint8(10), output_dtype="uint8"),
            dtype="int32",
        ),
        lambda x: np.array([10, 12, 12, 10, 210, 0]),
        "halves_and_limits",
        17,
    ),
    Case(
        "quantize",
        {"x": X},
        lambda x: mb.cast(
            x=mb.quantize(
                input=x, scale=SCALES, zero_point=np.array([3, 0, -5], np.int8), axis=1, output_dtype="int8"
            ),
            dtype="int32",
        ),
        lambda x: (
            (tensor(x / SCALES[:, None]).round() + torch.tensor([[3], [0], [-5]])).clamp(-128, 127).int()
        ),
        "axis",
        17,
    ),
    Case(
        "dequantize",
        {"x": X},
        lambda x: mb.dequantize(
            input=mb.quantize(input=x, scale=np.float32(0.1), output_dtype="int8"), scale=np.float32(0.1)
        ),
        lambda x: torch.fake_quantize_per_tensor_affine(tensor(x), 0.1, 0, -128, 127),
        "scalar",
        17,
        1e-6,
    ),
    Case(
        "dequantize",
        {"x": X},
        lambda x: mb.dequantize(
            input=mb.quantize(
                input=x, scale=SCALES, zero_point=np.array([3, 0, 5], np.uint8), axis=1, output_dtype="uint8"
            ),
            scale=SCALES,
            zero_point=np.array([3, 0, 5], np.uint8),
            axis=-2,
        ),
        lambda x: torch.fake_quantize_per_channel_affine(
            tensor(x), tensor(SCALES), torch.tensor([3, 0, 5], dtype=torch.int32), 1, 0, 255
        ),
        "axis",
        17,
        1e-6,
    ),
]
_CONSTANTS = [
    Case(
        "constexpr_affine_dequantize",
        {"x": ONES},
        lambda x: _times(
            mb.constexpr_affine_dequantize(
                quantized_data=DATA,
                zero_point=np.array([1, -2, 0, 100], np.int8),
                scale=np.array([0.5, 2, 1, 0.25], np.float32),
                axis=0,
            ),
            x,
        ),
        lambda x: (
            (DATA.astype("f") - np.array([[1], [-2], [0], [100]], "f"))
            * np.array([[0.5], [2], [1], [0.25]], "f")
        ),
        target=16,
        tolerance=0,
    ),
    Case(
        "constexpr_cast",
        {"x": ONES},
        lambda x: _times(
            mb.constexpr_cast(source_val=np.full((4, 6), 0.1, np.float16), output_dtype="fp32"), x
        ),
        lambda x: np.full((4, 6), np.float16(0.1)).astype("f"),
        target=16,
        tolerance=0,
    ),
    Case(
        "constexpr_lut_to_dense",
        {"x": np.ones(5, np.float32)},
        lambda x: _times(
            mb.constexpr_lut_to_dense(
                # The example of MIL's definition: two bits each, the first index in the lowest bits.
                indices=np.array([0b01101100, 0b00000011], np.uint8),
                lut=np.array([1.0, 2.0, 3.0, 4.0], np.float32),
                shape=np.array([5], np.uint32),
            ),
            x,
        ),
        lambda x: np.array([1, 4, 3, 2, 4], "f"),
        "packed",
        16,
        0,
    ),
    Case(
        "constexpr_sparse_to_dense",
        {"x": np.ones(5, np.float32)},
        lambda x: _times(
            mb.constexpr_sparse_to_dense(
                nonzero_data=np.array([3.0, 7.0], np.float32),
                mask=np.array([0b00001100], np.uint8),
                shape=np.array([5], np.uint32),
            ),
            x,
        ),
        lambda x: np.array([0, 0, 3, 7, 0], "f"),
        "packed",
        16,
        0,
    ),
    Case(
        "constexpr_blockwise_shift_scale",
        {"x": ONES},
        lambda x: _times(
            mb.constexpr_blockwise_shift_scale(
                data=DATA, scale=_BLOCK_SCALES, offset=np.array([[1, 0, -3], [0, 5, 0]], np.int8)
            ),
            x,
        ),
        lambda x: (
            (DATA.astype("f") - np.kron(np.array([[1, 0, -3], [0, 5, 0]], "f"), np.ones((2, 2), "f")))
            * np.kron(_BLOCK_SCALES, np.ones((2, 2), "f"))
        ),
        "int8",
        18,
        0,
    ),
    Case(
        "constexpr_blockwise_shift_scale",
        {"x": np.ones((2, 4), np.float32)},
        lambda x: _times(
            mb.constexpr_blockwise_shift_scale(
                data=_sub_byte([[-8, 7, 0, 1], [2, -3, 4, -1]], "int4"),
                scale=np.array([[0.5, 2.0]], np.float32),
            ),
            x,
        ),
        lambda x: np.array([[-4, 3.5, 0, 2], [1, -1.5, 8, -2]], "f"),
        "int4",
        18,
        0,
    ),
    Case(
        "constexpr_lut_to_dense",
        {"x": np.ones((6, 2), np.float32)},
        lambda x: _times(mb.constexpr_lut_to_dense(indices=_sub_byte(_GROUPED, "uint2"), lut=_TABLES), x),
        lambda x: np.array([[9, 13], [13, 1], [5, 1], [26, 2], [18, 10], [2, 26]], "f"),
        "grouped",
        18,
        0,
    ),
    Case(
        "constexpr_lut_to_dense",
        {"x": np.ones((6, 2), np.float32)},
        lambda x: _times(
            mb.constexpr_lut_to_dense(
                indices=_sub_byte(_BITS, "uint1"), lut=_VECTORS, vector_axis=np.int32(0)
            ),
            x,
        ),
        lambda x: np.array([[1, 1], [2, 2], [3, 3], [4, 1], [5, 2], [6, 3]], "f"),
        "vectors",
        18,
        0,
    ),
    Case(
        "constexpr_sparse_to_dense",
        {"x": np.ones((4, 4), np.float32)},
        lambda x: _times(
            mb.constexpr_sparse_to_dense(nonzero_data=_NONZERO.astype("f"), mask=_sub_byte(_MASK, "uint1")), x
        ),
        lambda x: _SPARSE,
        "bits",
        18,
        0,
    ),
    Case(
        "constexpr_sparse_blockwise_shift_scale",
        {"x": np.ones((4, 4), np.float32)},
        lambda x: _times(_sparse_scaled(), x),
        lambda x: np.where(_MASK, (_SPARSE - [1, 2, 3, 4]) * [0.5, 0.25, 2, 4], 0).astype("f"),
        "",
        18,
        0,
    ),
    Case(
        "constexpr_lut_to_sparse",
        {"x": np.ones((4, 4), np.float32)},
        lambda x: _times(_sparse_looked_up(), x),
        lambda x: np.where(_MASK, np.array([5.0, 7.0])[_MASK_BITS], 0).astype("f"),
        "",
        18,
        0,
    ),
]


def _sparse_scaled() -> Any:
    mask, data = mb.constexpr_sparse_blockwise_shift_scale(
        data_mask=_sub_byte(_MASK, "uint1"),
        nonzero_data=_NONZERO,
        scale=np.array([[0.5, 0.25, 2, 4]], np.float32),
        offset=np.array([[1, 2, 3, 4]], np.int8),
    )
    return mb.constexpr_sparse_to_dense(nonzero_data=data, mask=mask)


def _sparse_looked_up() -> Any:
    mask, data = mb.constexpr_lut_to_sparse(
        indices_mask=_sub_byte(_MASK, "uint1"),
        indices_nonzero_data=_sub_byte(_MASK_BITS[_MASK != 0], "uint1"),
        lut=np.array([5.0, 7.0], np.float32).reshape(1, 1, 2, 1),
    )
    return mb.constexpr_sparse_to_dense(nonzero_data=data, mask=mask)


CASES = [*_ACTIVATIONS, *_CONSTANTS]
