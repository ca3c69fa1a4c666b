"""The demo's Keras twin: `python -m phoneproof.demo.twin REQUEST.json` (see protocol/work.py).

The trained network again, layer by layer in Keras, with the weights that were trained in PyTorch. A process
of its own: TensorFlow and torch do not share one. Request: {out}, a folder that phoneproof.demo.train has
filled. Writes there

DIR/digits.keras        the twin; its input is [n, height, width, 1]
DIR/digits.keras.json   what it was made of, and how far its logits are from the trained network's; last

Result: those facts, and whether the twin was made now. A folder that holds exactly this is left as it is.
"""

import hashlib
import json
import sys
import zipfile
from collections.abc import Mapping
from importlib import metadata, util
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from phoneproof.demo import digits
from phoneproof.demo.agreement import check_equal
from phoneproof.demo.train import LOGITS_FILE, WEIGHTS_FILE
from phoneproof.errors import DataError, ToolchainError
from phoneproof.protocol.work import Progress, run_worker, write_atomically
from phoneproof.sources.tensorflow_vendor import keras

KERAS_FILE: Final = "digits.keras"
FACTS_FILE: Final = "digits.keras.json"

_MADE_BY: Final = "phoneproof.demo.twin"
_NEEDED: Final = ("tensorflow", "keras", "safetensors")
_BATCH: Final = 64
_TORCH_EPSILON: Final = 1e-5
"""Of torch's batch normalisation; Keras's own is 1e-3."""

Weights = Mapping[str, npt.NDArray[np.float32]]


