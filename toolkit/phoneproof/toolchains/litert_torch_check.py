"""Proving a .tflite made of an exported program: it loads in LiteRT, and computes what the program does."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.table import Recipe
from phoneproof.sources.agreement import Arrays, Network, disagreement
from phoneproof.sources.exported_program import ExportedSource
from phoneproof.sources.program_running import network_of
from phoneproof.toolchains.tflite_trial import LEAST_DB, build_network, refuse_faulty, wrong_answer


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

    def trial() -> str | None:
        build = build_network(path, inputs, outputs, source.outputs)
        reference = network_of(source.runner())
        if recipe.is_quantized:
            return wrong_answer(reference, build, source.inputs, source.outputs, outputs)
        return disagreement(
            reference, _in_dtypes_of(source, build), source.inputs, LEAST_DB[recipe.precision]
        )

    refuse_faulty(str(source.path), trial)


def _in_dtypes_of(source: ExportedSource, build: Network) -> Network:
    """A float build with outputs in the source's dtypes: 64-bit integers are 32-bit in it."""

    def run(arrays: Arrays) -> Arrays:
        return [_widened(*one) for one in zip(build(arrays), source.outputs, strict=True)]

    return run


def _widened(value: NDArray[Any], spec: TensorSpec) -> NDArray[Any]:
    narrow = {"int64": "int32", "float64": "float32"}
    return value.astype(spec.dtype) if narrow.get(spec.dtype) == value.dtype.name else value
