"""Trying a .tflite build before it is handed over: it loads in LiteRT, and answers as it says it does."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from phoneproof.data.values import is_quantized, quantize
from phoneproof.errors import PhoneproofError, ToolchainError, said
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.runtimes.litert import load
from phoneproof.runtimes.runtime import LoadRequest
from phoneproof.sources.agreement import Arrays, Network, trial_inputs

LEAST_DB: Final = 80.0
"""Least signal to noise ratio between a float build and what it was made of; below it the build is wrong.
Float32 reaches 120 dB and more, and 84 in basic-pitch, which takes logarithms of a spectrum.
"""


def refuse_faulty(place: str, trial: Callable[[], str | None]) -> None:
    """ToolchainError where a trial of a build fails, or tells what the build computes wrongly."""
    try:
        what = trial()
    except PhoneproofError:
        raise
    except Exception as error:  # LiteRT raises RuntimeError, ValueError and KeyError
        raise ToolchainError(
            f"The converted model does not load or run in LiteRT: {said(error)}.",
            where=place,
            next_step="Leave the operator it names in float with keep_float_names, or change the model.",
        ) from error
    if what is not None:
        raise ToolchainError(
            f"The converted model does not compute what the source does: {what}.",
            where=place,
            next_step="This is a fault of the converter: try another version of it, or change the layer.",
        )


def build_network(
    path: Path, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], wanted: Sequence[TensorSpec]
) -> Network:
    """The build as a function of real values in the order of its inputs, to outputs as they are stored.

    inputs, outputs: the build's. wanted: the source's outputs, which have the same names, in its order.
    """
    session = load(LoadRequest(path, "cpu", allow_fallback=False, threads=1, options={}))
    names = [spec.name for spec in outputs]
    order = [names.index(spec.name) for spec in wanted]

    def run(arrays: Arrays) -> Arrays:
        feed = {
            spec.name: quantize(array, spec) if is_quantized(spec) else array.astype(spec.dtype, copy=False)
            for spec, array in zip(inputs, arrays, strict=True)
        }
        found = session.prepare(feed)()
        return [found[index] for index in order]

    return run


def wrong_answer(
    reference: Network,
    build: Network,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    made: Sequence[TensorSpec],
) -> str | None:
    """Where a quantized build's outputs are not what its manifest says, or not finite where the source's are.

    inputs, outputs: the source's. made: the build's outputs, in any order.
    """
    by_name = {spec.name: spec for spec in made}
    arrays = next(iter(trial_inputs(inputs)))
    for spec, right, value in zip(outputs, reference(arrays), build(arrays), strict=True):
        told = by_name[spec.name]
        if value.dtype.name != told.dtype or value.shape != told.shape:
            return f"output {spec.name!r} is {value.dtype.name} {value.shape}, not {told.dtype} {told.shape}"
        if not np.isfinite(value).all() and np.isfinite(right).all():
            return f"output {spec.name!r} is not finite"
    return None
