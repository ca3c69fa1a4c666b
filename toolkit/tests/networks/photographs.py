"""Patches of scikit-learn's two photographs, china.jpg and flower.jpg (427 x 640 pixels)."""

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_sample_images

SIDE: Final = 224
CALIBRATION: Final = 48
EVALUATION: Final = 64
CLASSES: Final = 20
SHIFT: Final = 2.0
_LEAST, _MOST = 96, 300
_PARTED: Final = 320
"""Column that parts each photograph: calibration patches lie left of it, evaluation patches right."""


def write_patches(folder: Path, seed: int = 0) -> None:
    """CALIBRATION and EVALUATION squares of 96 to 300 pixels, enlarged or shrunk to SIDE, as PNG files.

    The two sets share no pixel.
    """
    draw = np.random.default_rng(seed)
    photographs = load_sample_images().images
    sets = (("calibration", CALIBRATION, 0), ("evaluation", EVALUATION, _PARTED))
    for name, count, left in sets:
        (folder / name).mkdir(parents=True)
        for number in range(count):
            photograph = photographs[number % len(photographs)][:, left : left + _PARTED]
            side = int(draw.integers(_LEAST, _MOST + 1))
            height, width = photograph.shape[:2]
            row, column = (int(draw.integers(0, length - side + 1)) for length in (height, width))
            patch = Image.fromarray(photograph[row : row + side, column : column + side])
            resized = patch.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
            resized.save(folder / name / f"{number:03}.png")


def as_values(folder: Path) -> NDArray[np.float32]:
    """float32 [n, SIDE, SIDE, 3] from -1 to 1: a folder's patches as the plans preprocess them."""
    files = sorted(folder.glob("*.png"))
    levels = np.stack([np.asarray(Image.open(file)) for file in files])
    return (levels / 127.5 - 1).astype(np.float32)
