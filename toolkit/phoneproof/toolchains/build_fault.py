"""What is wrong with an output of a build, against what it was made of."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phoneproof.protocol.tensors import TensorSpec
from phoneproof.sources.agreement import sqnr_db


def fault_of(
    spec: TensorSpec, values: Sequence[NDArray[Any]], reference: NDArray[Any], least_db: float
) -> str | None:
    """The fault as the end of a sentence, or None.

    values: the build's, of each sample. reference: of all samples in one axis. least_db: signal to noise
    ratio that rounding leaves (sources/rounding). Where the reference is not finite, the build may give
    anything. Whole numbers are not compared: of two classes that are nearly equal, rounding chooses.
    """
    for value in values:
        if value.dtype.name != spec.dtype or value.shape != spec.shape:
            return f"{value.dtype.name} {list(value.shape)} instead of {spec.dtype} {list(spec.shape)}"
    if not spec.dtype.startswith("float"):
        return None
    is_finite = np.isfinite(reference)
    wanted = reference[is_finite]
    given = np.concatenate([value.ravel() for value in values])[is_finite]
    if not np.isfinite(given).all():
        return "not finite where the source is"
    # A decibel of nothing says nothing: both are zero but for rounding.
    is_nothing = max(np.abs(wanted).max(initial=0.0), np.abs(given).max(initial=0.0)) < 1e-6
    reached = sqnr_db(wanted, given)
    if reached >= least_db or is_nothing:
        return None
    return f"{reached:.1f} dB against what it was made of, where rounding leaves {least_db:.1f} dB"
