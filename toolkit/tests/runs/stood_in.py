"""The tiny project in three forms, with a plan that needs every toolchain, all of them played by stand-ins.

No vendor's package has to be there: what is installed is scripted too.
"""

import importlib.metadata
import json
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from phoneproof.recipes import toolchain_table
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.runs.run import FinishedRun, RunOptions, run
from tests.runs.project import TOOLKIT, Project

SITE: Final = TOOLKIT / "tests" / "simulated" / "stand_ins"
SETTINGS_VARIABLE: Final = "PHONEPROOF_TEST_STAND_INS"
INSPECT_BUILD: Final = "phoneproof.toolchains.inspect_build"
CALIBRATIONS: Final = frozenset(m for row in TOOLCHAINS.values() for m in row.calibration.values())
MODULES: Final = (
    *(row.module for row in TOOLCHAINS.values()),
    *sorted(CALIBRATIONS),
    INSPECT_BUILD,
    "phoneproof.sources.inspect",
)

FORMS: Final = """\
[[models]]
name = "tiny"
source = "tiny.keras"
format = "keras"

[[models]]
name = "tiny"
source = "tiny_net:network"
format = "pytorch"
inputs = [{ name = "image", shape = [1, 3, 12, 12] }]

"""

BUILDS: Final = {
    "tiny/onnx/onnx-int8-dynamic": 'recipe = "onnx-int8-dynamic"\nsource = "onnx"',
    "tiny/keras/tflite-int8-dynamic": 'recipe = "tflite-int8-dynamic"\nsource = "keras"',
    "tiny/pytorch/tflite-float16": 'recipe = "tflite-float16"\nsource = "pytorch"',
    "tiny/pytorch/coreml-int8-weights": 'recipe = "coreml-int8-weights"\nsource = "pytorch"',
    "tiny/keras/coreml-float16": 'recipe = "coreml-float16"\nsource = "keras"',
    "tiny/pytorch/executorch-int8-dynamic": 'recipe = "executorch-int8-dynamic"',
    "tiny/pytorch/torch-qnnpack-int8": 'recipe = "torch-qnnpack-int8"',
    "tiny/keras/tflite-file": 'file = "foreign.tflite"\nsource = "keras"',
}
"""One build of each toolchain that is made without another worker's help, and one that was made elsewhere."""

SHARING: Final = {
    "tiny/pytorch/onnx-int8-dynamic": 'recipe = "onnx-int8-dynamic"\nsource = "pytorch"',
    "tiny/keras/onnx-int8-dynamic": 'recipe = "onnx-int8-dynamic"\nsource = "keras"',
    "tiny/onnx/onnx-int8": 'recipe = "onnx-int8"\nsource = "onnx"',
    "tiny/onnx/onnx-int8/entropy": 'recipe = "onnx-int8"\nsource = "onnx"\n'
    'variant = "entropy"\nmethod = "entropy"',
    "tiny/keras/tflite-int8": 'recipe = "tflite-int8"\nsource = "keras"',
    "tiny/pytorch/coreml-int8": 'recipe = "coreml-int8"',
    "tiny/pytorch/executorch-int8": 'recipe = "executorch-int8"',
}
"""Builds that need an export or ranges, which other builds need as well."""

MAKERS: Final = {
    "tiny/onnx/onnx-int8-dynamic": "phoneproof.toolchains.onnxruntime onnx-int8-dynamic",
    "tiny/keras/tflite-int8-dynamic": "phoneproof.toolchains.tflite tflite-int8-dynamic",
    "tiny/pytorch/tflite-float16": "phoneproof.toolchains.litert_torch tflite-float16",
    "tiny/pytorch/coreml-int8-weights": "phoneproof.toolchains.coreml coreml-int8-weights",
    "tiny/keras/coreml-float16": "phoneproof.toolchains.coreml_tensorflow coreml-float16",
    "tiny/pytorch/executorch-int8-dynamic": "phoneproof.toolchains.executorch executorch-int8-dynamic",
    "tiny/pytorch/torch-qnnpack-int8": "phoneproof.toolchains.torch_qnnpack torch-qnnpack-int8",
    "tiny/keras/tflite-file": INSPECT_BUILD,
}
"""The worker that makes each of BUILDS, as a fault names it."""

