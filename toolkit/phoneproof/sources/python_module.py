"""PyTorch source models: the torch.nn.Module that a function of the user's gives, with its state loaded."""

import importlib
import random
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from phoneproof.errors import SourceModelError, said
from phoneproof.sources.request import PytorchSourceRequest

_LISTED: Final = 5


def module_of(request: PytorchSourceRequest) -> torch.nn.Module:
    """The module in evaluation mode, on the CPU, with the state of `request`.

    The random generators of Python, numpy and torch start from 0, so that a function without a seed of its
    own gives the same module in each worker process. SourceModelError, naming file and line of the user's
    code, for a function that is not there or fails, or gives no module; and for a state that does not fit.
    """
    function = _function(request)
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    try:
        module = function()
    except Exception as error:
        raise failure_in_code(request, error) from error
    if not isinstance(module, torch.nn.Module):
        raise SourceModelError(
            f"The function gives {type(module).__name__}, not a torch.nn.Module.",
            where=request.path,
            next_step="Return the module itself.",
        )
    if request.state is not None:
        _load_state(module, request)
    return module.cpu().eval()


def code_files(request: PytorchSourceRequest) -> tuple[Path, ...]:
    """The user's own files that are loaded now: that of the function first, then others of its folder."""
    folder = Path(request.folder).resolve()
    name = request.path.partition(":")[0]
    found = {}
    for key, module in sorted(sys.modules.items()):
        file = Path(getattr(module, "__file__", None) or "")
        # torch.classes names itself `_classes.py`, which is nowhere; relative, it would seem to be here.
        if not file.is_absolute() or "site-packages" in file.parts:
            continue
        if file.resolve().is_relative_to(folder):
            found[key] = file.resolve()
    first = [found[name]] if name in found else []
    return tuple(dict.fromkeys([*first, *found.values()]))


def failure_in_code(request: PytorchSourceRequest, error: BaseException) -> SourceModelError:
    """What the user's code raised, with the place of the traceback's last line."""
    place, trace = "", error.__traceback__
    while trace is not None:
        place = f"{Path(trace.tb_frame.f_code.co_filename).name} line {trace.tb_lineno}"
        trace = trace.tb_next
    return SourceModelError(
        f"The code of the model failed with {type(error).__name__}: {said(error)}.",
        where=f"{request.path} ({place})" if place else request.path,
        next_step="Run it in Python by itself and mend it.",
    )


def listed(names: Collection[str]) -> str:
    """The first few names, and how many more there are."""
    first = ", ".join(sorted(names)[:_LISTED])
    return first if len(names) <= _LISTED else f"{first} and {len(names) - _LISTED} more"


def _function(request: PytorchSourceRequest) -> Any:
    module_name, _, name = request.path.partition(":")
    if not module_name or not name:
        raise SourceModelError(
            "A PyTorch model is named as `module:function`.",
            where=request.path,
            next_step="Correct the path of the model.",
        )
    sys.path.insert(0, request.folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise failure_in_code(request, error) from error
        raise SourceModelError(
            f"There is no module {module_name!r}.",
            where=f"{request.path} in {request.folder}",
            next_step="Correct the name, or the folder in which it is looked for.",
        ) from error
    except Exception as error:
        raise failure_in_code(request, error) from error
    _refuse_namesake(module, module_name, request)
    function = getattr(module, name, None)
    if not callable(function):
        what = "has no" if function is None else "has something else than a"
        raise SourceModelError(
            f"The module {module_name!r} {what} function {name!r}.",
            where=request.path,
            next_step="Correct the name.",
        )
    return function


def _refuse_namesake(module: Any, name: str, request: PytorchSourceRequest) -> None:
    """A module that was loaded before hides the user's file of the same name (`inspect`, `signature`)."""
    here = Path(request.folder, *name.split("."))
    if not here.with_suffix(".py").is_file() and not (here / "__init__.py").is_file():
        return
    file = getattr(module, "__file__", None)
    if file is None or not Path(file).resolve().is_relative_to(Path(request.folder).resolve()):
        raise SourceModelError(
            f"Another module of the name {name!r} is loaded already and hides yours.",
            where=str(here.with_suffix(".py")),
            next_step="Rename your file.",
        )


def _load_state(module: torch.nn.Module, request: PytorchSourceRequest) -> None:
    path = Path(str(request.state))
    given = _read_state(path, request.trust_pickle)
    own = module.state_dict()
    missing, unexpected = own.keys() - given.keys(), given.keys() - own.keys()
    if missing or unexpected:
        parts = [
            f"lacks {listed(missing)}" if missing else "",
            f"has {listed(unexpected)}" if unexpected else "",
        ]
        what = " and ".join(part for part in parts if part)
        raise SourceModelError(
            f"The state {what}, unlike the module.",
            where=str(path),
            next_step="Load the state of this very module; nothing is left out or renamed.",
            missing=tuple(sorted(missing)[:20]),
            unexpected=tuple(sorted(unexpected)[:20]),
        )
    try:
        module.load_state_dict(given, strict=True)
    except RuntimeError as error:
        raise SourceModelError(
            f"The state does not fit the module: {said(error, 400)}.",
            where=str(path),
            next_step="Load the state of this very module, made with the same arguments.",
        ) from error


def _read_state(path: Path, trust_pickle: bool) -> Mapping[str, Any]:
    if not path.is_file():
        raise SourceModelError(
            "The file of the state does not exist.", where=str(path), next_step="Correct its path."
        )
    state = _read_safetensors(path) if path.suffix == ".safetensors" else _read_pt(path, trust_pickle)
    if not isinstance(state, Mapping) or not all(isinstance(name, str) for name in state):
        raise SourceModelError(
            f"The file holds {type(state).__name__}, not a state dict.",
            where=str(path),
            next_step="Save module.state_dict().",
        )
    nested = [name for name, value in state.items() if isinstance(value, Mapping)]
    if nested:
        raise SourceModelError(
            f"The file is a checkpoint with several parts ({listed(list(state))}), not a state dict.",
            where=str(path),
            next_step="Save module.state_dict() by itself.",
        )
    return state


def _read_safetensors(path: Path) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise SourceModelError(
            f"The file is damaged, or no .safetensors: {said(error)}.",
            where=str(path),
            next_step="Copy or save it again.",
        ) from error


def _read_pt(path: Path, trust_pickle: bool) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=not trust_pickle)
    except Exception as error:  # pickle's, zip's and torch's errors have no common class
        # torch's own words for both of its readers, the zip one and the legacy one.
        if not trust_pickle and "weights only" in str(error).lower().replace("_", " "):
            raise SourceModelError(
                "The file holds more than tensors; reading it may run code.",
                where=str(path),
                next_step="Save module.state_dict() alone, or as .safetensors; or set trust_pickle = true "
                "if you trust the file.",
                cause=said(error, 300),
            ) from error
        raise SourceModelError(
            f"The file of the state cannot be read: {said(error)}.",
            where=str(path),
            next_step="Copy or save it again.",
        ) from error
