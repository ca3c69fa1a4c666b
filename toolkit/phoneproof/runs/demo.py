"""The demo's network, data and plan."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from phoneproof.builds.store import storage_errors
from phoneproof.protocol.work import write_atomically
from phoneproof.workers.worker import WorkerCall, WorkerLimits, call_worker

PLAN: Final = """\
# phoneproof's demo: handwritten digits out of scikit-learn, 8 x 8 pixels, enlarged to what the network takes.

[[models]]
name = "digits"
format = "onnx"
source = "digits.onnx"

[data]
samples = "all"
seed = 0
may_leave = true

[data.calibration]
kind = "image_folder"
path = "calibration"

[data.evaluation]
kind = "image_folder"
path = "evaluation"

{preprocess}
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
recipe = "onnx-int8"
variant = "percentile"
method = "percentile"

[[builds]]
recipe = "onnx-int8-qoperator"

[[builds]]
recipe = "onnx-int8-dynamic"

[[devices]]
kind = "host"
threads = 1

[benchmark]
visit_ms = 100

[gates]
accuracy_drop_max = 0.02
size_ratio_max = 0.5
"""


def prepare_demo(out: Path, say: Callable[[str], None]) -> Path:
    """Make the demo in `out` unless it is there; the path of its plan. ToolchainError without torch."""
    say("Preparing the demo: training a small network takes up to a minute the first time.")
    with storage_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        call = WorkerCall(
            "phoneproof.demo.worker",
            {"out": str(out.absolute())},
            out / "preparation",
            limits=WorkerLimits(timeout_s=1_800.0),
        )
        preprocess = call_worker(call)["preprocess"]
        plan = out / "phoneproof.toml"
        text = PLAN.format(preprocess=_as_toml(preprocess))
        if not plan.exists() or plan.read_text(encoding="utf-8") != text:
            write_atomically(plan, text)
    return plan


def _as_toml(preprocess: Mapping[str, Any]) -> str:
    """[data.preprocess] as text; TOML has no null, and what is None is the default."""
    import tomlkit

    given = {key: value for key, value in preprocess.items() if value not in (None, [])}
    if "resize" in given:
        given["resize"] = {key: value for key, value in given["resize"].items() if value not in (None, [])}
    return tomlkit.dumps({"data": {"preprocess": given}})
