"""What the input or output of a build looks like."""

from dataclasses import dataclass
from typing import Final, Literal

Layout = Literal["nchw", "nhwc"]

DTYPE_SIZES: Final[dict[str, int]] = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
}
"""Name of each dtype that crosses the wire (numpy's names) and the size of one element in bytes."""


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of a build, batch dimension included.

    scale and zero_point are given where the tensor is quantized (real = (stored - zero_point) * scale),
    else both are None.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    scale: float | None = None
    zero_point: int | None = None

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of one sample as data give it."""
        return sample_shape(self.shape)

    @property
    def size_bytes(self) -> int:
        """Size of one tensor in bytes."""
        elements = 1
        for length in self.shape:
            elements *= length
        return elements * DTYPE_SIZES[self.dtype]


def sample_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without its batch of one; all of it where the first axis is longer, and so is no batch (the
    layers of a recurrent state, for example).
    """
    return shape[1:] if shape[:1] == (1,) else shape