TESTED: Final = {
    name: version for row in TOOLCHAINS.values() for name, version in row.tested_versions.items()
}


class Packages:
    """Stands in for importlib.metadata: the tested version of every package, save for what is given."""

    PackageNotFoundError = importlib.metadata.PackageNotFoundError

    def __init__(self, other: Mapping[str, str | None] | None = None) -> None:
        self._versions: Mapping[str, str | None] = {**TESTED, **(other or {})}

    def version(self, package: str) -> str:
        if package not in self._versions:
            return importlib.metadata.version(package)
        found = self._versions[package]
        if found is None:
            raise self.PackageNotFoundError(package)
        return found


@dataclass(frozen=True)
class StoodIn:
    """The project with the settings of its stand-ins."""

    project: Project

    @property
    def settings(self) -> Path:
        return self.project.folder.with_name(f"{self.project.folder.name}-stand-ins.json")

    @property
    def events(self) -> Path:
        return self.project.folder.with_name(f"{self.project.folder.name}-events.txt")

    @property
    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": f"{TOOLKIT}:{SITE}", SETTINGS_VARIABLE: str(self.settings)}

    def copy(self, folder: Path) -> "StoodIn":
        """The project and its store in another folder."""
        other = StoodIn(self.project.copy(folder))
        other.say()
        return other

    def say(self, faults: Mapping[str, str] | None = None, **more: Any) -> None:
        """What the stand-ins do from now on."""
        settings = {
            "modules": MODULES,
            "faults": faults or {},
            "events": str(self.events),
            "onnx": str(self.project.folder / "tiny.onnx"),
            **more,
        }
        self.events.touch()
        self.settings.write_text(json.dumps(settings), encoding="utf-8")

    def build(self, out: str = "run") -> FinishedRun:
        """Make the plan's builds in this process; its workers are stand-ins."""
        options = RunOptions(until="build", store=self.project.store)
        return run(self.project.plan, self.project.folder / out, options=options)

    def worked(self) -> list[str]:
        """What the stand-ins did since the last time: lines `begin ...` and `end ...`."""
        lines = self.events.read_text(encoding="utf-8").splitlines()
        self.events.write_text("", encoding="utf-8")
        return lines


def stand_in(project: Project, builds: Mapping[str, str], limits: str = "") -> StoodIn:
    """Give the project all forms and these builds."""
    folder = project.folder
    with zipfile.ZipFile(folder / "tiny.keras", "w") as archive:
        archive.writestr("config.json", "{}")
    (folder / "tiny_net.py").write_text("def network():\n    raise NotImplementedError\n", encoding="utf-8")
    (folder / "foreign.tflite").write_bytes(struct.pack("<I", 16) + b"TFL3" + bytes(60))
    head, _, rest = project.plan_path.read_text(encoding="utf-8").partition("[data]")
    data, _, _ = rest.partition("[[builds]]")
    devices = rest[rest.index("[[devices]]") :]
    listed = "".join(f"[[builds]]\n{text}\n\n" for text in builds.values())
    text = f"{head}{FORMS}[data]{data}{listed}{limits}{devices}"
    project.plan_path.write_text(text, encoding="utf-8")
    made = StoodIn(Project(folder, project.store, {}))
    made.say()
    return StoodIn(Project(folder, project.store, made.environment))


def be_here(monkeypatch: pytest.MonkeyPatch, stood_in: StoodIn) -> None:
    """Let workers that this process starts be stand-ins, and every package be installed as tested."""
    monkeypatch.setattr(toolchain_table, "metadata", Packages())
    for name, value in stood_in.environment.items():
        monkeypatch.setenv(name, value)
