"""Whether a Core ML build computes what it was made of, by the interpreter: Core ML runs on macOS only."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from phoneproof.errors import ToolchainError, UnsupportedOperatorError, said
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.table import Precision
from phoneproof.runtimes.mil_interpreter import load
from phoneproof.runtimes.runtime import LoadRequest
from phoneproof.sources.exported_program import runner

LEAST_SQNR_DB: Final[Mapping[Precision, float]] = {
    Precision.FLOAT32: 80.0,
    Precision.FLOAT16: 25.0,
    Precision.INT8: 6.0,
}
"""Below it the conversion is wrong, whatever the rounding: float32 reaches 130 dB, float16 60 to 70. Int8 is
told by the quantized program, which it usually meets with 30 dB and more; but each value that float16 rounds
over the edge of a step is a whole step off, and a deep network can be as far from itself as int8 is from
float. With coremltools' miscompiling pass it is -6 dB."""

_SEED: Final = 20

Array = NDArray[Any]
Run = Callable[[Sequence[Array]], Sequence[Array]]
"""What a build must compute: arrays in the source's dtypes and order in, all outputs in order out."""


def run_of(program: Any) -> Run:
    """An exported program as a reference."""
    call = runner(program)

    def run(arrays: Sequence[Array]) -> list[Array]:
        with torch.no_grad():
            return [one.detach().numpy() for one in call([torch.from_numpy(array) for array in arrays])]

    return run


def check_build(
    package: Path,
    reference: Run,
    sources: Sequence[TensorSpec],
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    least_db: float | None,
) -> None:
    """ToolchainError unless the package loads, and one random input gives what it should.

    reference: what was converted. sources: its inputs; inputs, outputs: the build's, in the same order.
    least_db: SQNR that every float output must reach; None looks at dtypes, shapes and finiteness only.
    A program with operators that the interpreter does not know is not run: it may be right all the same.
    """
    arrays = [random_input(spec, seed) for seed, spec in enumerate(sources, start=_SEED)]
    expected = [value.astype(spec.dtype) for value, spec in zip(reference(arrays), outputs, strict=True)]
    feed = {spec.name: array.astype(spec.dtype) for spec, array in zip(inputs, arrays, strict=True)}
    try:
        session = load(LoadRequest(package, "cpu", allow_fallback=True, threads=1, options={}))
        results = session.prepare(feed)()
    except UnsupportedOperatorError:
        return
    except Exception as error:  # the interpreter is new ground: whatever it meets, the build is not proven
        raise ToolchainError(
            f"The Core ML build cannot be run: {type(error).__name__}: {said(error)}.",
            where=str(package),
            next_step="Its log tells where.",
        ) from error
    for spec, value, wanted in zip(outputs, results, expected, strict=True):
        _check_output(spec, value, wanted, least_db, package)


def random_input(spec: TensorSpec, seed: int) -> Array:
    """Floats in [0, 1); whole numbers are zero, the only index and token that every model surely has."""
    if spec.dtype.startswith("float"):
        return np.random.default_rng(seed).random(spec.shape).astype(spec.dtype)
    return np.zeros(spec.shape, spec.dtype)


def sqnr_db(expected: Array, value: Array) -> float:
    """Signal to noise ratio in decibels; infinite for equal arrays."""
    signal = float(np.sum(np.square(expected, dtype=np.float64)))
    noise = float(np.sum(np.square(expected.astype(np.float64) - value)))
    if noise == 0.0:
        return float("inf")
    return 10 * float(np.log10(signal / noise)) if signal else float("-inf")


def _check_output(
    spec: TensorSpec, value: Array, wanted: Array, least_db: float | None, package: Path
) -> None:
    fault = _fault(spec, value, wanted, least_db)
    if fault is not None:
        raise ToolchainError(
            f"The Core ML build's output {spec.name!r} is wrong: {fault}.",
            where=str(package),
            next_step="The converter misunderstands the model. Leave the Core ML builds out.",
        )


def _fault(spec: TensorSpec, value: Array, wanted: Array, least_db: float | None) -> str | None:
    if value.dtype.name != spec.dtype or value.shape != wanted.shape:
        return f"{value.dtype.name} {list(value.shape)} instead of {spec.dtype} {list(wanted.shape)}"
    if not spec.dtype.startswith("float"):
        return None  # an argmax, of which the nearest rival may win by rounding
    if not np.isfinite(wanted).all():
        return None
    if not np.isfinite(value).all():
        return "not finite, which the source is (float16 holds numbers up to 65504)"
    reached = sqnr_db(wanted, value)
    if least_db is not None and reached < least_db and not _is_noise(wanted, value):
        return f"{reached:.1f} dB against what it was converted from, less than {least_db:g} dB"
    return None


def _is_noise(wanted: Array, value: Array) -> bool:
    """Whether both are zero but for rounding: a decibel of nothing says nothing."""
    return bool(max(np.abs(wanted).max(initial=0.0), np.abs(value).max(initial=0.0)) < 1e-6)
