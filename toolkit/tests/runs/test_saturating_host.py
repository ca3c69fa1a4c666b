"""The whole chain on a CPU without VNNI, emulated: parity by exact kernels, speed by the usual ones."""

import os
import platform
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from phoneproof.devices.device import DeviceDescription, EventBatch, JobResults
from phoneproof.devices.host import HostDevice
from phoneproof.devices.supervisor import HarnessCommand
from phoneproof.plan.model import read_plan
from phoneproof.protocol.job import Job, read_job
from phoneproof.protocol.outputs import read_outputs
from phoneproof.report.model import Report
from phoneproof.runs.run import RunOptions, run
from tests.models.onnx_networks import NetworkBuilder
from tests.runs.project import SIDE, Project, write_project
from tests.runs.simulated_host import INT8, only_int8

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="runs this interpreter on another x86-64 CPU"),
]


class EmulatedHost:
    """The host as a Haswell. saturates: what it says of its int8 sums; /proc/cpuinfo is the real CPU's."""

    def __init__(self, root: Path, interpreter: Path, saturates: bool) -> None:
        self._host = HostDevice(root, HarnessCommand(interpreter))
        self._facts = {"int8_saturates": saturates}

    def describe(self) -> DeviceDescription:
        found = self._host.describe()
        return replace(found, environment={**found.environment, **self._facts})

    def submit(self, job: Job, files: Mapping[str, Path]) -> str:
        return self._host.submit(job, files)

    def events(self, job_id: str, after: int) -> EventBatch:
        return self._host.events(job_id, after)

    def collect(self, job_id: str) -> JobResults:
        return self._host.collect(job_id)

    def close(self) -> None:
        self._host.close()


@pytest.fixture(scope="module")
def haswell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This interpreter on a Haswell: AVX2 without VNNI."""
    qemu = shutil.which("qemu-x86_64")
    if qemu is None:
        # In CI this may not be left out unnoticed where it can be installed.
        assert os.environ.get("CI") != "true" or shutil.which("apt-get") is None
        pytest.skip("qemu-user is not installed")
    script = tmp_path_factory.mktemp("haswell") / "python"
    command = shlex.join([qemu, "-cpu", "Haswell", sys.executable])
    script.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return script


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Layers wide enough that sums of two products leave the int16 range."""
    folder = tmp_path_factory.mktemp("saturating")
    made = only_int8(write_project(folder / "project", folder / "store"))
    build = NetworkBuilder(3)
    x = build.op("Relu", [build.conv("image", "first", 3, 32)], "first_relu")
    x = build.op("Relu", [build.conv(x, "second", 32, 32)], "second_relu")
    x = build.op("Flatten", [build.op("GlobalAveragePool", [x], "pool")], "flatten")
    x = build.gemm(x, "head", 32, 2)
    onnx.save(build.model({"image": [1, 3, SIDE, SIDE]}, {x: [1, 2]}), str(made.folder / "tiny.onnx"))
    return made


def ended(project: Project, name: str, host: Any) -> tuple[Report, list[Any]]:
    """The report of a run, and the outputs of the int8 build sample by sample."""
    out = project.folder / f"run-{name}"
    report = run(read_plan(project.plan_path), out, options=RunOptions(store=project.store, host=host)).report
    assert report is not None
    for path in (out / "jobs" / "host").glob("*/job.json"):
        job = read_job(path.read_bytes())
        ours = {c.configuration_id for c in job.configurations if c.build_id == INT8}
        for case in job.cases:
            if case.kind == "infer" and case.configuration in ours:
                kept = path.parent / "outputs" / f"{case.case_id}.bin"
                return report, [arrays[0] for _, arrays in read_outputs(kept)]
    raise AssertionError("the int8 build did not run")


def test_outputs_are_those_of_a_cpu_that_does_not_saturate(project: Project, haswell: Path) -> None:
    _, wrong = ended(project, "wrong", lambda root: EmulatedHost(root, haswell, saturates=False))
    report, exact = ended(project, "exact", lambda root: EmulatedHost(root, haswell, saturates=True))
    assert len(exact) == len(wrong) == 20
    assert not np.array_equal(exact, wrong)
    if "vnni" in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        _, native = ended(project, "native", HostDevice)
        np.testing.assert_array_equal(exact, native)
    (result,) = [one for one in report.results if one.configuration.build_id == INT8]
    assert result.outcomes == {"passed": 4}
    assert result.latency is not None
    assert result.comparison is not None
    assert "HOST-SATURATES" in result.findings
    assert "HOST-SATURATES" in {finding.id for finding in report.findings}
