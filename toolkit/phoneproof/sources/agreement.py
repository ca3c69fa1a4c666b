"""Do two forms of one network compute the same? Tried on random inputs, which the caller may not know."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from phoneproof.protocol.tensors import TensorSpec

Arrays = Sequence[NDArray[Any]]
Network = Callable[[Arrays], Arrays]

SMALL_INTEGERS: Final = 4
"""Trial integers are below this: token ids, classes and positions, of which every model has a few."""


FLOAT_LEAST_DB: Final = 80.0
"""Least signal to noise ratio, in decibels, of two forms of a network that both compute in float32."""


MOST_FLOAT_DB: Final = 100.0
"""The most that is asked of a form in float32 where what its rounding makes is measured: a right one reaches
120 dB and more, one with an approximated function, another epsilon or weights in float16 some 60 to 80."""

FLOAT_SLACK_DB: Final = 20.0
"""How much nearer a network is to itself with each result moved by a digit than a right form of it may be. A
dot product of a thousand terms errs by some ten digits. XNNPACK's MobileNetV2 is 124 dB from torch's, which
is 131 dB from itself; basic-pitch's Core ML program is 81 dB from TensorFlow's and 89 dB from itself."""


def trial_inputs(specs: Sequence[TensorSpec]) -> Iterator[list[NDArray[Any]]]:
    """Three sets of inputs, always the same: integers zero, then small; floats normal, wide, and off centre.

    Each array has the dtype and shape of its spec. A condition on the data that was settled when the network
    was traced shows in one of them: they differ in sign, size and, in the last, in every sample's mean.
    """
    for trial, (spread, mean) in enumerate(((1.0, 0.0), (3.0, 0.0), (1.0, -2.0))):
        draw = np.random.default_rng(trial)
        yield [_draw(spec, draw, trial, spread, mean) for spec in specs]


def accepted_inputs(network: Network, specs: Sequence[TensorSpec]) -> list[Arrays]:
    """Those of `trial_inputs` that the network takes: all, but integers that are out of its range."""
    found: list[Arrays] = []
    for inputs in trial_inputs(specs):
        try:
            network(inputs)
        except (IndexError, RuntimeError, ValueError):
            if not found or not _has_integers(specs):
                raise
            continue
        found.append(inputs)
    return found


def disagreement(
    reference: Network, network: Network, specs: Sequence[TensorSpec], least_db: float
) -> str | None:
    """Where `network` differs from `reference` beyond a signal to noise ratio of `least_db` decibels.

    None where it does not. Integer outputs have to be equal. An input with integers that the reference itself
    refuses, all but the zeros, is not tried: an index out of range says nothing about the network.
    """
    for inputs in accepted_inputs(reference, specs):
        what = difference(reference(inputs), network(inputs), least_db)
        if what is not None:
            return what
    return None


def difference(expected: Arrays, found: Arrays, least_db: float) -> str | None:
    """Where outputs differ beyond a signal to noise ratio of `least_db` decibels, or None."""
    if len(found) != len(expected):
        return f"it gives {len(found)} outputs, not {len(expected)}"
    for index, (one, other) in enumerate(zip(expected, found, strict=True)):
        what = _difference(one, other, least_db)
        if what is not None:
            return f"output {index} {what}"
    return None


def joined(network: Network, samples: Sequence[Arrays]) -> list[NDArray[Any]]:
    """Each output over all samples, in one array of one axis."""
    found = [[one.ravel() for one in network(arrays)] for arrays in samples]
    return [np.concatenate(values) for values in zip(*found, strict=True)]


def sqnr_db(reference: NDArray[Any], value: NDArray[Any]) -> float:
    """Signal to noise ratio of two float arrays of one shape, in decibels.

    Infinite where they are equal, NaN and infinities in the same places counted as equal; minus infinity
    where they are not finite in different places.
    """
    one, other = reference.astype(np.float64), value.astype(np.float64)
    finite = np.isfinite(one)
    if (
        not np.array_equal(one[~finite], other[~finite], equal_nan=True)
        or not np.isfinite(other[finite]).all()
    ):
        return -math.inf
    noise = float(np.square(one[finite] - other[finite]).sum())
    signal = float(np.square(one[finite]).sum())
    if noise == 0.0:
        return math.inf
    return 10.0 * math.log10(signal / noise) if signal else -math.inf


def _difference(reference: NDArray[Any], value: NDArray[Any], least_db: float) -> str | None:
    if reference.shape != value.shape or reference.dtype != value.dtype:
        return f"is {value.dtype} {value.shape}, not {reference.dtype} {reference.shape}"
    if not np.issubdtype(reference.dtype, np.floating):
        return None if np.array_equal(reference, value) else "has other integers"
    ratio = sqnr_db(reference, value)
    return None if ratio >= least_db else f"has a signal to noise ratio of {ratio:.1f} dB"


def _draw(
    spec: TensorSpec, draw: np.random.Generator, trial: int, spread: float, mean: float
) -> NDArray[Any]:
    if spec.dtype.startswith("float"):
        return (draw.standard_normal(spec.shape) * spread + mean).astype(spec.dtype)
    if trial == 0:
        return np.zeros(spec.shape, spec.dtype)
    limit = 2 if spec.dtype == "bool" else SMALL_INTEGERS
    return draw.integers(0, limit, spec.shape).astype(spec.dtype)


def _has_integers(specs: Sequence[TensorSpec]) -> bool:
    return any(not spec.dtype.startswith("float") for spec in specs)
