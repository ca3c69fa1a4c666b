"""silero-vad, which hears speech: `python -m tests.networks.silero_vad FOLDER WHEELS`.

Two ONNX files of its wheel: one for both sampling rates, whose rate is an int64 scalar that chooses a branch
of the graph, and one for 16 kHz, with an LSTM operator. The state of both is [2, 1, 128]: two layers, not a
batch of two. The sounds are made by arithmetic.
"""

import shutil
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from tests.networks.plan_text import ARRAYS, plan
from tests.networks.sounds import syllables

RATE: Final = 16_000
WINDOW: Final = 512
CONTEXT: Final = 64
"""Samples of the window before that the network sees again."""
CALIBRATION: Final = 48
EVALUATION: Final = 64

MODELS: Final = f"""\
[[models]]
name = "both-rates"
format = "onnx"
source = "silero_vad_op18_ifless.onnx"
shapes = {{ input = [1, {WINDOW + CONTEXT}], state = [2, 1, 128] }}

[[models]]
name = "one-rate"
format = "onnx"
source = "silero_vad_openvino_16k.onnx"
shapes = {{ state = [2, 1, 128] }}
"""

RECIPES: Final = ("onnx-int8", "onnx-int8-qoperator", "onnx-int8-dynamic")
BUILDS: Final = [
    f'recipe = "{recipe}"\nmodel = "{model}"' for model in ("both-rates", "one-rate") for recipe in RECIPES
]


def windows(path: Path, count: int, seed: int) -> dict[str, Any]:
    """What the network is given as it listens: windows, the state left by those before, the rate."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    sound = syllables(np.random.default_rng(seed), CONTEXT + count * WINDOW, RATE)
    state, rate = np.zeros((2, 1, 128), np.float32), np.array(RATE, np.int64)
    found: dict[str, list[NDArray[Any]]] = {"input": [], "state": [], "sr": []}
    for number in range(count):
        heard = sound[number * WINDOW : (number + 1) * WINDOW + CONTEXT]
        inputs: dict[str, NDArray[Any]] = {"input": heard[None], "state": state, "sr": rate}
        for name, value in inputs.items():
            found[name].append(value.copy())
        state = session.run(["stateN"], inputs)[0]
    found["input"] = [one[0] for one in found["input"]]
    return {name: np.stack(values) for name, values in found.items()}


def prepare(folder: Path, wheels: Path) -> None:
    """Write the model, the windows and the plan. wheels: where the wheels are unpacked."""
    files = wheels / "silero_vad" / "data"
    for name in ("silero_vad_op18_ifless.onnx", "silero_vad_openvino_16k.onnx", "silero_vad.onnx"):
        shutil.copy(files / name, folder)
    path = folder / "silero_vad_op18_ifless.onnx"
    np.savez(folder / "calibration.npz", **windows(path, CALIBRATION, seed=1))
    np.savez(folder / "evaluation.npz", **windows(path, EVALUATION, seed=2))
    (folder / "phoneproof.toml").write_text(plan(MODELS, ARRAYS, BUILDS), encoding="utf-8")


if __name__ == "__main__":
    prepare(Path(sys.argv[1]), Path(sys.argv[2]))
