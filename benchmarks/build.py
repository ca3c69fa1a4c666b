"""Building MobileNetV2 by every recipe, against the vendors' own scripts in sequence.

One network, torchvision's and Keras's MobileNetV2 with random weights of a fixed seed and batch statistics of
the evaluation set (without those the signal fades, and integer kernels refuse the scales), and 64 calibration
samples: noise with the spectrum of photographs, drawn with a fixed seed, since nothing is downloaded. Both
sides make the same builds with the same samples and methods (minimum and maximum, per channel):

- ours: `phoneproof build` on one plan, with an empty store. It reads the samples from PNG files, and checks
  each build in its runtime;
- the vendors': the scripts of benchmarks/vendors, one process each, one after the other, each as its vendor's
  documentation writes it. They get the samples ready-made, and check nothing.

A round is both sides, in turn ours or theirs first. What `phoneproof run` then takes in the same folder, to
verify the builds, is told apart; the vendors' scripts have nothing like it. Last line: JSON {"build_ratio",
"build_s", "vendors_s", "run_s"}: medians over the rounds. Aim: build_ratio at most 0.6.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).parents[1]
VENDORS = Path(__file__).parent / "vendors"
SIDE = 224
SEED = 0

SCRIPTS = {
    "tflite-float32.tflite": ("convert_tflite.py", "float32"),
    "tflite-float16.tflite": ("convert_tflite.py", "float16"),
    "tflite-int8-dynamic.tflite": ("convert_tflite.py", "dynamic"),
    "tflite-int8.tflite": ("convert_tflite.py", "int8"),
    "tflite-int16x8.tflite": ("convert_tflite.py", "int16x8"),
    "coreml-float32.mlpackage": ("convert_coreml.py", "float32"),
    "coreml-float16.mlpackage": ("convert_coreml.py", "float16"),
    "coreml-int8-weights.mlpackage": ("convert_coreml.py", "weights"),
    "coreml-int8.mlpackage": ("convert_coreml.py", "int8"),
    "executorch-float32.pte": ("convert_executorch.py", "float32"),
    "executorch-int8.pte": ("convert_executorch.py", "int8"),
    "executorch-int8-dynamic.pte": ("convert_executorch.py", "dynamic"),
    "onnx-float32.onnx": ("export_onnx.py", "float32"),
    "onnx-int8.onnx": ("quantize_onnx.py", "int8"),
    "onnx-int8-qoperator.onnx": ("quantize_onnx.py", "qoperator"),
    "onnx-int8-dynamic.onnx": ("quantize_onnx.py", "dynamic"),
    "torch-float32.ts": ("quantize_fx.py", "float32"),
    "torch-qnnpack-int8.ts": ("quantize_fx.py", "int8"),
}
"""Vendor's script and its argument by the file that it makes, which has the name of our recipe."""

PLAN = f"""\
[[models]]
name = "mobilenet"
format = "pytorch"
source = "network:network"
state = "network.safetensors"
inputs = [{{ name = "image", shape = [1, 3, {SIDE}, {SIDE}] }}]
outputs = ["logits"]

[[models]]
name = "mobilenet"
format = "keras"
source = "network.keras"

[data]
calibration = {{ kind = "image_folder", path = "calibration" }}
evaluation = {{ kind = "image_folder", path = "evaluation" }}

[data.preprocess]
mode = "RGB"
layout = "nchw"
scale = {1 / 127.5}
mean = [1.0, 1.0, 1.0]

[[devices]]
kind = "host"
"""

NETWORK = """\
import torchvision

def network():
    return torchvision.models.mobilenet_v2(weights=None)
"""

TORCH = """\
import sys, numpy, torch, torchvision
from safetensors.torch import save_file
torch.manual_seed(int(sys.argv[2]))
network = torchvision.models.mobilenet_v2(weights=None).train()
for layer in network.modules():
    if isinstance(layer, torch.nn.BatchNorm2d):
        layer.momentum = 1.0
with torch.no_grad():
    network(torch.from_numpy(numpy.load(sys.argv[1] + "/evaluation.npy")))
save_file(network.state_dict(), sys.argv[1] + "/network.safetensors")
"""

KERAS = """\
import sys, keras, numpy
keras.utils.set_random_seed(int(sys.argv[2]))
network = keras.applications.MobileNetV2(weights=None)
norms = [layer for layer in network.layers if isinstance(layer, keras.layers.BatchNormalization)]
for layer in norms:
    layer.momentum = 0.0
network(numpy.load(sys.argv[1] + "/evaluation.npy").transpose(0, 2, 3, 1), training=True)
for layer in norms:
    layer.momentum = 0.99
network.save(sys.argv[1] + "/network.keras")
"""


