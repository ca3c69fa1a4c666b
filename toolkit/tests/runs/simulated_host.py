"""Runs of the tiny project on a simulated host whose answers, speeds and faults are scripted.

The network that is simulated tells dark images from light ones and is always right. Builds are real.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phoneproof.devices.device import Device
from phoneproof.devices.simulated import (
    Behaviour,
    Fault,
    Loading,
    SimulatedDevice,
    SimulatedIdentity,
    Waiting,
    noisy_latency,
    steady_waiting,
)
from phoneproof.plan.model import read_plan
from phoneproof.protocol.job import Configuration
from phoneproof.report.model import Report, Result
from phoneproof.runs.run import ExitCode, RunOptions, run
from tests.runs.project import Project

FLOAT, INT8 = "tiny/onnx/onnx-float32", "tiny/onnx/onnx-int8"
FLOAT_ID, INT8_ID = "c000", "c001"
"""Configurations of the job, in which nothing else is built. The reference's job has `c000` alone."""

Tensors = tuple[NDArray[Any], ...]


def right(image: NDArray[Any]) -> NDArray[np.float32]:
    """(1, 2): scores of dark and light."""
    light = float(np.mean(image))
    return np.array([[1 - light, light]], np.float32)


def answer(configuration: Configuration, inputs: Mapping[str, NDArray[Any]]) -> Tensors:
    """The float build is all but equal to the source, the int8 build 40 dB from it."""
    (image,) = inputs.values()
    scores = right(image)
    wave = np.sin(1e4 * scores).astype(np.float32)
    error = {"source": 0.0}.get(configuration.runtime, 1e-2 if "int8" in configuration.build_id else 1e-7)
    return (scores + np.float32(error) * wave,)


def ran_on(accelerator: str | None) -> Callable[[Configuration], Loading]:
    return lambda configuration: Loading(load_ms=3.0, accelerator_actual=accelerator)


@dataclass
class Scene:
    """What the simulated host does in a run, and the medians of its configurations in ns."""

    faults: tuple[Fault, ...] = ()
    answer: Callable[[Configuration, Mapping[str, NDArray[Any]]], Tensors] = answer
    medians_ns: Mapping[str, int] = field(
        default_factory=lambda: {FLOAT_ID: 4_000_000, INT8_ID: 2_000_000, "c002": 2_000_000}
    )
    loading: Callable[[Configuration], Loading] = field(default_factory=lambda: ran_on("cpu"))
    runtimes: Mapping[str, str | None] | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    waiting: Waiting = field(default_factory=lambda: steady_waiting(0.0))

    def device(self, root: Path) -> Device:
        identity = SimulatedIdentity(environment=self.environment)
        if self.runtimes is not None:
            identity = SimulatedIdentity(environment=self.environment, runtimes=self.runtimes)
        latency = noisy_latency(self.medians_ns)
        behaviour = Behaviour(self.answer, latency, self.loading, self.faults, self.waiting)
        return SimulatedDevice(root, behaviour, identity, events_per_call=10_000)


@dataclass(frozen=True)
class Ended:
    """A run's end."""

    report: Report
    exit_code: ExitCode
    folder: Path

    def result(self, build_id: str) -> Result:
        (found,) = [one for one in self.report.results if one.configuration.build_id == build_id]
        return found

    def gates(self, build_id: str) -> dict[str, str]:
        return {gate.id: gate.verdict for gate in self.result(build_id).gates}


def only_int8(project: Project, gates: str = "") -> Project:
    """The project with one build besides its baseline."""
    project.change('[[builds]]\nrecipe = "onnx-int8"\nvariant = "entropy"\nmethod = "entropy"\n', "")
    project.change('[[builds]]\nrecipe = "onnx-int8-dynamic"\n', "")
    if gates:
        project.plan_path.write_text(project.plan_path.read_text() + f"\n[gates]\n{gates}\n")
    return project


def end_of(project: Project, scene: Scene, out: Path) -> Ended:
    """Run the plan in the project's folder on a scene."""
    done = run(read_plan(project.plan_path), out, options=RunOptions(store=project.store, host=scene.device))
    assert done.report is not None
    return Ended(done.report, done.exit_code, out)
