"""Which runtimes the host harness can load, by name. Modules are imported only when a job names them."""

import importlib
import importlib.metadata
from collections.abc import Mapping
from typing import Final

from phoneproof.errors import RuntimeUnavailableError
from phoneproof.runtimes.runtime import Runtime

RUNTIME_MODULES: Final[Mapping[str, str]] = {
    "onnxruntime": "phoneproof.runtimes.onnxruntime_cpu:runtime",
    "source": "phoneproof.runtimes.source:runtime",
}

_PACKAGES: Final[Mapping[str, str]] = {"onnxruntime": "onnxruntime", "source": "onnxruntime"}
"""Package that executes, for each runtime."""


def installed_version(name: str) -> str | None:
    """Version of the package that executes, without importing it; None if it is unknown or not installed."""
    if name not in _PACKAGES:
        return None
    try:
        return importlib.metadata.version(_PACKAGES[name])
    except importlib.metadata.PackageNotFoundError:
        return None


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
