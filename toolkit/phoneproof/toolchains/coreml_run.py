"""Runs a package by the interpreter in a process of its own, for a toolchain whose process has no torch.

`python -m phoneproof.toolchains.coreml_run REQUEST.json`. Request (RunRequest); result: `{"outputs": file or
null, "wide": file or null, "reference": file or null, "least_db": [...]}`, .npz files in the request's folder
with arrays by number.
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
from phoneproof.recipes.table import Precision
from phoneproof.sources.agreement import Arrays, joined
from phoneproof.toolchains.coreml_compare import Answers

_ARRAYS: Final = "arrays.npz"
_REQUEST: Final = "request.json"


@dataclass(frozen=True)
class RunRequest:
    """package: to run. inputs: its own. samples: how many there are. precision: to measure limits in, if any.

    quantized: constants of it that are int8, if it was made of the float package `float_package`, which is
    then run with them: what the package must give.
    """

    package: str
    inputs: tuple[TensorSpec, ...]
    samples: int
    precision: Precision | None = None
    float_package: str | None = None
    quantized: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outputs:
    """answers: of the package, None where it has operators that the interpreter does not know. reference: of
    the float package with the int8 weights, where one was given, each output over all samples.
    """

    answers: Answers | None
    reference: list[NDArray[Any]] | None


def run_apart(request: RunRequest, samples: Sequence[Arrays], folder: Path) -> Outputs:
    """Run the package in another process, with `folder` to work in. ToolchainError as coreml_check."""
    folder.mkdir(parents=True, exist_ok=True)
    _save(folder / _ARRAYS, [array for arrays in samples for array in arrays])
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
    outputs, wide, reference = (_load(folder, found[name]) for name in ("outputs", "wide", "reference"))
    if outputs is None or wide is None:
        return Outputs(None, None)
    return Outputs(Answers(_parted(outputs, len(samples)), wide, found["least_db"]), reference)


def run(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """The work of the other process."""
    from phoneproof.toolchains.coreml_check import interpreted, with_decoded_weights

    wanted = from_dict(RunRequest, request)
    samples = _parted(_load(folder, _ARRAYS) or [], wanted.samples)
    answers = interpreted(Path(wanted.package), wanted.inputs, samples, wanted.precision)
    if answers is None:
        return {"outputs": None, "wide": None, "reference": None, "least_db": []}
    found = {"outputs": [one for values in answers.outputs for one in values], "wide": answers.wide}
    if wanted.float_package is not None:
        names = [spec.name for spec in wanted.inputs]
        packages = (Path(wanted.float_package), Path(wanted.package))
        found["reference"] = joined(with_decoded_weights(*packages, wanted.quantized, names), samples)
    for name, values in found.items():
        _save(folder / f"{name}.npz", values)
    files = {name: f"{name}.npz" if name in found else None for name in ("outputs", "wide", "reference")}
    return {**files, "least_db": answers.least_db}


def _parted(arrays: Sequence[NDArray[Any]], count: int) -> tuple[list[NDArray[Any]], ...]:
    """Arrays of `count` samples, one after the other, by sample."""
    size = len(arrays) // count
    return tuple(list(arrays[index * size : (index + 1) * size]) for index in range(count))


def _save(path: Path, arrays: Sequence[NDArray[Any]]) -> None:
    np.savez(path, *arrays)


def _load(folder: Path, name: str | None) -> list[NDArray[Any]] | None:
    if name is None:
        return None
    with np.load(folder / name) as file:
        return [file[f"arr_{index}"] for index in range(len(file.files))]


if __name__ == "__main__":
    sys.exit(run_worker(run))
