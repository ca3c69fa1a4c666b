"""Whether a Core ML build computes what it was made of, by the interpreter: Core ML runs on macOS only."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from phoneproof.errors import ToolchainError, UnsupportedOperatorError, said
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.table import Precision
from phoneproof.runtimes.mil.interpreter import Hold, PreparedBlock, prepare
from phoneproof.runtimes.mil.package import read_package
from phoneproof.runtimes.mil_interpreter import load
from phoneproof.runtimes.runtime import LoadRequest
from phoneproof.sources.agreement import Arrays, joined
from phoneproof.sources.exported_program import runner
from phoneproof.sources.rounding import one_thread
from phoneproof.toolchains.coreml_compare import Answers, Array, refuse_wrong
from phoneproof.toolchains.coreml_rounding import computed, least_db, widened

Run = Callable[[Arrays], list[Array]]
"""What a build must compute: arrays in the source's dtypes and order in, all outputs in order out."""


def run_of(program: Any) -> Run:
    """An exported program as a reference."""
    call = runner(program)

    def compute(arrays: Arrays) -> list[Array]:
        with torch.no_grad():
            return [one.detach().numpy() for one in call([torch.from_numpy(array) for array in arrays])]

    return compute


def check_build(
    package: Path,
    reference: Run,
    samples: Sequence[Arrays],
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    near: Precision | Sequence[float],
) -> None:
    """ToolchainError unless the package loads, and gives for the samples what it should.

    reference: what was converted, which takes the samples. inputs, outputs: the build's, in the same order.
    near: the precision in which it is measured what rounding leaves of each output; or the SQNR in dB that
    each reaches, infinite where it is to be measured: in float16, as the float parts of int8 builds compute.
    A program with operators that the interpreter does not know is not run: it may be right all the same.
    """
    precision = near if isinstance(near, Precision) else Precision.FLOAT16 if math.inf in near else None
    answers = interpreted(package, inputs, samples, precision)
    if answers is None:
        return
    least = answers.least_db
    if not isinstance(near, Precision):
        measured = least or near
        least = [other if one == math.inf else one for one, other in zip(near, measured, strict=True)]
    refuse_wrong(outputs, answers, joined(reference, samples), least, package)


def interpreted(
    package: Path, inputs: Sequence[TensorSpec], samples: Sequence[Arrays], precision: Precision | None
) -> Answers | None:
    """What the package gives; None where it has operators that the interpreter does not know.

    precision: what to measure the limits in; None for no limits. ToolchainError if it does not load or run.
    """
    names = [spec.name for spec in inputs]
    try:
        with one_thread():
            session = load(LoadRequest(package, "cpu", allow_fallback=True, threads=1, options={}))
            outputs = []
            for arrays in samples:
                typed = zip(inputs, arrays, strict=True)
                feed = {spec.name: array.astype(spec.dtype) for spec, array in typed}
                outputs.append(list(session.prepare(feed)()))
            read = read_package(package)
            block = prepare(read.program)

            def compute(block: PreparedBlock, hold: Hold) -> list[Array]:
                return computed(block, read, names, samples, hold)

            least = [] if precision is None else least_db(block, compute, precision)
            return Answers(tuple(outputs), compute(block, widened), least)
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
    """The float program with the weights that the int8 package holds, in float32: what that must compute.

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
    return lambda arrays: computed(block, wide, inputs, [arrays], widened)


def _faulty(name: str, what: str) -> ToolchainError:
    return ToolchainError(
        f"coremltools was to quantize the weight {name!r}, which {what}.",
        next_step="Leave the operator that it belongs to in float with keep_float_names.",
    )
