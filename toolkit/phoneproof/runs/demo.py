"""The demo's network, data and plan."""

from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any, Final

from phoneproof.builds.store import storage_errors
from phoneproof.errors import Interrupted, PhoneproofError
from phoneproof.protocol.work import write_atomically
from phoneproof.runs.observer import Observer
from phoneproof.workers.worker import WorkerCall, WorkerLimits, call_worker

STEP: Final = "demo/network"

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


def prepare_demo(out: Path, observer: Observer, stop: Event | None = None, epochs: int | None = None) -> Path:
    """Make the demo in `out` unless it is there, as one step with progress by epochs; the path of its plan.

    epochs: None for as many as make a good network. ToolchainError without torch, Interrupted when `stop` is
    set.
    """
    request: dict[str, Any] = {"out": str(out.absolute())}
    if epochs is not None:
        request["epochs"] = epochs
    with storage_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        limits = WorkerLimits(timeout_s=1_800.0)
        call = WorkerCall("phoneproof.demo.worker", request, out / "preparation", limits=limits)
        facts = _observed(call, observer, stop)
        plan = out / "phoneproof.toml"
        text = PLAN.format(preprocess=_as_toml(facts["preprocess"]))
        if not plan.exists() or plan.read_text(encoding="utf-8") != text:
            write_atomically(plan, text)
    return plan


def _observed(call: WorkerCall, observer: Observer, stop: Event | None) -> dict[str, Any]:
    observer.started(STEP)
    try:
        facts = call_worker(call, lambda what, done, total: observer.progress(STEP, what, done, total), stop)
    except Interrupted:
        raise
    except PhoneproofError as error:
        observer.failed(STEP, error)
        raise
    observer.finished(STEP, "made" if facts["trained_now"] else "kept")
    return facts


def _as_toml(preprocess: Mapping[str, Any]) -> str:
    """[data.preprocess] as text; TOML has no null, and what is None is the default."""
    import tomlkit

    given = {key: value for key, value in preprocess.items() if value not in (None, [])}
    if "resize" in given:
        given["resize"] = {key: value for key, value in given["resize"].items() if value not in (None, [])}
    return tomlkit.dumps({"data": {"preprocess": given}})
