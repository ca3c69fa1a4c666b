"""Whether a Core ML build computes what it was made of, by the interpreter: Core ML runs on macOS only."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from phoneproof.errors import ToolchainError, UnsupportedOperatorError, said
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.runtimes.mil.interpreter import prepare, run
from phoneproof.runtimes.mil.package import read_package
from phoneproof.runtimes.mil.types import held
from phoneproof.runtimes.mil_interpreter import load
from phoneproof.runtimes.runtime import LoadRequest
from phoneproof.sources.exported_program import runner
from phoneproof.toolchains.coreml_compare import Array, random_inputs, refuse_wrong

_MIL_DTYPES: Final = {"float32": "fp32", "float16": "fp16", "int32": "int32"}

Run = Callable[[Sequence[Array]], Sequence[Array]]
"""What a build must compute: arrays in the source's dtypes and order in, all outputs in order out."""


def run_of(program: Any) -> Run:
    """An exported program as a reference."""
    call = runner(program)

    def compute(arrays: Sequence[Array]) -> list[Array]:
        with torch.no_grad():
            return [one.detach().numpy() for one in call([torch.from_numpy(array) for array in arrays])]

    return compute


def check_build(
    package: Path,
    reference: Run,
    sources: Sequence[TensorSpec],
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    least_db: float,
) -> None:
    """ToolchainError unless the package loads, and one random input gives what it should.

    reference: what was converted. sources: its inputs; inputs, outputs: the build's, in the same order.
    A program with operators that the interpreter does not know is not run: it may be right all the same.
    """
    arrays = random_inputs(sources)
    results = interpreted(package, inputs, arrays)
    if results is None:
        return
    expected = [value.astype(spec.dtype) for value, spec in zip(reference(arrays), outputs, strict=True)]
    refuse_wrong(outputs, results, expected, least_db, package)


def interpreted(package: Path, inputs: Sequence[TensorSpec], arrays: Sequence[Array]) -> list[Array] | None:
    """The package's outputs in order; None where it has operators that the interpreter does not know.

    ToolchainError if it does not load or run.
    """
    feed = {spec.name: array.astype(spec.dtype) for spec, array in zip(inputs, arrays, strict=True)}
    try:
        session = load(LoadRequest(package, "cpu", allow_fallback=True, threads=1, options={}))
        return list(session.prepare(feed)())
    except UnsupportedOperatorError:
        return None
    except Exception as error:  # the interpreter is new ground: whatever it meets, the build is not proven
        raise ToolchainError(
            f"The Core ML build cannot be run: {type(error).__name__}: {said(error)}.",
            where=str(package),
            next_step="Its log tells where.",
        ) from error


def with_decoded_weights(
    float_package: Path, package: Path, quantized: Sequence[str], inputs: Sequence[str]
) -> Run:
    """The float program with the weights that the int8 package holds: what that package must compute.

    quantized: names of the constants that are int8 there. inputs: names of the packages' inputs, in order.
    ToolchainError for a weight that is not int8, which the vendor only warns of, or more than a step off.
    """
    wide, small = read_package(float_package), read_package(package)
    block, decoded = prepare(wide.program), prepare(small.program).constants
    replaced = dict(block.constants)
    for name in quantized:
        value = decoded.get(f"{name}_quantized")
        if value is None:
            raise _faulty(name, "is still in float")
        step = float(np.abs(replaced[name]).max()) / 127
        if value.shape != replaced[name].shape or float(np.abs(value - replaced[name]).max()) > step:
            raise _faulty(name, "is more than a step off")
        replaced[name] = value
    block = replace(block, constants=replaced)
    types = {feature.name: feature.dtype for feature in wide.inputs}

    def compute(arrays: Sequence[Array]) -> list[Array]:
        feed = {
            name: held(array.astype(types[name]), _MIL_DTYPES[types[name]])
            for name, array in zip(inputs, arrays, strict=True)
        }
        results = run(block, feed)
        return [results[feature.name] for feature in wide.outputs]

    return compute


def _faulty(name: str, what: str) -> ToolchainError:
    return ToolchainError(
        f"coremltools was to quantize the weight {name!r}, which {what}.",
        next_step="Leave the operator that it belongs to in float with keep_float_names.",
    )
