"""A network's folder is made, and its plan is run, in processes of their own: each loads one framework."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from phoneproof.report.json_report import read_report
from phoneproof.report.model import Report

_ROOT: Final = Path(__file__).parents[3]
WHEELS: Final = Path(__file__).with_name("wheels.txt")
CACHE: Final = _ROOT / ".cache" / "networks"


@dataclass(frozen=True)
class Network:
    """A module of this folder that makes a project.

    title, about: for the page. wheels: whether it takes files out of wheels.txt.
    """

    module: str
    title: str
    about: str
    wheels: bool = False


NETWORKS: Final = (
    Network(
        "mobilenet_torch",
        "MobileNetV2, PyTorch",
        "torchvision's, 224 x 224, 20 classes, random weights; patches of two photographs. "
        "From patch to patch its logits vary by some 6 % of their mean size, and a slice is measured against "
        "that variation (see [measuring](measuring.md)).",
    ),
    Network(
        "mobilenet_keras",
        "MobileNetV2, Keras",
        "keras.applications', 224 x 224, 20 classes, random weights; patches of two photographs.",
    ),
    Network(
        "basic_pitch",
        "basic-pitch",
        "basic-pitch 0.4.0 as its wheel has it (SavedModel, ONNX, TFLite, Core ML): 2 s of sound to contour, "
        "notes and onsets; synthesised notes.",
        wheels=True,
    ),
    Network(
        "silero_vad",
        "silero-vad",
        "Two ONNX files of silero-vad 6.2.3: sound, state and for `both-rates` an int64 rate, to speech and "
        "the next state; synthesised syllables.",
        wheels=True,
    ),
    Network(
        "text_classifier",
        "Text classifier, PyTorch",
        "Bytes of text as int64 ids, two encoder layers with a mask, random weights; Python's documentation "
        "strings.",
    ),
)


class NotFetchedError(Exception):
    """The wheels cannot be had here."""


def fetch_wheels(folder: Path = CACHE, wheels: Path = WHEELS) -> Path:
    """The folder with the wheels of a requirements file, unpacked once; their hashes are checked by uv.

    NotFetchedError, with uv's last line, where that fails.
    """
    whole = folder / f"fetched-{wheels.stat().st_size}"
    if not whole.exists():
        uv = shutil.which("uv") or str(_ROOT / ".cache" / "uv-tool" / "bin" / "uv")
        options = ["--no-deps", "--require-hashes", "--only-binary", ":all:"]
        command = [uv, "pip", "install", "--python", sys.executable, *options]
        try:
            subprocess.run(
                [*command, "--target", str(folder), "--requirement", str(wheels)],
                check=True,
                capture_output=True,
                text=True,
            )
        except (OSError, subprocess.CalledProcessError) as error:
            told = getattr(error, "stderr", None) or str(error)
            raise NotFetchedError(told.strip().splitlines()[-1]) from error
        whole.touch()
    return folder


def prepare(network: Network, folder: Path) -> Path:
    """Make the network's project in `folder`."""
    folder.mkdir(parents=True)
    wheels = [str(fetch_wheels())] if network.wheels else []
    _call([sys.executable, "-m", f"tests.networks.{network.module}", str(folder), *wheels], folder, (0,))
    return folder


def run(folder: Path, store: Path) -> Report:
    """Run the project's plan; a build that fails or is not right is in the report."""
    code = "from phoneproof.cli.main import main; main(prog_name='phoneproof')"
    _call(
        [sys.executable, "-c", code, "run", "--out", "run"], folder, (0, 1, 3, 4), PHONEPROOF_STORE=str(store)
    )
    return read_report(folder / "run" / "report" / "report.json")


def _call(command: list[str], folder: Path, accepted: tuple[int, ...], **environment: str) -> None:
    paths = {"PYTHONPATH": str(_ROOT / "toolkit"), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **paths, **environment}, capture_output=True, text=True
    )
    if done.returncode not in accepted:
        raise RuntimeError(
            f"{command[1:4]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"[-4000:]
        )
