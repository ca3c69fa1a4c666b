"""ExecuTorch on this machine: the pip package's runtime, with XNNPACK and the portable and quantized kernels.

A .pte has no names: inputs are bound by their order. Which operators a delegate runs is settled in the file
(see BuildManifest.not_delegated); the runtime itself tells nothing of it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import executorch.kernels.quantized  # noqa: F401 - registers the kernels of quantized_decomposed
import numpy as np
import torch

# The bindings of executorch.runtime without it, which imports the whole exporter with torchao: 5 s more.
from executorch.extension.pybindings import _C
from numpy.typing import NDArray

from phoneproof.errors import RuntimeUnavailableError, UnsupportedOperatorError, said
from phoneproof.runtimes.runtime import Invocation, LoadRequest, Runtime, Session, Tensors

ACCELERATOR: Final = "cpu"
METHOD: Final = "forward"

_DTYPES: Final[Mapping[int, str]] = dict(
    enumerate(
        ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "?", "?", "?", "bool")
    )
)
"""numpy's name of each of ExecuTorch's scalar types (runtime/core/portable_type/scalar_type.h)."""

_open: set[int] = set()
"""Sessions of this process that may hold the pool of threads."""


def runtime() -> Runtime:
    """ExecuTorch as installed."""
    return Runtime("executorch", metadata.version("executorch"), load)


def load(request: LoadRequest) -> Session:
    """A session on the CPU, which is where XNNPACK runs.

    RuntimeUnavailableError for another accelerator, a delegate that this package does not have, or a second
    number of threads in one process; UnsupportedOperatorError for operators without a kernel; ValueError for
    an option, of which there are none, and for a damaged file.
    """
    if request.accelerator != ACCELERATOR:
        raise RuntimeUnavailableError(
            f"ExecuTorch on this host has no accelerator {request.accelerator!r}.", known=(ACCELERATOR,)
        )
    for name in request.options:
        raise ValueError(f"executorch has no option {name!r}; it has none")
    _set_threads(request.threads)
    return ExecutorchSession(request.model)


class ExecutorchSession:
    """A loaded .pte file."""

    def __init__(self, path: Path) -> None:
        self._program: Any = None
        try:
            self._program = _C._load_program(str(path))
        except RuntimeError as error:
            raise ValueError(
                f"{path.name} is not an ExecuTorch program, or is damaged: {said(error)}"
            ) from error
        try:
            self._method: Any = self._program.load_method(METHOD)
        except RuntimeError as error:
            raise _translated(error, path) from error
        facts = self._method.method_meta()
        self._inputs = [facts.input_tensor_meta(index) for index in range(facts.num_inputs())]
        self.operators: Mapping[str, int] | None = None
        self.accelerator_actual: str | None = ACCELERATOR
        _open.add(id(self))

    def prepare(self, inputs: Mapping[str, NDArray[Any]]) -> Invocation:
        """See Session. The order of `inputs` decides which is which."""
        if self._method is None:
            raise ValueError("the session is closed")
        if len(inputs) != len(self._inputs):
            raise ValueError(f"inputs are {list(inputs)}, the build takes {len(self._inputs)}")
        for place, ((name, value), wanted) in enumerate(zip(inputs.items(), self._inputs, strict=True)):
            taken = _DTYPES.get(wanted.dtype(), "?")
            if value.dtype.name != taken or value.shape != tuple(wanted.sizes()):
                raise ValueError(
                    f"input {place}, {name!r}, is {value.dtype.name} {value.shape}, the build takes {taken} "
                    f"{tuple(wanted.sizes())} there"
                )
        # torch takes no read-only arrays, which samples are.
        bound = [torch.from_numpy(np.array(value)) for value in inputs.values()]
        return partial(_invoke, self._method, bound)

    def close(self) -> None:
        """See Session."""
        self._method = None
        self._program = None
        _open.discard(id(self))


def _invoke(method: Callable[[list[torch.Tensor]], list[Any]], inputs: list[torch.Tensor]) -> Tensors:
    # Inputs go in every time: the memory plan lets intermediate values overwrite them.
    return tuple(np.asarray(value) for value in method(inputs))


def _set_threads(wanted: int) -> None:
    """Give the process's only pool of threads this size.

    A loaded program holds the pool that it was loaded with, and another size makes another pool and frees
    that one: so it cannot change while sessions are open.
    """
    if _C._threadpool_get_thread_count() == wanted:
        return
    if _open:
        raise RuntimeUnavailableError(
            "ExecuTorch has one pool of threads for all programs of a process; "
            f"it has {_C._threadpool_get_thread_count()} threads and not {wanted}.",
            next_step="Use the same number of threads for builds that are measured together.",
        )
    _C._unsafe_reset_threadpool(wanted)
    actual = _C._threadpool_get_thread_count()
    if actual != wanted:
        raise RuntimeUnavailableError(
            f"ExecuTorch uses {actual} threads on this machine, not {wanted}.",
            next_step=f"Set threads = {actual}.",
        )


def _translated(error: RuntimeError, path: Path) -> Exception:
    """What a method that cannot be loaded needs and this package does not have; else a damaged file."""
    from executorch.exir._serialize._program import deserialize_pte_binary

    try:
        program = deserialize_pte_binary(path.read_bytes()).program
        plan = next(plan for plan in program.execution_plan if plan.name == METHOD)
        delegates = {delegate.id for delegate in plan.delegates}
        operators = {f"{one.name}.{one.overload}" if one.overload else one.name for one in plan.operators}
    except Exception:  # noqa: BLE001 - the reader checks little itself: whatever it stumbles over is damage
        return ValueError(f"{path.name} is damaged, or has no method {METHOD!r}: {said(error)}")
    absent = sorted(delegates - set(_C._get_registered_backend_names()))
    if absent:
        return RuntimeUnavailableError(
            f"The build needs the delegate {', '.join(absent)}, which this ExecuTorch does not have.",
            next_step="Run it on a device that has it, or build it for XNNPACK.",
            delegates=tuple(absent),
        )
    unknown = sorted(operators - set(_C._get_operator_names()))
    if unknown:
        return UnsupportedOperatorError(
            f"The build has operators that this ExecuTorch has no kernel for: {', '.join(unknown[:5])}.",
            next_step="Use another operator in the model, or leave it to another runtime.",
            operators=tuple(unknown),
        )
    return ValueError(f"{path.name} cannot be loaded: {said(error)}")
