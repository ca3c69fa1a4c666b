"""The demo's three forms of one network must compute the same."""

from typing import Final

import numpy as np
import numpy.typing as npt

from phoneproof.errors import ToolchainError

TOLERANCE: Final = 1e-4
"""Largest difference of logits, which are of the order of 10. Another order of sums gives about 1e-5."""


def check_equal(expected: npt.NDArray[np.float32], found: npt.NDArray[np.float32], where: str) -> float:
    """The largest difference of two forms' logits, [n, 10] each. ToolchainError if it is above TOLERANCE."""
    if expected.shape != found.shape:
        raise ToolchainError(f"There are logits of {found.shape}, not {expected.shape}.", where=where)
    difference = float(np.abs(expected - found).max())
    if not difference <= TOLERANCE:
        raise ToolchainError(
            "It does not compute what the trained network computes: "
            f"the logits differ by up to {difference:.3g}.",
            where=where,
            next_step="Install the versions that are in requirements/demo.txt, and run the demo again.",
        )
    return difference
