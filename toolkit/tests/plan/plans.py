"""A small right plan for tests, and ways to change it."""

from pathlib import Path
from typing import Final

import pytest

from phoneproof.errors import PlanError
from phoneproof.plan.model import Plan, read_plan

RIGHT: Final = """\
[[models]]
name = "digits"
source = "digits.onnx"
format = "onnx"
shapes = { image = [1, 3, 32, 32] }

[data]
calibration = { kind = "image_folder", path = "images", take = 200 }
evaluation = { kind = "image_folder", path = "images", skip = 200 }
classes = ["0", "1", "2", "3", "4", "5", "6"]
samples = 300
may_leave = false
seed = 7

[data.preprocess]
mode = "RGB"
layout = "nchw"
resize = { width = 32, height = 32, method = "stretch", interpolation = "bilinear" }
scale = 0.00392156862745098

[task]
kind = "classification"
metrics = ["top1", "top5"]

[[builds]]
recipe = "onnx-int8"
method = "percentile"
percentile = 99.9

[[builds]]
recipe = "onnx-int8"
variant = "entropy"
method = "entropy"

[[devices]]
kind = "host"
threads = 1
accelerators = ["cpu"]

[gates]
accuracy_drop_max = 0.01
parity_min_db = { int8 = 20, int8_fail = 10 }
waive = ["HOST-SATURATES"]

[benchmark]
rounds = 12

[report]
title = "Digits"

[limits]
build_timeout_s = 600
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "phoneproof.toml"
    path.write_text(text, encoding="utf-8")
    return path


def plan_of(folder: Path, text: str = RIGHT) -> Plan:
    return read_plan(written(folder, text))


def changed(old: str, new: str, text: str = RIGHT) -> str:
    """The right plan with one passage changed. The passage must stand in it."""
    assert old in text
    return text.replace(old, new, 1)


def refusal(folder: Path, text: str) -> PlanError:
    with pytest.raises(PlanError) as caught:
        plan_of(folder, text)
    return caught.value


SOURCES: Final = {
    "pytorch": 'source = "net:make"\ninputs = [{ name = "x", shape = [1, 4] }]',
    "exported_program": 'source = "net.pt2"',
    "keras": 'source = "net.keras"',
    "savedmodel": 'source = "net"',
    "onnx": 'source = "net.onnx"',
}
DEVICE: Final = '[[devices]]\nkind = "host"\n'


def text_of(forms: list[str], *builds: str) -> str:
    """A plan of one network in these forms, with these builds."""
    models = [f'[[models]]\nname = "net"\nformat = "{form}"\n{SOURCES[form]}\n' for form in forms]
    return "\n".join([*models, *(f"[[builds]]\n{build}\n" for build in builds), DEVICE])
