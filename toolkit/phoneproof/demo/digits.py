"""The demo's data: scikit-learn's handwritten digits, 1,797 labelled grey images of 8 x 8 pixels.

They are the test part of "Optical Recognition of Handwritten Digits" (Alpaydin and Kaynak, 1998), and come
inside scikit-learn, so that nothing is fetched.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from PIL import Image

from phoneproof.data.pixels import pixels
from phoneproof.data.preprocessing import Interpolation, Layout, Mode, Preprocess, Resize, ResizeMethod
from phoneproof.data.values import apply, value_map

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int64]

CLASSES: Final = 10
SIDE: Final = 112
"""Pixels of the model's input, on each side."""

CALIBRATION_SIZE: Final = 200
EVALUATION_SIZE: Final = 897
# Which image is in which set never depends on --seed: accuracies of two trainings stay comparable.
_SPLIT_SEED: Final = 20_261
_MAX_LEVEL: Final = 16

# Mean and standard deviation of the enlarged training images, to two places.
PREPROCESS: Final = Preprocess(
    mode=Mode.L,
    layout=Layout.NCHW,
    resize=Resize(width=SIDE, height=SIDE, method=ResizeMethod.STRETCH, interpolation=Interpolation.BILINEAR),
    scale=1 / 255,
    mean=(0.30,),
    std=(0.32,),
)


@dataclass(frozen=True)
class Split:
    """Positions of the images of each set, in rising order. No image is in two sets."""

    training: Indices
    calibration: Indices
    evaluation: Indices


def load() -> tuple[Images, Labels]:
    """Images, uint8 [1797, 8, 8] with levels 0 to 255, and labels, int64 [1797], in scikit-learn's order."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    levels = np.rint(digits.images * (255 / _MAX_LEVEL)).astype(np.uint8)
    return levels, digits.target.astype(np.int64)


def split(images: Images, labels: Labels) -> Split:
    """Share the distinct images out to the three sets, stratified by class, always in the same way.

    Images that repeat an earlier one, pixel by pixel, are left out: they would let the network see what it
    is evaluated on.
    """
    from sklearn.model_selection import train_test_split

    _, first = np.unique(images.reshape(len(images), -1), axis=0, return_index=True)
    distinct = np.sort(first).astype(np.int64)
    rest, evaluation = train_test_split(
        distinct, test_size=EVALUATION_SIZE, stratify=labels[distinct], random_state=_SPLIT_SEED
    )
    training, calibration = train_test_split(
        rest, test_size=CALIBRATION_SIZE, stratify=labels[rest], random_state=_SPLIT_SEED
    )
    return Split(np.sort(training), np.sort(calibration), np.sort(evaluation))


def write_set(folder: Path, images: Images, labels: Labels, indices: Indices) -> str:
    """Write an image folder, `<class>/<position>.png` (8-bit grey), and return its `folder_sha256`."""
    for label in range(CLASSES):
        (folder / str(label)).mkdir(parents=True)
    for index in indices:
        Image.fromarray(images[index]).save(folder / str(labels[index]) / f"{index:04d}.png")
    return folder_sha256(folder)


def set_files(folder: Path) -> list[Path]:
    """The files that `write_set` wrote, by class and then by position."""
    return sorted(folder.glob("*/*.png"))


def read_images(files: Sequence[Path]) -> Images:
    """Images of a set as they were written, uint8 [n, 8, 8]."""
    read = []
    for file in files:
        with Image.open(file) as image:
            read.append(np.asarray(image))
    return np.stack(read)


def folder_sha256(folder: Path) -> str:
    """sha256 (hexadecimal) over the sorted lines `<sha256 of file>  <relative path>` of a folder's files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = (
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n"
        for path in files
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def model_inputs(images: Images) -> npt.NDArray[np.float32]:
    """[n, 8, 8] images through PREPROCESS: float32 [n, 1, SIDE, SIDE], as calibration and evaluation give."""
    stored = np.stack([pixels(image, PREPROCESS) for image in images])
    inputs: npt.NDArray[np.float32] = apply(
        stored, value_map(PREPROCESS).astype(np.float32), PREPROCESS.layout
    )
    return inputs
