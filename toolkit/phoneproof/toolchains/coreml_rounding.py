"""An ML program run without float16's rounding, and how far rounding would take it from itself.

What a converter decides is what is computed, and in which dtypes. What float16 then loses is the network's
own matter, and the parity gate's to judge: basic-pitch, which takes logarithms of a spectrum, keeps 17 dB on
its sounds. So a package is compared with its source as the interpreter computes it in float32 throughout,
with the weights as they are stored. See sources/rounding for the limits that are measured, not fixed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from phoneproof.recipes.table import Precision
from phoneproof.runtimes.mil.interpreter import Hold, PreparedBlock, run
from phoneproof.runtimes.mil.package import Package
from phoneproof.runtimes.mil.types import held
from phoneproof.sources.agreement import FLOAT_SLACK_DB, MOST_FLOAT_DB, Arrays, sqnr_db

Array = NDArray[Any]

WEIGHT_SLACK_DB: Final = 6.0
"""Weights are moved by a whole unit at most, and rounding moves them by half of one: builds of MobileNetV2, a
transformer and basic-pitch are 2 to 12 dB nearer to their sources than their programs are to themselves."""

_FLOAT32_UNIT: Final = 2.0**-23
_FLOAT16_UNIT: Final = 2.0**-11
_DRAWS: Final = 2


def widened(value: Any, dtype: str) -> Array:
    """As `held`, but float16 is not rounded."""
    return held(value, "fp32" if dtype == "fp16" else dtype)


def computed(
    block: PreparedBlock, package: Package, inputs: Sequence[str], samples: Sequence[Arrays], hold: Hold
) -> list[Array]:
    """Each output over all samples, in one array of one axis. inputs: names, in the order of a sample."""
    declared = {one.name: one.type for one in package.program.inputs}
    dtypes = {feature.name: feature.dtype for feature in package.inputs}
    found: list[list[Array]] = []
    for arrays in samples:
        feed = {}
        for name, array in zip(inputs, arrays, strict=True):
            value = widened(array.astype(dtypes[name]), declared[name].dtype)
            feed[name] = value.reshape(()) if declared[name].shape == () else value
        results = run(block, feed, hold)
        found.append([results[feature.name].ravel() for feature in package.outputs])
    return [np.concatenate(values) for values in zip(*found, strict=True)]


def least_db(
    block: PreparedBlock, compute: Callable[[PreparedBlock, Hold], list[Array]], precision: Precision
) -> list[float]:
    """Signal to noise ratio in dB that a right build in float reaches against its source, by output.

    compute: runs a block with its results held so. Of float32, each result is moved by up to a unit; of
    float16, each weight.
    """
    expected, least = compute(block, widened), [math.inf] * len(block.outputs)
    for seed in range(_DRAWS):
        draw = np.random.default_rng(seed)
        if precision is Precision.FLOAT32:
            found = compute(block, _MovedResults(draw))
        else:
            found = compute(_with_moved_constants(block, draw), widened)
        reached = [sqnr_db(one, other) for one, other in zip(expected, found, strict=True)]
        least = [min(pair) for pair in zip(least, reached, strict=True)]
    slack = FLOAT_SLACK_DB if precision is Precision.FLOAT32 else WEIGHT_SLACK_DB
    return [min(one - slack, MOST_FLOAT_DB) for one in least]


class _MovedResults:
    """Holds results moved by up to a unit of float32."""

    def __init__(self, draw: np.random.Generator) -> None:
        self._draw = draw

    def __call__(self, value: Any, dtype: str) -> Array:
        return _moved(widened(value, dtype), _FLOAT32_UNIT, self._draw)


def _with_moved_constants(block: PreparedBlock, draw: np.random.Generator) -> PreparedBlock:
    """The block, and those inside it, with each float constant moved by up to a unit of float16."""
    constants: Mapping[str, Any] = {
        name: _moved(value, _FLOAT16_UNIT, draw) if isinstance(value, np.ndarray) else value
        for name, value in block.constants.items()
    }
    steps = tuple(
        replace(step, blocks=tuple(_with_moved_constants(inner, draw) for inner in step.blocks))
        for step in block.steps
    )
    return replace(block, constants=constants, steps=steps)


def _moved(value: Array, unit: float, draw: np.random.Generator) -> Array:
    """Whole numbers stay: they are exact, as indices, masks and counts are that a program holds in float."""
    if value.dtype != np.float32:
        return value
    moved = value * (1 + unit * draw.uniform(-1, 1, value.shape))
    return np.where(value == np.round(value), value, moved).astype(np.float32)
