"""Which runtimes the host harness can load, by name. Modules are imported only when a job names them."""

import importlib
import importlib.metadata
from collections.abc import Mapping
from typing import Final

from phoneproof.errors import RuntimeUnavailableError
from phoneproof.recipes.runtime_table import RUNTIMES
from phoneproof.runtimes.runtime import Runtime

RUNTIME_MODULES: Final[Mapping[str, str]] = {
    "coreml": "phoneproof.runtimes.coreml:runtime",
    "executorch": "phoneproof.runtimes.executorch:runtime",
    "litert": "phoneproof.runtimes.litert:runtime",
    "mil_interpreter": "phoneproof.runtimes.mil_interpreter:runtime",
    "onnxruntime": "phoneproof.runtimes.onnxruntime_cpu:runtime",
    "source": "phoneproof.runtimes.source:runtime",
    "torch_qnnpack": "phoneproof.runtimes.torch_qnnpack:runtime",
}

_SOURCE_PACKAGES: Final = ("onnxruntime", "tensorflow", "torch")
"""What runs source models, by their form."""


def installed_version(name: str) -> str | None:
    """Version of the package that executes, without importing it; None if it is unknown or not installed."""
    if name == "source":
        found = {package: _version(package) for package in _SOURCE_PACKAGES}
        known = [f"{package} {version}" for package, version in found.items() if version is not None]
        return ", ".join(known) or None
    return _version(RUNTIMES[name].package) if name in RUNTIMES else None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
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
