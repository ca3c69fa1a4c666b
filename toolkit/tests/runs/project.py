"""A tiny project: a small network, 20 + 20 images of two classes, and a plan whose run takes seconds."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from PIL import Image

from phoneproof.plan.model import Plan, read_plan
from phoneproof.protocol.journal import JournalLine, parse_journal
from tests.models.onnx_networks import NetworkBuilder

TOOLKIT: Final = Path(__file__).parents[2]
SIDE: Final = 12
CLASSES: Final = ("dark", "light")

PLAN: Final = """\
[[models]]
name = "tiny"
source = "tiny.onnx"
format = "onnx"

[data]
calibration = { kind = "image_folder", path = "calibration" }
evaluation = { kind = "image_folder", path = "evaluation" }
may_leave = true

[data.preprocess]
mode = "RGB"
layout = "nchw"
resize = { width = 12, height = 12, method = "stretch", interpolation = "bilinear" }
scale = 0.00392156862745098

[task]
kind = "classification"
metrics = ["top1"]

[[builds]]
recipe = "onnx-int8"

[[builds]]
recipe = "onnx-int8"
variant = "entropy"
method = "entropy"

[[builds]]
recipe = "onnx-int8-dynamic"

[[devices]]
kind = "host"
threads = 1

[benchmark]
rounds = 10
visit_ms = 5
warmup_ms = 5
"""


def network(seed: int = 0) -> Any:
    """Two convolutions and a classifier of two classes."""
    build = NetworkBuilder(seed)
    x = build.op("Relu", [build.conv("image", "first", 3, 4, stride=2)], "first_relu")
    x = build.op("Relu", [build.conv(x, "second", 4, 6)], "second_relu")
    x = build.op("Flatten", [build.op("GlobalAveragePool", [x], "pool")], "flatten")
    x = build.gemm(x, "head", 6, 2)
    return build.model({"image": [1, 3, SIDE, SIDE]}, {x: [1, 2]})


def write_images(folder: Path, per_class: int, seed: int) -> None:
    """PNG images below one folder per class, dark ones and light ones."""
    draw = np.random.default_rng(seed)
    for label, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for index in range(per_class):
            low, high = 128 * label, 128 * label + 128
            levels = draw.integers(low, high, (SIDE, SIDE, 3), dtype=np.uint8)
            Image.fromarray(levels).save(folder / name / f"{index:02d}.png")


@dataclass(frozen=True)
class Project:
    """A project's folder with its plan, and the store that its commands use."""

    folder: Path
    store: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def plan_path(self) -> Path:
        return self.folder / "phoneproof.toml"

    @property
    def plan(self) -> Plan:
        return read_plan(self.plan_path)

    def change(self, old: str, new: str) -> None:
        """Change one passage of the plan. The passage must stand in it."""
        text = self.plan_path.read_text(encoding="utf-8")
        assert old in text
        self.plan_path.write_text(text.replace(old, new, 1), encoding="utf-8")

    def make_lean(self) -> None:
        """Leave one build, the dynamic one, which needs no calibration set."""
        text = PLAN.replace('calibration = { kind = "image_folder", path = "calibration" }\n', "")
        head, *_, last = text.split("[[builds]]\n")
        self.plan_path.write_text(f"{head}[[builds]]\n{last}", encoding="utf-8")

    def copy(self, folder: Path, store: Path | None = None) -> "Project":
        """The project in another folder with file times kept, and its own copy of the store unless given."""
        shutil.copytree(self.folder, folder, ignore=shutil.ignore_patterns("run*"))
        if store is None:
            store = folder.with_name(f"{folder.name}-store")
            if self.store.exists():
                shutil.copytree(self.store, store)
        return Project(folder, store, self.environment)

    def child_environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(TOOLKIT),
            "PHONEPROOF_STORE": str(self.store),
            **self.environment,
        }

    def command(self, *arguments: str | Path) -> list[str]:
        code = "from phoneproof.cli.main import main; main(prog_name='phoneproof')"
        return [sys.executable, "-c", code, *map(str, arguments)]

    def start(self, *arguments: str | Path, **options: Any) -> "subprocess.Popen[bytes]":
        """The command line in a process of its own, its output piped."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            env=self.child_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )

    def call(self, *arguments: str | Path) -> "Answer":
        process = self.start(*arguments)
        out, err = process.communicate(timeout=300)
        return Answer(process.returncode, out.decode(), err.decode())


@dataclass(frozen=True)
class Answer:
    """What a command printed and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def write_project(folder: Path, store: Path) -> Project:
    folder.mkdir(parents=True)
    onnx.save(network(), str(folder / "tiny.onnx"))
    write_images(folder / "calibration", 10, seed=1)
    write_images(folder / "evaluation", 10, seed=2)
    (folder / "phoneproof.toml").write_text(PLAN, encoding="utf-8")
    return Project(folder, store)


def report_of(run: Path) -> Any:
    return json.loads((run / "report" / "report.json").read_text(encoding="utf-8"))


def journal_of(run: Path) -> tuple[JournalLine, ...]:
    return parse_journal((run / "journal.jsonl").read_bytes())


def listing(*folders: Path) -> dict[str, tuple[int, int]]:
    """Every file below the folders with its size and time: what must not change when nothing is written."""
    return {
        str(path): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for folder in folders
        for path in sorted(folder.rglob("*"))
    }
