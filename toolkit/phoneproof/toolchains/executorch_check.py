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

INT8_LEAST_DB: Final = 20.0
"""Of the quantized program as torch computes it, step by step in float, which XNNPACK equals but for a step
here and there. A deep network can make much of these steps (MobileNetV2 with random weights: 11 dB), but then
int8 itself is as far from float: a build that is within INT8_SLACK_DB as near to the source passes, too. One
with a kernel that got other scales or layouts than it should does not (12 dB, where 35 were possible)."""

INT8_SLACK_DB: Final = 6.0

_SEED: Final = 20


def check_build(path: Path, source: ExportedSource, program: Any, wanted: BuildRequest) -> None:
    """ToolchainError unless the build loads, and one input gives finite outputs that agree with `program`.

    program: what was lowered; of a quantized build with quantize and dequantize operators in it. The input is
    the first calibration sample where there is one, else random.
    """
    arrays = _input(source, wanted)
    expected, exact = _outputs(program, arrays), _outputs(source.program, arrays)
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
    least = FLOAT_LEAST_DB if wanted.recipe == "executorch-float32" else INT8_LEAST_DB
    outputs = zip(source.outputs, found, expected, exact, strict=True)
    for spec, value, reference, of_source in outputs:
        fault = fault_of(spec, value, reference, of_source, least)
        if fault is not None:
            raise ToolchainError(
                f"The build's output {spec.name!r} is wrong: {fault}.",
                where=str(path),
                next_step="ExecuTorch misunderstands the model: report it there, and leave the operators in "
                "doubt in float with keep_float_names, or the ExecuTorch builds out.",
            )


def _outputs(program: Any, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    with torch.inference_mode():
        tensors = [torch.from_numpy(np.array(one)) for one in arrays]
        return [one.detach().numpy() for one in runner(program)(tensors)]


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


def fault_of(
    spec: TensorSpec,
    value: NDArray[Any],
    reference: NDArray[Any],
    exact: NDArray[Any],
    least_db: float,
) -> str | None:
    """What is wrong with an output of the build, as the end of a sentence; None if nothing is.

    reference: the same output of what was lowered. exact: of the source. least_db: FLOAT_LEAST_DB or
    INT8_LEAST_DB.
    """
    if value.dtype.name != spec.dtype or value.shape != spec.shape:
        return f"{value.dtype.name} {value.shape} instead of {spec.dtype} {spec.shape}"
    if not spec.dtype.startswith("float"):
        return None  # an argmax, of which the nearest rival may win by rounding
    if not np.isfinite(exact).all() or not np.isfinite(reference).all():
        return None
    if not np.isfinite(value).all():
        return "it is not finite, which the source's is"
    least = min(least_db, 40.0) if spec.dtype == "float16" else least_db
    reached = sqnr_db(reference, value)
    # A decibel of nothing says nothing: both are zero but for rounding.
    is_nothing = max(np.abs(reference).max(initial=0.0), np.abs(value).max(initial=0.0)) < 1e-6
    is_as_near = sqnr_db(exact, value) >= sqnr_db(exact, reference) - INT8_SLACK_DB
    if reached >= least or is_nothing or (least_db == INT8_LEAST_DB and is_as_near):
        return None
    return f"{reached:.1f} dB against what it was lowered from, less than {least:g} dB"