def image(draw: np.random.Generator) -> np.ndarray:
    """uint8 [SIDE, SIDE, 3]: noise whose amplitude falls with the frequency, as that of photographs does."""
    rows, columns = np.fft.fftfreq(SIDE)[:, None, None], np.fft.rfftfreq(SIDE)[None, :, None]
    amplitude = 1 / np.maximum(np.hypot(rows, columns), 1 / SIDE)
    phase = draw.uniform(0, 2 * np.pi, (SIDE, SIDE // 2 + 1, 3))
    values = np.fft.irfft2(amplitude * np.exp(1j * phase), (SIDE, SIDE), axes=(0, 1))
    levels = 128 + values / values.std() * draw.uniform(30, 70)
    return np.clip(levels, 0, 255).astype(np.uint8)


def prepare(folder: Path, samples: int) -> None:
    """Write the networks, the samples in both forms, and the plan."""
    draw = np.random.default_rng(SEED)
    for name, count in (("calibration", samples), ("evaluation", 16)):
        images = [image(draw) for _ in range(count)]
        for number, one in enumerate(images):
            file = folder / name / str(number % 2) / f"{number:03}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(one).save(file)
        files = sorted((folder / name).rglob("*.png"))
        values = [np.asarray(Image.open(file)) * (1 / 127.5) - 1 for file in files]
        np.save(folder / f"{name}.npy", np.stack(values).transpose(0, 3, 1, 2).astype(np.float32))
    for script in (TORCH, KERAS):
        call([sys.executable, "-c", script, str(folder), str(SEED)])
    (folder / "network.py").write_text(NETWORK)
    (folder / "phoneproof.toml").write_text(PLAN + "".join(map(build_of, SCRIPTS)))


def build_of(name: str) -> str:
    """The plan's entry for a file of SCRIPTS: from the form that the vendor's script reads too."""
    source = "keras" if name.startswith("tflite") else "pytorch"
    return f'\n[[builds]]\nrecipe = "{Path(name).stem}"\nsource = "{source}"\n'


def call(command: list[str], accepted: tuple[int, ...] = (0,), **environment: str) -> float:
    """Wall time of a command in seconds; ends this script if it fails."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}
    begin = time.perf_counter()
    done = subprocess.run(
        command, env={**os.environ, **quiet, **environment}, capture_output=True, text=True, check=False
    )
    taken = time.perf_counter() - begin
    if done.returncode not in accepted:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-4_000:]}")
    return taken


def ours(folder: Path, out: Path) -> tuple[float, float]:
    """Seconds of `build` with an empty store, and of the `run` that verifies what it built.

    The networks are untrained: whether their builds pass the gates (exit codes 1 and 4) is not the question.
    """
    code = "from phoneproof.cli.main import main; main(prog_name='phoneproof')"
    paths = {
        "PHONEPROOF_STORE": str(out.with_name(f"{out.name}-store")),
        "PYTHONPATH": str(ROOT / "toolkit"),
    }
    arguments = ["--plan", str(folder / "phoneproof.toml"), "--out", str(out)]
    build_s = call([sys.executable, "-c", code, "build", *arguments], **paths)
    run_s = call([sys.executable, "-c", code, "run", *arguments], accepted=(0, 1, 4), **paths)
    return build_s, run_s


def vendors(folder: Path, out: Path) -> dict[str, float]:
    """Seconds of each vendor's script by the file it makes, in sequence."""
    out.mkdir()
    seconds = {}
    for name, (script, kind) in SCRIPTS.items():
        command = [sys.executable, str(VENDORS / script), str(folder), kind, str(out / name)]
        seconds[name] = call(command)
        if not (out / name).exists():
            sys.exit(f"{script} {kind} made nothing.")
    return seconds


def size_bytes(path: Path) -> int:
    """Of a file, or of all files of a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def show(out: Path, theirs: Path, seconds: dict[str, float]) -> None:
    """One line for each build: both sizes, so that one sees that the same was made, and the vendor's time."""
    print(f"{'recipe':26}{'ours':>12}{'vendor':>12}{'vendor takes':>16}")
    for name, taken in seconds.items():
        recipe = Path(name).stem
        (folder,) = out.glob(f"builds/mobilenet/*/{recipe}")
        manifest = json.loads((folder / "build.json").read_text())
        sizes = manifest["size_bytes"], size_bytes(theirs / name)
        print(f"{recipe:26}" + "".join(f"{size / 1e6:9.2f} MB" for size in sizes) + f"{taken:14.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    builds, runs, sums, ratios = [], [], [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, arguments.samples)
        for number in range(arguments.rounds):
            out, theirs = folder / f"run-{number}", folder / f"vendors-{number}"
            if number % 2:
                seconds = vendors(folder, theirs)
            build_s, run_s = ours(folder, out)
            if not number % 2:
                seconds = vendors(folder, theirs)
            show(out, theirs, seconds)
            builds.append(build_s)
            runs.append(run_s)
            sums.append(sum(seconds.values()))
            ratios.append(build_s / sums[-1])
            print(
                f"round {number + 1}: build {build_s:.1f} s, vendors' scripts {sums[-1]:.1f} s, "
                f"ratio {ratios[-1]:.3f}; the run after it {run_s:.1f} s",
                flush=True,
            )
    print(
        json.dumps(
            {
                "build_ratio": round(statistics.median(ratios), 3),
                "build_s": round(statistics.median(builds), 1),
                "vendors_s": round(statistics.median(sums), 1),
                "run_s": round(statistics.median(runs), 1),
            }
        )
    )


if __name__ == "__main__":
    main()
