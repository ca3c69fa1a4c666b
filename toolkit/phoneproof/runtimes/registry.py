"""Which runtimes the host harness can load, by name. Modules are imported only when a job names them."""

import importlib
from collections.abc import Mapping
from typing import Final

from phoneproof.errors import RuntimeUnavailableError
from phoneproof.runtimes.runtime import Runtime

RUNTIME_MODULES: Final[Mapping[str, str]] = {
    "onnxruntime": "phoneproof.runtimes.onnxruntime_cpu:runtime",
    "source": "phoneproof.runtimes.source:runtime",
}


def open_runtime(name: str, modules: Mapping[str, str] = RUNTIME_MODULES) -> Runtime:
    """The runtime of that name. RuntimeUnavailableError if it is unknown or its package is not installed."""
    if name not in modules:
        raise RuntimeUnavailableError(f"This harness has no runtime {name!r}.", known=tuple(modules))
    module_name, _, attribute = modules[name].partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise RuntimeUnavailableError(
            f"The runtime {name!r} cannot be imported: {error}.",
            next_step="Run `phoneproof doctor` to see what mends it.",
        ) from error
    opened: Runtime = getattr(module, attribute)()
    return opened