def prepare(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Make the twin unless it is there.

    DataError where another file has its name, ToolchainError if a package is missing or the twin does not
    compute what the network does.
    """
    _check_packages()
    out = Path(request["out"])
    wanted = request_of(out)
    facts = _facts_in(out)
    if facts is not None and facts["request"] == wanted and _sha256(out / KERAS_FILE) == facts["sha256"]:
        return {**facts, "made_now": False}
    if facts is None and (out / KERAS_FILE).exists():
        raise DataError(
            f"The folder holds {KERAS_FILE}, which the demo did not make.",
            where=str(out),
            next_step="Choose another folder with --out.",
        )
    progress.say("twin")
    model = build_twin(_weights(out / WEIGHTS_FILE), digits.SIDE)
    inputs = digits.model_inputs(digits.read_images(digits.set_files(out / "evaluation")))
    found = []
    for start in range(0, len(inputs), _BATCH):
        found.append(np.asarray(model(inputs[start : start + _BATCH].transpose(0, 2, 3, 1), training=False)))
        progress.say("compare", start, len(inputs))
    difference = check_equal(np.load(out / LOGITS_FILE), np.concatenate(found), KERAS_FILE)
    save(model, out / KERAS_FILE, folder)
    facts = {
        "made_by": _MADE_BY,
        "request": wanted,
        "sha256": _sha256(out / KERAS_FILE),
        "largest_difference": difference,
        "images": len(inputs),
    }
    write_atomically(out / FACTS_FILE, json.dumps(facts, indent=2) + "\n")
    return {**facts, "made_now": True}


def request_of(out: Path) -> dict[str, Any]:
    """What decides the twin, apart from the machine's arithmetic."""
    source = hashlib.sha256(Path(__file__).read_bytes())
    return {
        "weights_sha256": _sha256(out / WEIGHTS_FILE),
        "logits_sha256": _sha256(out / LOGITS_FILE),
        "evaluation_sha256": digits.folder_sha256(out / "evaluation"),
        "source_sha256": source.hexdigest(),
        "versions": {name: metadata.version(name) for name in (*_NEEDED, "numpy", "pillow")},
    }


def build_twin(weights: Weights, side: int) -> Any:
    """A keras.Model from float32 [n, side, side, 1], `image`, to logits [n, 10], `logits`.

    weights: state dict of digits_net.DigitsNet. Layers have the names of torch's modules, `_` for `.`.
    """
    layers = keras().layers
    image = keras().Input((side, side, 1), name="image")
    x = _convolution(weights, "stem", image, stride=2)
    x = _convolution(weights, "early", x)
    x = _separable(weights, "down", x, stride=2)
    x = _convolution(weights, "middle", x)
    x = _separable(weights, "down_again", x, stride=2)
    x = _convolution(weights, "late", x)
    x = _separable(weights, "last", x)
    x = layers.GlobalAveragePooling2D(name="pool")(x)
    head = layers.Dense(digits.CLASSES, name="logits")
    logits = head(x)
    head.set_weights([weights["head.weight"].T, weights["head.bias"]])
    return keras().Model(image, logits, name="digits")


def save(model: Any, path: Path, folder: Path) -> None:
    """Write a .keras file that is the same, byte by byte, for the same model.

    Keras 3.15 puts the time of saving into it, and addresses in memory as ids of shared objects.
    """
    made = folder / KERAS_FILE
    model.save(made)
    steady = folder / f"steady-{KERAS_FILE}"
    with zipfile.ZipFile(made) as given, zipfile.ZipFile(steady, "w") as written:
        for name in sorted(given.namelist()):
            content = given.read(name)
            if name == "metadata.json":
                about = {**json.loads(content), "date_saved": "1980-01-01@00:00:00"}
                content = json.dumps(about).encode()
            if name == "config.json":
                content = _numbered(content)
            written.writestr(zipfile.ZipInfo(name), content)
    steady.replace(path)
    made.unlink()


def _numbered(config: bytes) -> bytes:
    """The config with its shared objects numbered from 1."""
    key = "shared_object_id"
    numbers: dict[int, int] = {}

    def number(entry: dict[str, Any]) -> dict[str, Any]:
        if key in entry:
            entry[key] = numbers.setdefault(entry[key], len(numbers) + 1)
        return entry

    return json.dumps(json.loads(config, object_hook=number)).encode()


def _convolution(weights: Weights, name: str, x: Any, stride: int = 1, depthwise: bool = False) -> Any:
    """digits_net.convolution. torch's kernels are [outputs, inputs, height, width]."""
    layers, prefix = keras().layers, name.replace(".", "_")
    kernel = weights[f"{name}.conv.weight"]
    size = kernel.shape[-1]
    if stride > 1:  # Keras's "same" pads an even image at its end only, torch on both sides
        x = layers.ZeroPadding2D(size // 2, name=f"{prefix}_pad")(x)
    options = {
        "strides": stride,
        "padding": "same" if stride == 1 else "valid",
        "use_bias": False,
        "name": f"{prefix}_conv",
    }
    layer = (
        layers.DepthwiseConv2D(size, **options)
        if depthwise
        else layers.Conv2D(kernel.shape[0], size, **options)
    )
    x = layer(x)
    # [height, width, channels, 1] for a depthwise one, [height, width, inputs, outputs] for the others.
    layer.set_weights([kernel.transpose((2, 3, 0, 1) if depthwise else (2, 3, 1, 0))])
    norm = layers.BatchNormalization(epsilon=_TORCH_EPSILON, name=f"{prefix}_norm")
    x = norm(x)
    parts = ("weight", "bias", "running_mean", "running_var")
    norm.set_weights([weights[f"{name}.norm.{part}"] for part in parts])
    return layers.ReLU(name=f"{prefix}_relu")(x)


def _separable(weights: Weights, name: str, x: Any, stride: int = 1) -> Any:
    """digits_net.separable."""
    x = _convolution(weights, f"{name}.depthwise", x, stride, depthwise=True)
    return _convolution(weights, f"{name}.pointwise", x)


def _weights(path: Path) -> Weights:
    from safetensors.numpy import load_file

    found: Weights = load_file(path)
    return found


def _facts_in(out: Path) -> dict[str, Any] | None:
    """The facts of an earlier run, where there are some and the file that they are of."""
    try:
        facts = json.loads((out / FACTS_FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    is_own = isinstance(facts, dict) and facts.get("made_by") == _MADE_BY and (out / KERAS_FILE).is_file()
    return facts if is_own else None


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _check_packages() -> None:
    missing = sorted(name for name in _NEEDED if util.find_spec(name) is None)
    if missing:
        raise ToolchainError(
            f"The demo builds a Keras twin of its network, and needs {', '.join(missing)} for that.",
            next_step="Run `make demo` in a checkout of phoneproof, or install the packages named.",
        )


if __name__ == "__main__":
    sys.exit(run_worker(prepare))
