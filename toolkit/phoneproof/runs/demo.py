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

_LIMITS: Final = WorkerLimits(timeout_s=1_800.0)

NETWORK_STEP: Final = "demo/network"
TWIN_STEP: Final = "demo/keras"

PLAN: Final = """\
# phoneproof's demo: handwritten digits out of scikit-learn, 8 x 8 pixels, enlarged to what the network takes.

# One network in three forms with the same weights. Each build is made from the form that its recipe takes as
# it is, unless it names another.

[[models]]
name = "digits"
format = "pytorch"
source = "digits_net:network"
state = "digits.safetensors"
inputs = [{{ name = "image", shape = {nchw} }}]
outputs = ["logits"]

[[models]]
name = "digits"
format = "keras"
source = "digits.keras"

[[models]]
name = "digits"
format = "onnx"
source = "digits.onnx"

[data]
samples = 400  # of 897: the interpreter of Core ML builds is slow
seed = 0
may_leave = true

[data.calibration]
kind = "image_folder"
path = "calibration"

[data.evaluation]
kind = "image_folder"
path = "evaluation"

# Layout of the PyTorch and ONNX forms; the Keras form gets its samples the other way round.
{preprocess}
[task]
kind = "classification"
metrics = ["top1"]

{builds}
[[devices]]
kind = "host"
threads = 1

# Short, for a demo: twenty rounds and 200 ms are usual.
[benchmark]
rounds = 12
visit_ms = 40
warmup_ms = 200

# No build may be larger than float32: executorch-int8-dynamic has only the last layer in int8.
[gates]
accuracy_drop_max = 0.02
size_ratio_max = 1.0
"""

BUILDS: Final[tuple[Mapping[str, str], ...]] = (
    {"recipe": "tflite-float16"},
    {"recipe": "tflite-int8"},
    {"recipe": "tflite-int8", "variant": "entropy", "method": "entropy"},
    {"recipe": "tflite-int8", "variant": "percentile", "method": "percentile"},
    {"recipe": "tflite-int8-dynamic"},
    {"recipe": "tflite-int16x8"},
    {"recipe": "coreml-float16", "source": "pytorch"},
    {"recipe": "coreml-int8-weights", "source": "pytorch"},
    {"recipe": "coreml-int8", "source": "pytorch"},
    {"recipe": "executorch-int8"},
    {"recipe": "executorch-int8-dynamic"},
    {"recipe": "onnx-int8"},
    {"recipe": "onnx-int8", "variant": "entropy", "method": "entropy"},
    {"recipe": "onnx-int8", "variant": "percentile", "method": "percentile"},
    {"recipe": "onnx-int8-qoperator"},
    {"recipe": "onnx-int8-dynamic"},
    {"recipe": "onnx-int8", "source": "pytorch"},
    {"recipe": "torch-qnnpack-int8"},
)
"""Every recipe that this environment can make, by format; the planner adds each format's float32 build."""


def prepare_demo(out: Path, observer: Observer, stop: Event | None = None, epochs: int | None = None) -> Path:
    """Make the demo in `out` unless it is there; the path of its plan.

    Two steps: the trained network as PyTorch module and ONNX model, with progress by epochs, and its Keras
    twin. epochs: None for as many as make a good network. ToolchainError where a package is missing or the
    forms of the network disagree, Interrupted when `stop` is set.
    """
    request: dict[str, Any] = {"out": str(out.absolute())}
    trained = request if epochs is None else {**request, "epochs": epochs}
    with storage_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        facts = _observed(NETWORK_STEP, "phoneproof.demo.worker", trained, out, observer, stop)
        _observed(TWIN_STEP, "phoneproof.demo.twin", request, out, observer, stop)
        plan = out / "phoneproof.toml"
        text = plan_text(facts)
        if not plan.exists() or plan.read_text(encoding="utf-8") != text:
            write_atomically(plan, text)
    return plan


def plan_text(facts: Mapping[str, Any]) -> str:
    """The demo's plan. facts: what making the network answered."""
    builds = "\n".join(_build_as_toml(build) for build in BUILDS)
    nchw = facts["model"]["input"]["shape"]
    return PLAN.format(nchw=nchw, preprocess=_as_toml(facts["preprocess"]), builds=builds)


def _observed(
    step: str, module: str, request: Mapping[str, Any], out: Path, observer: Observer, stop: Event | None
) -> dict[str, Any]:
    """Run a worker as a step; its result, which says in `made_now` whether anything was made."""
    call = WorkerCall(module, request, out / "preparation" / step.rpartition("/")[2], limits=_LIMITS)
    observer.started(step)
    try:
        facts = call_worker(call, lambda what, done, total: observer.progress(step, what, done, total), stop)
    except Interrupted:
        raise
    except PhoneproofError as error:
        observer.failed(step, error)
        raise
    observer.finished(step, "made" if facts["made_now"] else "kept")
    return facts


def _build_as_toml(build: Mapping[str, str]) -> str:
    return "\n".join(["[[builds]]", *(f'{key} = "{value}"' for key, value in build.items()), ""])


def _as_toml(preprocess: Mapping[str, Any]) -> str:
    """[data.preprocess] as text; TOML has no null, and what is None is the default."""
    import tomlkit

    given = {key: value for key, value in preprocess.items() if value not in (None, [])}
    if "resize" in given:
        given["resize"] = {key: value for key, value in given["resize"].items() if value not in (None, [])}
    return tomlkit.dumps({"data": {"preprocess": given}})
