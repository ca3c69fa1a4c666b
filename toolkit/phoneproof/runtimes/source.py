"""The reference: the source model itself, run as it came, on the host's CPU, in the framework of its format.

Nothing of a vendor is imported before a model is loaded, and then only what reads its format.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from phoneproof.errors import RuntimeUnavailableError, SourceModelError
from phoneproof.runtimes.runtime import LoadRequest, Runtime, Session

_ONNX: Final = "phoneproof.runtimes.source_onnx"
_TORCH: Final = "phoneproof.runtimes.source_torch"
_TENSORFLOW: Final = "phoneproof.runtimes.source_tensorflow"
_BY_SUFFIX: Final = {".onnx": _ONNX, ".pt2": _TORCH, ".keras": _TENSORFLOW}


def runtime() -> Runtime:
    """The reference; its version names all frameworks that are installed here."""
    # The registry names this module; imported late, the two do not go in a circle.
    from phoneproof.runtimes.registry import installed_version

    return Runtime("source", installed_version("source") or "none", load)


def load(request: LoadRequest) -> Session:
    """A session of the source model.

    RuntimeUnavailableError for an accelerator, or a framework that is not installed; SourceModelError for a
    file that is no source model by its name.
    """
    if request.accelerator != "cpu":
        raise RuntimeUnavailableError(f"The reference runs on the CPU, not on {request.accelerator!r}.")
    name = _TENSORFLOW if request.model.is_dir() else _BY_SUFFIX.get(request.model.suffix)
    if name is None:
        raise SourceModelError(
            f"The reference runs {', '.join(_BY_SUFFIX)} and SavedModel folders.",
            where=request.model.name,
            next_step="Give the file the ending of its format.",
        )
    return _loader(name, request.model)(request)


def _loader(name: str, model: Path) -> Callable[[LoadRequest], Session]:
    try:
        found: Callable[[LoadRequest], Session] = importlib.import_module(name).load
    except ImportError as error:
        raise RuntimeUnavailableError(
            f"What runs {model.suffix or 'SavedModel'} sources cannot be imported: {error}.",
            next_step="Run `phoneproof doctor` to see what mends it.",
        ) from error
    return found
