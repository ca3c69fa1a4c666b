"""Whether a .pte computes what it was made of, by running it in ExecuTorch on this machine."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from phoneproof.errors import ToolchainError, said
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.runtimes.executorch import load
from phoneproof.runtimes.runtime import LoadRequest
from phoneproof.sources.agreement import Arrays, Network, sqnr_db, trial_inputs
from phoneproof.sources.exported_program import ExportedSource, runner
from phoneproof.sources.program_running import network_of
from phoneproof.sources.rounding import joined, least_float_db, least_step_db, one_thread
from phoneproof.toolchains.request import BuildRequest

_SAMPLES: Final = 2


def check_build(path: Path, source: ExportedSource, program: Any, wanted: BuildRequest) -> None:
    """ToolchainError unless the build loads, and answers as `program` does but for rounding.

    program: what was lowered; of a quantized build with quantize and dequantize operators in it. A build is
    tried on the first calibration samples where there are some, else on random inputs.
    """
    network = network_of(runner(program))
    with one_thread():
        samples = _samples(source, network, wanted)
        expected = joined(network, samples)
        least_db = least_float_db if wanted.recipe == "executorch-float32" else least_step_db
        least = least_db(network, samples, expected)
    try:
        found = _answers(path, source, samples)
    except Exception as error:  # whatever the runtime meets, the build is not proven
        raise ToolchainError(
            f"The build does not load or run in ExecuTorch: {said(error)}.",
            where=str(path),
            next_step="The log names the operator; change it in the model, or leave these builds out.",
        ) from error
    for spec, values, reference, limit in zip(source.outputs, found, expected, least, strict=True):
        fault = fault_of(spec, values, reference, limit)
        if fault is not None:
            raise ToolchainError(
                f"The build's output {spec.name!r} is wrong: {fault}.",
                where=str(path),
                next_step="ExecuTorch misunderstands the model: report it there, and leave the operators in "
                "doubt in float with keep_float_names, or the ExecuTorch builds out.",
            )


def fault_of(
    spec: TensorSpec, values: Sequence[NDArray[Any]], reference: NDArray[Any], least_db: float
) -> str | None:
    """What is wrong with an output of the build, as the end of a sentence; None if nothing is.

    values: of each sample. reference: of all samples in one axis, from what was lowered. least_db: signal to
    noise ratio that a right build reaches. Where the reference is not finite, the build may be anything.
    """
    for value in values:
        if value.dtype.name != spec.dtype or value.shape != spec.shape:
            return f"{value.dtype.name} {value.shape} instead of {spec.dtype} {spec.shape}"
    if not spec.dtype.startswith("float"):
        return None  # an argmax, of which the nearest rival may win by rounding
    is_finite = np.isfinite(reference)
    wanted = reference[is_finite]
    given = np.concatenate([value.ravel() for value in values])[is_finite]
    if not np.isfinite(given).all():
        return "it is not finite, which the source's is"
    # A decibel of nothing says nothing: both are zero but for rounding.
    is_nothing = max(np.abs(wanted).max(initial=0.0), np.abs(given).max(initial=0.0)) < 1e-6
    reached = sqnr_db(wanted, given)
    if reached >= least_db or is_nothing:
        return None
    return (
        f"{reached:.1f} dB against what it was lowered from, which rounding alone takes no further than "
        f"{least_db:.1f} dB from itself"
    )


def _answers(path: Path, source: ExportedSource, samples: Sequence[Arrays]) -> list[list[NDArray[Any]]]:
    """Each output of the build for each sample."""
    session = load(LoadRequest(path, "cpu", allow_fallback=False, threads=1, options={}))
    names = [spec.name for spec in source.inputs]
    found = [
        [value.copy() for value in session.prepare(dict(zip(names, arrays, strict=True)))()]
        for arrays in samples
    ]
    session.close()
    return [list(values) for values in zip(*found, strict=True)]


def _samples(source: ExportedSource, network: Network, wanted: BuildRequest) -> list[Arrays]:
    if wanted.samples is not None:
        first = islice(wanted.samples.read(source.inputs), _SAMPLES)
        found = [[np.array(sample[spec.name]) for spec in source.inputs] for sample in first]
        if found:
            return list(found)
    return [arrays for arrays in trial_inputs(source.inputs) if _takes(network, arrays)]


def _takes(network: Network, arrays: Arrays) -> bool:
    """Whether the program can be computed: a random integer may be an index out of its range."""
    try:
        network(arrays)
    except (IndexError, RuntimeError, ValueError):
        return False
    return True
