"""basic-pitch, which hears notes in 2 s of sound: `python -m tests.networks.basic_pitch FOLDER WHEELS`.

The SavedModel, ONNX, TFLite and Core ML files of its wheel, each as it is.
"""

import shutil
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.networks.plan_text import ARRAYS, plan, recipes
from tests.networks.sounds import notes

RATE: Final = 22_050
LENGTH: Final = 43_844
CALIBRATION: Final = 32
EVALUATION: Final = 48

MODELS: Final = """\
[[models]]
name = "basic-pitch"
format = "savedmodel"
source = "nmp"

[[models]]
name = "basic-pitch"
format = "onnx"
source = "nmp.onnx"
"""

INPUTS: Final = ("input_2", "serving_default_input_2:0")
"""What the SavedModel and the ONNX file call the input. The archives hold the sounds under both names."""

NAMES: Final = 'names = { Identity = "contour", Identity_1 = "note", Identity_2 = "onset" }'
"""The outputs of the Core ML file, as basic_pitch/inference.py of the wheel names them."""

BUILDS: Final = [
    *recipes("tflite-float16", "tflite-int8-dynamic", "tflite-int8", "tflite-int16x8"),
    *recipes("coreml-float16", "coreml-int8-weights"),
    *recipes("onnx-int8", "onnx-int8-qoperator", "onnx-int8-dynamic"),
    'file = "nmp.tflite"\nsource = "savedmodel"',
    f'file = "nmp.mlpackage"\nsource = "savedmodel"\n{NAMES}',
]


def prepare(folder: Path, wheels: Path) -> None:
    """Write the model files, the sounds and the plan. wheels: where the wheels are unpacked."""
    files = wheels / "basic_pitch" / "saved_models" / "icassp_2022"
    shutil.copytree(files, folder, dirs_exist_ok=True)
    draw = np.random.default_rng(0)
    for name, count in (("calibration", CALIBRATION), ("evaluation", EVALUATION)):
        sounds = [notes(draw, LENGTH, RATE, int(draw.integers(2, 9))) for _ in range(count)]
        arrays: dict[str, Any] = dict.fromkeys(INPUTS, np.stack(sounds)[..., None])
        np.savez(folder / f"{name}.npz", **arrays)
    (folder / "phoneproof.toml").write_text(plan(MODELS, ARRAYS, BUILDS), encoding="utf-8")


if __name__ == "__main__":
    prepare(Path(sys.argv[1]), Path(sys.argv[2]))
