"""How near a Core ML build comes to what it was made of, and what is too far."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phoneproof.errors import ToolchainError
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.sources.agreement import SMALL_INTEGERS, Arrays, Network
from phoneproof.toolchains.build_fault import fault_of

Array = NDArray[Any]


@dataclass(frozen=True)
class Answers:
    """What a package gives by the interpreter.

    outputs: sample by sample, as the package gives them. wide: each output over all samples, computed in
    float32 throughout. least_db: SQNR in dB that each of a right build reaches; empty if not measured.
    """

    outputs: tuple[list[Array], ...]
    wide: list[Array]
    least_db: list[float]


def random_inputs(specs: Sequence[TensorSpec], network: Network) -> list[Arrays]:
    """Two samples, always the same: floats in [0, 1); whole numbers zero, then small.

    network: the source. A second sample that it does not take, since a number is out of its range, is left
    out; with zeros alone, a mask can hide all that a network of tokens computes.
    """
    first, second = ([_random(spec, seed, index) for seed, spec in enumerate(specs)] for index in range(2))
    try:
        network(second)
    except (IndexError, RuntimeError, ValueError):
        return [first]
    return [first, second]


def refuse_wrong(
    outputs: Sequence[TensorSpec],
    answers: Answers,
    expected: Sequence[Array],
    least_db: Sequence[float],
    package: Path,
) -> None:
    """ToolchainError unless each output of the build is as declared, finite where it should be, and near.

    expected: of what was converted, each output over all samples. least_db: SQNR in dB that each reaches.
    """
    given = zip(*answers.outputs, strict=True)
    for spec, values, wide, wanted, least in zip(
        outputs, given, answers.wide, expected, least_db, strict=True
    ):
        fault = fault_of(spec, values, wanted, -math.inf)
        if fault is None and spec.dtype.startswith("float"):
            computed = TensorSpec(spec.name, wide.dtype.name, wide.shape)
            fault = fault_of(computed, [wide], wanted, least)
        if fault is not None:
            raise ToolchainError(
                f"The Core ML build's output {spec.name!r} is wrong: {fault}.",
                where=str(package),
                next_step="Float16 ends at 65504: use a float32 recipe."
                if "not finite" in fault
                else "The converter misunderstands the model. Leave the Core ML builds out.",
            )


def _random(spec: TensorSpec, seed: int, index: int) -> Array:
    draw = np.random.default_rng((seed, index))
    if spec.dtype.startswith("float"):
        return draw.random(spec.shape).astype(spec.dtype)
    limit = (1, 2 if spec.dtype == "bool" else SMALL_INTEGERS)[index]
    return draw.integers(0, limit, spec.shape).astype(spec.dtype)
