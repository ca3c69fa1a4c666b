"""Core ML on this machine: macOS only. Elsewhere mil_interpreter stands in for it (recipes/runtime_table).

Written by coremltools' documentation and types. What needs a Mac (loading, predicting, reading a compute
plan) has not been run.
"""

import importlib.metadata
import sys
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from phoneproof.errors import RuntimeUnavailableError, said
from phoneproof.runtimes.runtime import Invocation, LoadRequest, Runtime, Session

COMPUTE_UNITS: Final[Mapping[str, str]] = {
    "cpu": "CPU_ONLY",
    "gpu": "CPU_AND_GPU",
    "ane": "CPU_AND_NE",
    "all": "ALL",
}
"""coremltools' ComputeUnit of each accelerator; Core ML never leaves the CPU out."""

DEVICES: Final[Mapping[str, str]] = {
    "MLCPUComputeDevice": "cpu",
    "MLGPUComputeDevice": "gpu",
    "MLNeuralEngineComputeDevice": "ane",
}
"""Accelerator of each class of devices in a compute plan (coremltools.models.compute_device)."""


def runtime() -> Runtime:
    """Core ML, by coremltools. The version is coremltools'; Core ML's own is that of macOS."""
    return Runtime("coreml", importlib.metadata.version("coremltools"), load)


def load(request: LoadRequest, platform: str = sys.platform) -> Session:
    """A session on the accelerator asked for, with the CPU beside it, which Core ML cannot be kept from.

    RuntimeUnavailableError off macOS, for an accelerator that Core ML does not have, for a package that it
    does not load, and for operators elsewhere where allow_fallback is off. ValueError for an option: there
    are none. threads is not used: Core ML has no such setting and decides by itself.
    """
    if request.options:
        raise ValueError(f"coreml has no option {next(iter(request.options))!r}")
    if platform != "darwin":
        raise RuntimeUnavailableError(
            f"Core ML exists on macOS only, and this system is {platform}.",
            next_step="Judge the build here by mil_interpreter; measure its speed on a Mac or an iPhone.",
        )
    if request.accelerator not in COMPUTE_UNITS:
        raise RuntimeUnavailableError(
            f"Core ML has no accelerator {request.accelerator!r}.", known=tuple(COMPUTE_UNITS)
        )
    from phoneproof.runtimes.coreml_vendor import coremltools

    units = coremltools.ComputeUnit[COMPUTE_UNITS[request.accelerator]]
    try:
        model = coremltools.models.MLModel(str(request.model), compute_units=units)
        plan = coremltools.models.compute_plan.MLComputePlan.load_from_path(
            model.get_compiled_model_path(), units
        )
    except Exception as error:  # coremltools raises all kinds
        raise RuntimeUnavailableError(
            f"Core ML does not load the package: {type(error).__name__}: {said(error)}.",
            where=str(request.model),
            next_step="Check that this macOS is as new as the deployment target in build.json.",
        ) from error
    operators = operators_per_accelerator(plan)
    refuse_fallback(request, operators)
    return CoreMlSession(model, request.accelerator, operators)


class CoreMlSession:
    """A loaded model."""

    def __init__(self, model: Any, requested: str, operators: Mapping[str, int] | None) -> None:
        description = model.get_spec().description
        self._model: Any | None = model
        self._inputs = frozenset(feature.name for feature in description.input)
        self._outputs = tuple(feature.name for feature in description.output)
        self.operators: Mapping[str, int] | None = operators
        self.accelerator_actual: str | None = accelerator_used(operators, requested)

    def prepare(self, inputs: Mapping[str, NDArray[Any]]) -> Invocation:
        """See Session."""
        if self._model is None:
            raise ValueError("the session is closed")
        if set(inputs) != self._inputs:
            raise ValueError(f"inputs are {sorted(inputs)}, the build has {sorted(self._inputs)}")
        return partial(_predict, self._model.predict, dict(inputs), self._outputs)

    def close(self) -> None:
        """See Session."""
        self._model = None


def operators_per_accelerator(plan: Any) -> dict[str, int] | None:
    """Operators by the device that Core ML prefers for each; None if the plan does not tell.

    plan: coremltools' MLComputePlan. It tells nothing of constants, which are no operators.
    """
    program = plan.model_structure.program
    if program is None:
        return None
    counts: Counter[str] = Counter()
    for function in program.functions.values():
        for operation in _operations(function.block):
            usage = plan.get_compute_device_usage_for_mlprogram_operation(operation)
            if usage is not None:
                device = type(usage.preferred_compute_device).__name__
                counts[DEVICES.get(device, device)] += 1
    return dict(sorted(counts.items())) or None


def accelerator_used(operators: Mapping[str, int] | None, requested: str) -> str | None:
    """The accelerator used: the requested one if all operators are on it, else a mixture by name."""
    if operators is None:
        return None
    used = sorted(operators)
    return requested if used == [requested] else "+".join(used)


def refuse_fallback(request: LoadRequest, operators: Mapping[str, int] | None) -> None:
    """RuntimeUnavailableError if operators run elsewhere though the request forbids it.

    A plan that does not tell is not refused: the actual accelerator is then None, which passes no gate.
    """
    if request.allow_fallback or request.accelerator == "all" or operators is None:
        return
    elsewhere = {name: count for name, count in operators.items() if name != request.accelerator}
    if elsewhere:
        listed = ", ".join(f"{count} on {name}" for name, count in elsewhere.items())
        raise RuntimeUnavailableError(
            f"Core ML does not run every operator on {request.accelerator}: {listed}.",
            where=str(request.model),
            next_step="Allow the fallback, or change the operators that the compute plan names.",
        )


def _operations(block: Any) -> list[Any]:
    """The block's operations and those of the blocks inside them."""
    found = []
    for operation in block.operations:
        found.append(operation)
        for inner in operation.blocks:
            found += _operations(inner)
    return found


def _predict(
    predict: Any, inputs: Mapping[str, NDArray[Any]], outputs: tuple[str, ...]
) -> list[NDArray[Any]]:
    results = predict(dict(inputs))
    return [np.asarray(results[name]) for name in outputs]
