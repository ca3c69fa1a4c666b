"""Whether a .pte computes what it was made of, by running it in ExecuTorch on this machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from phoneproof.errors import ToolchainError, said
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.runtimes.executorch import load
from phoneproof.runtimes.runtime import LoadRequest
from phoneproof.sources.agreement import sqnr_db
from phoneproof.sources.exported_program import ExportedSource, runner
from phoneproof.toolchains.request import BuildRequest

FLOAT_LEAST_DB: Final = 60.0
"""XNNPACK's float32 kernels come within 100 dB of torch's; half precision programs are left at 40."""

INT8_LEAST_DB: Final = 10.0
"""Of the quantized program as torch computes it, step by step in float, which XNNPACK mostly equals: its
rounding differs by a step here and there, and a deep network can make much of that (15 dB were left of a
MobileNetV2 with random weights). Below, a kernel got other scales or layouts than it should."""

_SEED: Final = 20


def check_build(path: Path, source: ExportedSource, program: Any, wanted: BuildRequest) -> None:
    """ToolchainError unless the build loads, and one input gives finite outputs that agree with `program`.

    program: what was lowered; of a quantized build with quantize and dequantize operators in it. The input is
    the first calibration sample where there is one, else random.
    """
    arrays = _input(source, wanted)
    with torch.inference_mode():
        tensors = [torch.from_numpy(np.array(one)) for one in arrays]
        expected = [one.detach().numpy() for one in runner(program)(tensors)]
    try:
        session = load(LoadRequest(path, "cpu", allow_fallback=False, threads=1, options={}))
        names = (spec.name for spec in source.inputs)
        found = session.prepare(dict(zip(names, arrays, strict=True)))()
        session.close()
    except Exception as error:  # whatever the runtime meets, the build is not proven
        raise ToolchainError(
            f"The build does not load or run in ExecuTorch: {said(error)}.",
            where=str(path),
            next_step="The log names the operator; change it in the model, or leave these builds out.",
        ) from error
    is_quantized = wanted.recipe != "executorch-float32"
    for spec, value, reference in zip(source.outputs, found, expected, strict=True):
        fault = _fault(spec, value, reference, INT8_LEAST_DB if is_quantized else FLOAT_LEAST_DB)
        if fault is not None:
            raise ToolchainError(
                f"The build's output {spec.name!r} is wrong: {fault}.",
                where=str(path),
                next_step="ExecuTorch misunderstands the model: report it there, and leave the operators in "
                "doubt in float with keep_float_names, or the ExecuTorch builds out.",
            )


def _input(source: ExportedSource, wanted: BuildRequest) -> Sequence[NDArray[Any]]:
    if wanted.samples is not None:
        first = next(iter(wanted.samples.read(source.inputs)), None)
        if first is not None:
            return [first[spec.name] for spec in source.inputs]
    return [_random(spec, seed) for seed, spec in enumerate(source.inputs, start=_SEED)]


def _random(spec: TensorSpec, seed: int) -> NDArray[Any]:
    """Floats in [0, 1); whole numbers are zero, the only index and token that every model surely has."""
    if spec.dtype.startswith("float"):
        return np.random.default_rng(seed).random(spec.shape).astype(spec.dtype)
    return np.zeros(spec.shape, spec.dtype)


def _fault(spec: TensorSpec, value: NDArray[Any], reference: NDArray[Any], least_db: float) -> str | None:
    if value.dtype.name != spec.dtype or value.shape != spec.shape:
        return f"{value.dtype.name} {value.shape} instead of {spec.dtype} {spec.shape}"
    if not spec.dtype.startswith("float"):
        return None  # an argmax, of which the nearest rival may win by rounding
    if not np.isfinite(reference).all():
        return None
    if not np.isfinite(value).all():
        return "it is not finite, which the source's is"
    least = min(least_db, 40.0) if spec.dtype == "float16" else least_db
    reached = sqnr_db(reference, value)
    # A decibel of nothing says nothing: both are zero but for rounding.
    is_nothing = max(np.abs(reference).max(initial=0.0), np.abs(value).max(initial=0.0)) < 1e-6
    if reached >= least or is_nothing:
        return None
    return f"{reached:.1f} dB against what it was lowered from, less than {least:g} dB"
