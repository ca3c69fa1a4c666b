"""ONNX Runtime on this machine."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import onnxruntime as ort
from numpy.typing import NDArray

from phoneproof.errors import RuntimeUnavailableError
from phoneproof.runtimes.runtime import Invocation, LoadRequest, Runtime, Session

PROVIDERS: Final[Mapping[str, str]] = {
    "cpu": "CPUExecutionProvider",
    "xnnpack": "XnnpackExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
}
"""Execution provider of each accelerator."""

_CONFIG_ENTRIES: Final[Mapping[str, str]] = {
    # Without VNNI the AVX2 and AVX-512 kernels add pairs of uint8 x int8 products in int16, which saturates.
    # This entry makes them exact and slower: for parity and accuracy, not for latency.
    "x64quantprecision": "session.x64quantprecision",
}
_ACCELERATORS: Final = {provider: name for name, provider in PROVIDERS.items()}


def runtime() -> Runtime:
    """ONNX Runtime as installed."""
    return Runtime("onnxruntime", ort.__version__, load)


def load(request: LoadRequest) -> Session:
    """A session on exactly the accelerator asked for.

    RuntimeUnavailableError if the execution provider is not in this package, which onnxruntime itself would
    answer with a warning and the CPU.
    """
    options = session_options(request, ort.GraphOptimizationLevel.ORT_ENABLE_ALL)
    return OnnxSession(request, options)


def session_options(request: LoadRequest, level: ort.GraphOptimizationLevel) -> ort.SessionOptions:
    """Options for `request`; ValueError for an option that is not known."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = request.threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = level
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if request.accelerator != "cpu" and not request.allow_fallback:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    for name, value in request.options.items():
        if name not in _CONFIG_ENTRIES:
            raise ValueError(f"onnxruntime has no option {name!r}; known: {', '.join(_CONFIG_ENTRIES)}")
        if value not in ("0", "1"):
            raise ValueError(f"the option {name!r} is '0' or '1', not {value!r}")
        options.add_session_config_entry(_CONFIG_ENTRIES[name], value)
    return options


class OnnxSession:
    """A loaded ONNX model."""

    def __init__(self, request: LoadRequest, options: ort.SessionOptions) -> None:
        self._session: ort.InferenceSession | None = None
        provider = PROVIDERS.get(request.accelerator)
        if provider is None or provider not in ort.get_available_providers():
            raise RuntimeUnavailableError(
                f"This onnxruntime has no accelerator {request.accelerator!r}.",
                known=tuple(_ACCELERATORS[p] for p in ort.get_available_providers() if p in _ACCELERATORS),
            )
        session = ort.InferenceSession(str(request.model), options, providers=[provider])
        session.disable_fallback()
        self._session = session
        self._input_names = frozenset(i.name for i in session.get_inputs())
        self.operators: Mapping[str, int] | None = operators_per_accelerator(session)
        self.accelerator_actual: str | None = _dominant(self.operators, request.accelerator)

    def prepare(self, inputs: Mapping[str, NDArray[Any]]) -> Invocation:
        """See Session."""
        if self._session is None:
            raise ValueError("the session is closed")
        if set(inputs) != self._input_names:
            raise ValueError(f"inputs are {sorted(inputs)}, the build has {sorted(self._input_names)}")
        run: Callable[..., Any] = self._session.run
        return partial(run, None, dict(inputs))

    def close(self) -> None:
        """See Session."""
        self._session = None


def operators_per_accelerator(session: ort.InferenceSession) -> dict[str, int] | None:
    """Operators by accelerator after partitioning, before fusion; None if this version does not tell."""
    read = getattr(session, "get_provider_graph_assignment_info", None)
    if read is None:
        return None
    counts: dict[str, int] = {}
    for subgraph in read():
        name = _ACCELERATORS.get(subgraph.ep_name, subgraph.ep_name)
        counts[name] = counts.get(name, 0) + len(subgraph.get_nodes())
    return counts or None


def _dominant(operators: Mapping[str, int] | None, requested: str) -> str | None:
    """The accelerator used: the requested one if all operators are on it, else a mixture by name."""
    if operators is None:
        return None
    used = sorted(operators)
    return requested if used == [requested] else "+".join(used)
