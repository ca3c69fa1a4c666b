"""What the plans of all networks share."""

from collections.abc import Iterable
from typing import Final

PREPROCESS: Final = """\
[data]
calibration = {{ kind = "image_folder", path = "calibration" }}
evaluation = {{ kind = "image_folder", path = "evaluation" }}
may_leave = true

[data.preprocess]
mode = "RGB"
layout = "{layout}"
scale = 0.00784313725490196
mean = [1.0, 1.0, 1.0]
"""

ARRAYS: Final = """\
[data]
calibration = { kind = "npz", path = "calibration.npz" }
evaluation = { kind = "npz", path = "evaluation.npz" }
may_leave = true
"""

REST: Final = """\
[[devices]]
kind = "host"
threads = 1

[benchmark]
rounds = 10
visit_ms = 20
warmup_ms = 50
"""


def plan(models: str, data: str, builds: Iterable[str]) -> str:
    """A plan without metrics: builds are judged by their outputs.

    builds: the lines of one [[builds]] entry each.
    """
    entries = "".join(f"[[builds]]\n{lines}\n\n" for lines in builds)
    return f"{models}\n{data}\n{entries}{REST}"


def recipes(*names: str) -> list[str]:
    return [f'recipe = "{name}"' for name in names]
