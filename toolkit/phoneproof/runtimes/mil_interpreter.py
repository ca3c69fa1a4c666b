"""Core ML's ML programs interpreted on any machine: how a Core ML build is judged without Apple's devices.

A reference, not a way to run: its times say nothing and are never told, and the numerics of the GPU and the
Neural Engine are not modelled. What it computes is what the file says, in its order, without any
optimisation; mil/types.py has the rule for float16.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from phoneproof.errors import RuntimeUnavailableError, StorageError
from phoneproof.runtimes.mil.interpreter import PreparedBlock, prepare, run
from phoneproof.runtimes.mil.package import Feature, Package, read_package
from phoneproof.runtimes.mil.program import Output
from phoneproof.runtimes.mil.types import held
from phoneproof.runtimes.mil.vendor import COREMLTOOLS_VERSION
from phoneproof.runtimes.runtime import Invocation, LoadRequest, Runtime, Session


def runtime() -> Runtime:
    """The interpreter; the version is that of coremltools, which reads the package."""
    return Runtime("mil_interpreter", COREMLTOOLS_VERSION, load)


def load(request: LoadRequest) -> Session:
    """A session of the ML program in the .mlpackage folder `request.model`.

    RuntimeUnavailableError for another accelerator than cpu, and for packages that hold something else than
    one function of tensors. UnsupportedOperatorError, before anything is run, for operators not known.
    StorageError for a damaged package. ValueError for an option: there are none.
    """
    if request.accelerator != "cpu":
        raise RuntimeUnavailableError(
            f"mil_interpreter runs on the CPU, not on {request.accelerator!r}.", known=("cpu",)
        )
    if request.options:
        raise ValueError(f"mil_interpreter has no option {next(iter(request.options))!r}")
    package = read_package(request.model)
    _check_features(package, str(request.model))
    torch.set_num_threads(request.threads)
    return MilSession(package)


def _check_features(package: Package, where: str) -> None:
    described = {f.name for f in package.inputs}, {f.name for f in package.outputs}
    programmed = {i.name for i in package.program.inputs}, set(package.program.outputs)
    if described != programmed:
        raise StorageError(
            "The package's description and its program have other inputs or outputs: "
            f"{sorted(described[0] | described[1])} and {sorted(programmed[0] | programmed[1])}.",
            where=where,
        )


class MilSession:
    """A loaded ML program."""

    def __init__(self, package: Package) -> None:
        self._package: Package | None = package
        self._block: PreparedBlock | None = prepare(package.program)
        self._types = {i.name: i for i in package.program.inputs}
        self.accelerator_actual: str | None = "cpu"
        self.operators: Mapping[str, int] | None = {"cpu": self._block.operators}

    def prepare(self, inputs: Mapping[str, NDArray[Any]]) -> Invocation:
        """See Session. ValueError too for an input of another dtype or shape than the package describes."""
        package, block = self._package, self._block
        if package is None or block is None:
            raise ValueError("the session is closed")
        names = {f.name for f in package.inputs}
        if set(inputs) != names:
            raise ValueError(f"inputs are {sorted(inputs)}, the build has {sorted(names)}")
        for feature in package.inputs:
            _check_input(package, feature, inputs[feature.name])
        values = {name: _as_program(self._types[name], array) for name, array in inputs.items()}
        outputs = package.outputs

        def invoke() -> list[NDArray[Any]]:
            results = run(block, values)
            # A copy: a result may be a view of an input or of a constant.
            return [np.array(results[f.name], dtype=f.dtype) for f in outputs]

        return invoke

    def close(self) -> None:
        """See Session."""
        self._package = None
        self._block = None


def _check_input(package: Package, feature: Feature, array: NDArray[Any]) -> None:
    if array.dtype != feature.dtype:
        raise ValueError(f"the input {feature.name!r} is {array.dtype}, the build takes {feature.dtype}")
    allowed = package.shapes[feature.name]
    if not allowed.admits(array.shape):
        raise ValueError(f"the input {feature.name!r} is {list(array.shape)}, the build takes {allowed}")


def _as_program(declared: Output, array: NDArray[Any]) -> NDArray[Any]:
    """The array as the program's parameter: a scalar of MIL is described as an array of one element."""
    value = held(array, declared.type.dtype)
    return value.reshape(()) if declared.type.shape == () else value
