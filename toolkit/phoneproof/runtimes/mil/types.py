"""The tensor types of MIL and how this interpreter holds their values.

A float16 value is held in a float32 array in which every element is a float16 number: an operator computes
in float32 and its result is rounded once to float16. MIL defines what an operator computes, not in which
order or width it accumulates. One rounding per operator is the most exact float16 arithmetic that the types
allow; rounding inside an operator would model one unit of one device and be wrong for the others.
Integers below eight bits are held in int8 and uint8 arrays.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]

PROTO_DTYPES: Final[dict[int, str]] = {
    1: "bool",
    2: "string",
    10: "fp16",
    11: "fp32",
    12: "fp64",
    21: "int8",
    22: "int16",
    23: "int32",
    24: "int64",
    25: "int4",
    31: "uint8",
    32: "uint16",
    33: "uint32",
    34: "uint64",
    35: "uint4",
    36: "uint2",
    37: "uint1",
    38: "uint6",
    39: "uint3",
}
"""Name of each value of MIL.proto's DataType that can be read here (not bfloat16 and the float8 types)."""

_HELD: Final[dict[str, DTypeLike]] = {
    "bool": np.bool_,
    "fp16": np.float32,
    "fp32": np.float32,
    "fp64": np.float64,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "int4": np.int8,
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "uint4": np.uint8,
    "uint2": np.uint8,
    "uint1": np.uint8,
    "uint6": np.uint8,
    "uint3": np.uint8,
}
SUB_BYTE_BITS: Final[dict[str, int]] = {"int4": 4, "uint1": 1, "uint2": 2, "uint3": 3, "uint4": 4, "uint6": 6}


@dataclass(frozen=True)
class TensorType:
    """dtype: MIL's name of it. shape: None for a length that is only known when the program runs."""

    dtype: str
    shape: tuple[int | None, ...]

    def admits(self, shape: tuple[int, ...]) -> bool:
        """Whether a value of `shape` is of this type."""
        return len(shape) == len(self.shape) and all(
            expected is None or expected == length for expected, length in zip(self.shape, shape, strict=True)
        )


def held(value: Any, dtype: str) -> Array:
    """`value` as this interpreter holds a tensor of MIL's `dtype`: converted, and rounded for float16."""
    if dtype == "fp16":
        return np.asarray(value).astype(np.float16).astype(np.float32)
    return np.asarray(value).astype(_HELD[dtype], copy=False)


def stored_dtype(dtype: str) -> np.dtype[Any]:
    """numpy's dtype of the bytes of one element; of one byte of packed elements below eight bits."""
    return np.dtype(np.float16 if dtype == "fp16" else _HELD[dtype])


def unpacked(packed: NDArray[np.uint8], bits: int, count: int, signed: bool) -> Array:
    """`count` elements of `bits` bits out of bytes, each byte filled from its least significant bit.

    packed: uint8 [ceil(bits * count / 8)]. Gives uint8 [count], or int8 if signed (two's complement).
    ValueError if there are too few bytes. Source: MIL's definition of constexpr_lut_to_dense.
    """
    if packed.size * 8 < bits * count:
        raise ValueError(f"{packed.size} bytes cannot hold {count} elements of {bits} bits")
    lanes = np.unpackbits(packed, bitorder="little", count=bits * count).reshape(count, bits)
    values = lanes @ (1 << np.arange(bits)).astype(np.uint8)
    if signed:
        values = np.where(values >= 1 << (bits - 1), values.astype(np.int16) - (1 << bits), values)
        return values.astype(np.int8)
    return values.astype(np.uint8)
