"""How near a Core ML build comes to what it was made of, and what is too far."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from phoneproof.errors import ToolchainError
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.table import Precision
from phoneproof.sources.agreement import sqnr_db

LEAST_SQNR_DB: Final[Mapping[Precision, float]] = {
    Precision.FLOAT32: 60.0,
    Precision.FLOAT16: 25.0,
    Precision.INT8: 6.0,
}
"""Below it the conversion is wrong, whatever the rounding: float32 reaches 130 dB (79 in basic-pitch, which
takes logarithms of a spectrum), float16 60 to 70. Int8 is told by the quantized program, which it usually
meets with 30 dB and more; but each value that float16 rounds over the edge of a step is a whole step off, and
a deep network can be as far from itself as int8 is from float. With coremltools' miscompiling pass it is
-6 dB.
"""

_SEED: Final = 20

Array = NDArray[Any]


def random_inputs(specs: Sequence[TensorSpec]) -> list[Array]:
    """One array for each, always the same: floats in [0, 1); whole numbers are zero, the only index and token
    that every model surely has."""
    return [_random(spec, seed) for seed, spec in enumerate(specs, start=_SEED)]


def refuse_wrong(
    outputs: Sequence[TensorSpec],
    results: Sequence[Array],
    expected: Sequence[Array],
    least_db: float,
    package: Path,
) -> None:
    """ToolchainError unless each output of the build is as declared, finite where it should be, and near.

    least_db: SQNR in decibels that every float output must reach.
    """
    for spec, value, wanted in zip(outputs, results, expected, strict=True):
        fault = _fault(spec, value, wanted, least_db)
        if fault is not None:
            raise ToolchainError(
                f"The Core ML build's output {spec.name!r} is wrong: {fault}.",
                where=str(package),
                next_step="The converter misunderstands the model. Leave the Core ML builds out.",
            )


def _random(spec: TensorSpec, seed: int) -> Array:
    if spec.dtype.startswith("float"):
        return np.random.default_rng(seed).random(spec.shape).astype(spec.dtype)
    return np.zeros(spec.shape, spec.dtype)


def _fault(spec: TensorSpec, value: Array, wanted: Array, least_db: float) -> str | None:
    if value.dtype.name != spec.dtype or value.shape != wanted.shape:
        return f"{value.dtype.name} {list(value.shape)} instead of {spec.dtype} {list(wanted.shape)}"
    if not spec.dtype.startswith("float"):
        return None  # an argmax, of which the nearest rival may win by rounding
    if not np.isfinite(wanted).all():
        return None
    if not np.isfinite(value).all():
        return "not finite, which the source is (float16 holds numbers up to 65504)"
    reached = sqnr_db(wanted, value)
    if reached < least_db and not _is_noise(wanted, value):
        return f"{reached:.1f} dB against what it was converted from, less than {least_db:g} dB"
    return None


def _is_noise(wanted: Array, value: Array) -> bool:
    """Whether both are zero but for rounding: a decibel of nothing says nothing."""
    return bool(max(np.abs(wanted).max(initial=0.0), np.abs(value).max(initial=0.0)) < 1e-6)
