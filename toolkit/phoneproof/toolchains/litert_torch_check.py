"""Proving a .tflite made of an exported program: it loads in LiteRT, and computes what the program does."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from phoneproof.errors import PhoneproofError, ToolchainError, said
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.table import Precision, Recipe
from phoneproof.runtimes.litert import load
from phoneproof.runtimes.runtime import LoadRequest
from phoneproof.sources.agreement import Arrays, Network, disagreement, trial_inputs
from phoneproof.sources.exported_program import ExportedSource
from phoneproof.sources.program_running import network_of

_LEAST_DB: Final[Mapping[Precision, float]] = {Precision.FLOAT32: 80.0, Precision.FLOAT16: 10.0}
"""Least signal to noise ratio between a float build and its source."""


def refuse_wrong(
    path: Path,
    source: ExportedSource,
    recipe: Recipe,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
) -> None:
    """ToolchainError for a build that does not load or run, or does not answer as it says.

    A float build has to agree with the source on random inputs; the others have to be finite where it is.
    """
    place = str(source.path)
    try:
        build = _network(path, inputs, outputs, source.outputs)
        reference = network_of(source.runner())
        if recipe.is_quantized:
            what = _wrong_answers(source, outputs, reference, _raw(path, inputs))
        else:
            what = disagreement(reference, build, source.inputs, _LEAST_DB[recipe.precision])
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


def _wrong_answers(
    source: ExportedSource, outputs: Sequence[TensorSpec], reference: Network, build: Network
) -> str | None:
    arrays = next(iter(trial_inputs(source.inputs)))
    for made, right, value in zip(outputs, reference(arrays), build(arrays), strict=True):
        if value.dtype.name != made.dtype or value.shape != made.shape:
            return f"output {made.name!r} is {value.dtype.name} {value.shape}, not {made.dtype} {made.shape}"
        if not np.isfinite(value).all() and np.isfinite(right).all():
            return f"output {made.name!r} is not finite"
    return None


def _network(
    path: Path, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], wanted: Sequence[TensorSpec]
) -> Network:
    """A float build as a function of the source's inputs, in its dtypes: 64-bit integers are 32-bit in it."""
    raw = _raw(path, inputs)

    def run(arrays: Arrays) -> Arrays:
        given = dict(zip((spec.name for spec in outputs), raw(arrays), strict=True))
        return [_narrowed(given[spec.name], spec) for spec in wanted]

    return run


def _narrowed(value: NDArray[Any], spec: TensorSpec) -> NDArray[Any]:
    narrow = {"int64": "int32", "float64": "float32"}
    return value.astype(spec.dtype) if narrow.get(spec.dtype) == value.dtype.name else value


def _raw(path: Path, inputs: Sequence[TensorSpec]) -> Network:
    session = load(LoadRequest(path, "cpu", allow_fallback=False, threads=1, options={}))

    def run(arrays: Arrays) -> Arrays:
        feed = {spec.name: _stored(array, spec) for spec, array in zip(inputs, arrays, strict=True)}
        return list(session.prepare(feed)())

    return run


def _stored(values: NDArray[Any], spec: TensorSpec) -> NDArray[Any]:
    if spec.scale is None or spec.zero_point is None:
        return values.astype(spec.dtype, copy=False)
    limits = np.iinfo(spec.dtype)
    stored = np.round(values / spec.scale) + spec.zero_point
    return np.clip(stored, limits.min, limits.max).astype(spec.dtype)
