"""The reference of PyTorch sources: the exported program, operator by operator as it stands in the file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from numpy.typing import NDArray

from phoneproof.runtimes.runtime import Invocation, LoadRequest, Session
from phoneproof.runtimes.torch_session import Run, Taken, bound
from phoneproof.sources.exported_program import input_names, read_program, runner, tensor_of

TRUST_PICKLE: Final = "trust_pickle"


def load(request: LoadRequest) -> Session:
    """A session of an exported program.

    The only option is trust_pickle, 0 or 1: whether reading the file may run code. Dynamic axes stay so.
    ValueError for another option; SourceModelError as `read_program`.
    """
    for name, value in request.options.items():
        if name != TRUST_PICKLE:
            raise ValueError(f"the reference has no option {name!r}; known: {TRUST_PICKLE}")
        if value not in ("0", "1"):
            raise ValueError(f"the option {name!r} is '0' or '1', not {value!r}")
    torch.set_num_threads(request.threads)
    return ProgramSession(request.model, request.options.get(TRUST_PICKLE) == "1")


class ProgramSession:
    """A loaded program. Inputs are bound by name."""

    def __init__(self, path: Path, trust_pickle: bool) -> None:
        program = read_program(path, trust_pickle)
        self._taken = [_taken(name, tensor_of(program, name)) for name in input_names(program)]
        self._run: Run | None = runner(program)
        count = sum(node.op == "call_function" for node in program.graph.nodes)
        self.operators: Mapping[str, int] | None = {"cpu": count} if count else None
        self.accelerator_actual: str | None = "cpu" if count else None

    def prepare(self, inputs: Mapping[str, NDArray[Any]]) -> Invocation:
        """See Session."""
        if self._run is None:
            raise ValueError("the session is closed")
        names = [one.name for one in self._taken]
        if set(inputs) != set(names):
            raise ValueError(f"inputs are {sorted(inputs)}, the build has {sorted(names)}")
        return bound(self._run, {name: inputs[name] for name in names}, self._taken)

    def close(self) -> None:
        """See Session."""
        self._run = None


def _taken(name: str, value: Any) -> Taken:
    shape = tuple(length if isinstance(length, int) else None for length in value.shape)
    return Taken(name, str(value.dtype).removeprefix("torch."), shape)
