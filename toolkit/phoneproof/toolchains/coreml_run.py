"""Runs a package by the interpreter in a process of its own, for a toolchain whose process has no torch.

`python -m phoneproof.toolchains.coreml_run REQUEST.json`. Request (RunRequest); result: `{"outputs": file or
null, "reference": file or null}`, .npz files in the request's folder with arrays by number.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from phoneproof.errors import ToolchainError, error_class
from phoneproof.protocol.codec import from_dict, to_dict
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import (
    ERROR_FILE,
    PARENT_VARIABLE,
    RESULT_FILE,
    Progress,
    run_worker,
    write_atomically,
)

_ARRAYS: Final = "arrays.npz"
_REQUEST: Final = "request.json"


@dataclass(frozen=True)
class RunRequest:
    """package: to run. inputs: its own. quantized: constants of it that are int8, if it was made of the float
    package `float_package`, which is then run with them: what the package must give.
    """

    package: str
    inputs: tuple[TensorSpec, ...]
    float_package: str | None = None
    quantized: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outputs:
    """outputs: of the package, None where it has operators that the interpreter does not know. reference: of
    the float package with the int8 weights, where one was given.
    """

    outputs: list[NDArray[Any]] | None
    reference: list[NDArray[Any]] | None


def run_apart(request: RunRequest, arrays: Sequence[NDArray[Any]], folder: Path) -> Outputs:
    """Run the package in another process, with `folder` to work in. ToolchainError as coreml_check."""
    folder.mkdir(parents=True, exist_ok=True)
    _save(folder / _ARRAYS, arrays)
    write_atomically(folder / _REQUEST, json.dumps(to_dict(request)))
    command = [sys.executable, "-m", "phoneproof.toolchains.coreml_run", str(folder / _REQUEST)]
    environment = {**os.environ, PARENT_VARIABLE: str(os.getpid())}
    ended = subprocess.run(command, env=environment, check=False)
    if (folder / ERROR_FILE).is_file():
        error = json.loads((folder / ERROR_FILE).read_text(encoding="utf-8"))
        kind = error_class(error["class"]) if error["class"] else ToolchainError
        raise kind(error["what"], where=error["where"], next_step=error["next_step"])
    if ended.returncode != 0 or not (folder / RESULT_FILE).is_file():
        raise ToolchainError(
            f"The interpreter's process ended with exit code {ended.returncode}.",
            where=request.package,
            next_step="The log tells where.",
        )
    found = json.loads((folder / RESULT_FILE).read_text(encoding="utf-8"))
    return Outputs(*(_load(folder, found[name]) for name in ("outputs", "reference")))


def run(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """The work of the other process."""
    from phoneproof.toolchains.coreml_check import interpreted, with_decoded_weights

    wanted = from_dict(RunRequest, request)
    arrays = _load(folder, _ARRAYS) or []
    outputs = interpreted(Path(wanted.package), wanted.inputs, arrays)
    reference = None
    if wanted.float_package is not None and outputs is not None:
        names = [spec.name for spec in wanted.inputs]
        packages = (Path(wanted.float_package), Path(wanted.package))
        reference = list(with_decoded_weights(*packages, wanted.quantized, names)(arrays))
    found = {"outputs": outputs, "reference": reference}
    for name, values in found.items():
        if values is not None:
            _save(folder / f"{name}.npz", values)
    return {name: None if values is None else f"{name}.npz" for name, values in found.items()}


def _save(path: Path, arrays: Sequence[NDArray[Any]]) -> None:
    np.savez(path, *arrays)


def _load(folder: Path, name: str | None) -> list[NDArray[Any]] | None:
    if name is None:
        return None
    with np.load(folder / name) as file:
        return [file[f"arr_{index}"] for index in range(len(file.files))]


if __name__ == "__main__":
    sys.exit(run_worker(run))
