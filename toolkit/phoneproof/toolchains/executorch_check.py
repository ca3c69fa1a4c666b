"""Whether a .pte computes what it was made of, by running it in ExecuTorch on this machine."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from phoneproof.errors import ToolchainError, said
from phoneproof.runtimes.executorch import load
from phoneproof.runtimes.runtime import LoadRequest
from phoneproof.sources.agreement import Arrays, Network, accepted_inputs, joined
from phoneproof.sources.exported_program import ExportedSource, runner
from phoneproof.sources.program_running import network_of
from phoneproof.sources.rounding import least_float_db, least_step_db, one_thread
from phoneproof.toolchains.build_fault import fault_of
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
    return accepted_inputs(network, source.inputs)
