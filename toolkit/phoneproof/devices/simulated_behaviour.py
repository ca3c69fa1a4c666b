"""What a simulated device is to do: answers, latencies and faults, all scripted."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from phoneproof.protocol.events import Confidence, EndCause
from phoneproof.protocol.job import Configuration

Tensors = tuple[NDArray[Any], ...]
Answer = Callable[[Configuration, Mapping[str, NDArray[Any]]], Tensors]
"""Outputs of a configuration for the inputs of one sample. What it raises fails the sample, as a runtime's
error would."""
Latency = Callable[[Configuration, int], int]
"""Time in ns of run number n (from 0, in one case) of a configuration."""

Waiting = Callable[[Configuration, int], int | None]
"""What a configuration waits for a processor in a visit whose timed runs take so many ns together, in ns;
None where the device does not tell."""

FaultKind = Literal["error", "crash", "exit", "timed_out", "low_memory", "lost"]
Place = Literal["load", "infer", "benchmark"]

ENDINGS: Final[Mapping[str, tuple[EndCause, int | None, Confidence]]] = {
    "crash": ("signal", 11, "high"),
    "exit": ("exited", 3, "high"),
    "timed_out": ("timed_out", 6, "high"),
    "low_memory": ("low_memory", 9, "medium"),
}
"""How the supervisor sees the end of the runner for each fault that ends it."""


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong at one place.

    kind: `error` is reported by the runtime and survived; crash, exit, timed_out and low_memory end the
    runner; `lost` takes the device away, so that nobody sees the runner's end.
    configuration: id; of a benchmark, its candidate's. sample: which one, for `infer` only.
    times: how often it happens before it does not any more; None for always.
    """

    kind: FaultKind
    configuration: str
    at: Place
    sample: int | None = None
    times: int | None = None

    def __post_init__(self) -> None:
        if (self.at == "infer") != (self.sample is not None):
            raise ValueError("a fault has a sample if, and only if, it is at `infer`")


@dataclass(frozen=True)
class Loading:
    """What loading a configuration costs and tells.

    operators: number on each accelerator. A fall-back is an accelerator_actual that was not requested.
    """

    load_ms: float = 10.0
    peak_memory_bytes: int | None = 10_000_000
    accelerator_actual: str | None = "cpu"
    operators: Mapping[str, int] | None = None


def _load_as_requested(configuration: Configuration) -> Loading:
    return Loading(accelerator_actual=configuration.accelerator)


def constant_latency(latency_ns: int = 2_000_000) -> Latency:
    """Every run takes the same time."""
    return lambda configuration, run: latency_ns


def noisy_latency(median_ns: Mapping[str, int], spread: float = 0.02, seed: int = 0) -> Latency:
    """Log-normal times around each configuration's median (by id), the same for the same seed.

    spread: standard deviation of the logarithm.
    """

    def latency(configuration: Configuration, run: int) -> int:
        name = configuration.configuration_id
        digest = hashlib.sha256(f"{seed} {name} {run}".encode()).digest()
        draw = np.random.default_rng(int.from_bytes(digest[:8], "little")).standard_normal()
        return max(1, round(median_ns[name] * float(np.exp(spread * draw))))

    return latency


def steady_waiting(share: float) -> Waiting:
    """Every visit waits this share of its timed runs. It adds nothing to their times."""
    return lambda configuration, timed_ns: round(share * timed_ns)


@dataclass(frozen=True)
class Behaviour:
    """All that a simulated device does."""

    answer: Answer
    latency: Latency = field(default_factory=constant_latency)
    loading: Callable[[Configuration], Loading] = _load_as_requested
    faults: tuple[Fault, ...] = ()
    waiting: Waiting = field(default_factory=lambda: steady_waiting(0.0))
