"""Proving a .tflite made of an exported program: it loads in LiteRT, and computes what the program does."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.table import Precision, Recipe
from phoneproof.sources.agreement import Arrays, Network, disagreement
from phoneproof.sources.exported_program import ExportedSource
from phoneproof.sources.program_running import network_of
from phoneproof.toolchains.tflite_float16 import with_rounded_weights
from phoneproof.toolchains.tflite_trial import LEAST_DB, build_network, refuse_faulty, wrong_answer


def refuse_wrong(
    path: Path,
    source: ExportedSource,
    recipe: Recipe,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    plain: Path,
) -> None:
    """ToolchainError for a build that does not load or run, or does not answer as it says.

    A float build has to agree with the source on random inputs; the others have to be finite where it is.
    plain: the float32 conversion. For a float16 build it has to agree with the source, and the build with it.
    """

    def trial() -> str | None:
        build = build_network(path, inputs, outputs, source.outputs)
        reference = network_of(source.runner())
        if recipe.is_quantized:
            return wrong_answer(reference, build, source.inputs, source.outputs, outputs)
        if recipe.precision is Precision.FLOAT32:
            return disagreement(reference, _in_dtypes_of(source, build), source.inputs, LEAST_DB)
        wide = _in_dtypes_of(source, build_network(plain, inputs, outputs, source.outputs))
        rounded = plain.with_name("rounded.tflite")
        rounded.write_bytes(with_rounded_weights(plain.read_bytes(), path.read_bytes(), str(source.path)))
        narrow = build_network(rounded, inputs, outputs, source.outputs)
        return disagreement(reference, wide, source.inputs, LEAST_DB) or disagreement(
            narrow, build, source.inputs, LEAST_DB
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
