"""The seam to what executes a build: a runtime is a small struct of functions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

Tensors = tuple[NDArray[Any], ...]
Invocation = Callable[[], Sequence[NDArray[Any]]]


@dataclass(frozen=True)
class LoadRequest:
    """How a build is to be loaded.

    model: the model file, or folder. allow_fallback: whether operators may run elsewhere than on the
    accelerator. options: the runtime's own, by name; an unknown one is an error.
    """

    model: Path
    accelerator: str
    allow_fallback: bool
    threads: int
    options: Mapping[str, str]


class Session(Protocol):
    """A loaded build."""

    accelerator_actual: str | None
    """Accelerator that the runtime reports to use; None where it does not tell."""
    operators: Mapping[str, int] | None
    """Number of operators on each accelerator, as the runtime reports it; None where it does not tell."""

    def prepare(self, inputs: Mapping[str, NDArray[Any]]) -> Invocation:
        """An invocation with these inputs bound: calling it runs one inference and nothing else.

        inputs: by name, in the build's dtype and shape, batch included. ValueError for an input that the
        build does not have, or one that is missing.
        """

    def close(self) -> None:
        """Give the memory back. Safe twice."""


@dataclass(frozen=True)
class Runtime:
    """One runtime as it is installed here. version: of the package that executes."""

    name: str
    version: str
    load: Callable[[LoadRequest], Session]
