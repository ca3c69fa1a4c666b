"""What the sessions of torch have in common: inputs held against the network, and no gradients."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from phoneproof.runtimes.runtime import Invocation

Run = Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]


@dataclass(frozen=True)
class Taken:
    """One input of a network: numpy's name of its dtype, and its lengths, None where any length is taken."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]

    def refuse(self, name: str, value: NDArray[Any]) -> None:
        """ValueError where `value`, given as `name`, is of another dtype or shape."""
        fits = len(value.shape) == len(self.shape) and all(
            wanted is None or wanted == length for wanted, length in zip(self.shape, value.shape, strict=True)
        )
        if value.dtype.name != self.dtype or not fits:
            raise ValueError(
                f"input {name!r} is {value.dtype.name} {value.shape}, the build has {self.dtype} {self.shape}"
            )


def bound(run: Run, inputs: Mapping[str, NDArray[Any]], taken: Sequence[Taken]) -> Invocation:
    """An invocation of `run` with the arrays in the order of `inputs`.

    taken: what the network takes, in its order. ValueError where number, dtype or shape differ.
    """
    if len(inputs) != len(taken):
        names = [one.name for one in taken]
        raise ValueError(f"inputs are {list(inputs)}, the build has {len(taken)}: {names}")
    tensors = []
    for (name, value), one in zip(inputs.items(), taken, strict=True):
        one.refuse(name, value)
        # A copy: torch warns of an array that may not be written to.
        tensors.append(torch.from_numpy(np.array(value)))

    def invoke() -> Sequence[NDArray[Any]]:
        with torch.inference_mode():
            return [tensor.numpy() for tensor in run(tensors)]

    return invoke
