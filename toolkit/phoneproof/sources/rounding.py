"""How far rounding alone takes a network's outputs: the measure of how far a right build may be.

A build computes what its source does, but sums in another order, and rounds a value that lies between two
levels to the other one. How much of that reaches the outputs is the network's own matter: one loses a
hundred times what another does. So it is measured, by computing the network again with every rounding a
little off (Monte Carlo arithmetic: Parker, UCLA CSD-970002, 1997), and a build is held to a few decibels more
than that. A fixed limit that lets the worst network pass lets wrong builds of all others pass, too.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode

from phoneproof.sources.agreement import FLOAT_SLACK_DB, MOST_FLOAT_DB, Arrays, Network, joined, sqnr_db

STEP_SHARE: Final = 0.1
"""Share of a step by which values are moved before they are rounded to it: one in twenty takes the next
level. XNNPACK and QNNPACK round one in 700 otherwise than torch's float arithmetic, operator by operator."""

STEP_SLACK_DB: Final = 6.0
"""Of a few values that is what two draws differ by. XNNPACK's MobileNetV2 and a transformer of ours are 1 to
10 dB nearer to the quantized program than that is to itself when its values are moved by STEP_SHARE."""

_DRAWS: Final = 2

Array = NDArray[Any]


class _Moved(TorchDispatchMode):
    """Moves what operators round by up to `size` units; always the same for one `seed`."""

    def __init__(self, size: float, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._size = size
        self._draw = torch.Generator().manual_seed(seed)

    def noise(self, like: torch.Tensor) -> torch.Tensor:
        """Uniform numbers within ± size, of the shape and dtype of `like`."""
        drawn = torch.rand(like.shape, generator=self._draw) * 2 - 1
        return (drawn * self._size).to(like.dtype)


class MovedResults(_Moved):  # type: ignore[no-untyped-call]
    """Every float result is multiplied by 1 ± `size` units of its last digit."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """See TorchDispatchMode."""
        found = func(*args, **(kwargs or {}))
        if isinstance(found, tuple | list):
            return type(found)(self._moved(one) for one in found)
        return self._moved(found)

    def _moved(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        moved = value * (1 + self.noise(value) * torch.finfo(value.dtype).eps)
        # Whole numbers are exact, as indices, masks and counts are that a program computes in float.
        return torch.where(value == value.round(), value, moved)


class MovedSteps(_Moved):  # type: ignore[no-untyped-call]
    """What is quantized is first moved by ± `size` steps. Weights that are stored in integers stay."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """See TorchDispatchMode."""
        if func.overloadpacket.__name__ == "quantize_per_tensor":
            value, scale, *rest = args
            args = ((value + scale * self.noise(value)).to(value.dtype), scale, *rest)
        return func(*args, **(kwargs or {}))


def least_float_db(network: Network, samples: Sequence[Arrays], expected: Sequence[Array]) -> list[float]:
    """Signal to noise ratio in dB that each output of a right float build reaches against `network`.

    network: computed by torch. samples: sets of its inputs. expected: its outputs as `joined` gives them.
    """
    moved = _least_db(network, samples, expected, [MovedResults(1.0, seed) for seed in range(_DRAWS)])
    return [min(least - FLOAT_SLACK_DB, MOST_FLOAT_DB) for least in moved]


def least_step_db(network: Network, samples: Sequence[Arrays], expected: Sequence[Array]) -> list[float]:
    """Likewise of a build of the quantized program `network`; of an output that no step reaches, as of float.

    network: computed by torch in float, between operators that quantize (quantize_per_tensor of aten or of
    quantized_decomposed).
    """
    steps = step_db(network, samples, expected)
    if math.inf not in steps:
        return steps
    pairs = zip(steps, least_float_db(network, samples, expected), strict=True)
    return [of_float if one == math.inf else one for one, of_float in pairs]


def step_db(network: Network, samples: Sequence[Arrays], expected: Sequence[Array]) -> list[float]:
    """As `least_step_db`, but infinite for an output that no step reaches."""
    moved = _least_db(network, samples, expected, [MovedSteps(STEP_SHARE, seed) for seed in range(_DRAWS)])
    return [one - STEP_SLACK_DB for one in moved]


@contextmanager
def one_thread() -> Iterator[None]:
    """Have torch compute with one thread: two on busy cores wait for each other, 30 s long instead of 3."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _least_db(
    network: Network, samples: Sequence[Arrays], expected: Sequence[Array], modes: Sequence[_Moved]
) -> list[float]:
    least = [math.inf] * len(expected)
    for mode in modes:
        with mode:
            moved = joined(network, samples)
        reached = [sqnr_db(one, other) for one, other in zip(expected, moved, strict=True)]
        least = [min(pair) for pair in zip(least, reached, strict=True)]
    return least
