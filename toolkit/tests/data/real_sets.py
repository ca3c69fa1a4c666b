"""Real data out of installed packages and a few wheels: photographs, digits, faces, textures, sound, text and
tables. Nothing is drawn at random but where patches are cut."""

import wave
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import sklearn.datasets
from PIL import Image

from phoneproof.data.checks.checked import CheckedSet
from phoneproof.data.materialization import Materialization
from phoneproof.data.preprocessing import Interpolation, Layout, Mode, Preprocess, Resize, ResizeMethod
from phoneproof.data.set_specs import ImageFolder, NpzArchive, SetSpec
from phoneproof.data.sets import open_set
from phoneproof.data.store_writer import materialize
from phoneproof.data.subset import Part, chosen
from phoneproof.protocol.tensors import TensorSpec

Array = npt.NDArray[Any]

WHEELS: Final = Path(__file__).with_name("wheels.txt")
CACHE: Final = Path(__file__).parents[3] / ".cache" / "real-data"
CALIBRATION: Final = 200
"""Samples of the first part of a set, or half of it where that is less."""

_COLOURED: Final = (
    "astronaut.png",
    "chelsea.png",
    "coffee.png",
    "ihc.png",
    "motorcycle_left.png",
    "rocket.jpg",
)
_SKY: Final = ("hubble_deep_field.jpg", "retina.jpg")
_TEXTURES: Final = ("brick.png", "grass.png", "gravel.png", "camera.png", "coins.png", "moon.png", "text.png")


@dataclass(frozen=True)
class RealSet:
    """samples: how many. about: what they are, for the page. preprocess: of images; None for values."""

    spec: SetSpec
    tensor: TensorSpec
    preprocess: Preprocess | None
    samples: int
    about: str


def real_sets(folder: Path, wheels: Path) -> Mapping[str, RealSet]:
    """Every set, written below `folder`. wheels: where those of WHEELS are unpacked."""
    made: dict[str, RealSet] = {}
    for make in (_digits, _photographs, _tables, _text):
        made |= make(folder)
    for take in (_coloured, _grey, _faces, _sound):
        made |= take(folder, wheels)
    return made


def halves(real: RealSet, root: Path, seed: int) -> tuple[CheckedSet, CheckedSet]:
    """A set parted as a plan parts it by take and skip: (calibration, evaluation), stored below `root`."""
    opened = open_set(real.spec, ["x"])
    labels = [entry.label for entry in opened.entries]
    taken = min(CALIBRATION, real.samples // 2)
    goal = Materialization((real.tensor,), real.preprocess, root, 10**9)
    calibration, evaluation = (
        materialize(opened, chosen(labels, part, "set"), goal)
        for part in (Part(take=taken, seed=seed), Part(skip=taken, seed=seed))
    )
    return (
        CheckedSet("calibration", calibration, evaluation, real.preprocess),
        CheckedSet("evaluation", evaluation, None, real.preprocess),
    )


def square(side: int, mode: Mode) -> Preprocess:
    """To side x side pixels and -1 to 1."""
    resize = Resize(side, side, ResizeMethod.STRETCH, Interpolation.BILINEAR)
    ones = (1.0,) * (3 if mode is Mode.RGB else 1)
    return Preprocess(mode=mode, layout=Layout.NCHW, resize=resize, scale=1 / 127.5, mean=ones)


def patches(pictures: Iterable[Array], count: int, sides: tuple[int, int], seed: int) -> list[Array]:
    """Squares of a random place and side, picture after picture."""
    draw = np.random.default_rng(seed)
    known = list(pictures)
    cut = []
    for number in range(count):
        picture = known[number % len(known)]
        side = int(draw.integers(sides[0], min(sides[1], *picture.shape[:2]) + 1))
        top, left = (int(draw.integers(0, length - side + 1)) for length in picture.shape[:2])
        cut.append(picture[top : top + side, left : left + side])
    return cut


def _images(folder: Path, name: str, pictures: Iterable[Array], side: int, about: str) -> dict[str, RealSet]:
    (folder / name).mkdir()
    count, channels = 0, 1
    for count, picture in enumerate(pictures, 1):
        channels = 3 if picture.ndim == 3 else 1
        Image.fromarray(picture).save(folder / name / f"{count:05}.png")
    preprocess = square(side, Mode.RGB if channels == 3 else Mode.L)
    tensor = TensorSpec("x", "float32", (1, channels, side, side))
    return {name: RealSet(ImageFolder("image_folder", str(folder / name)), tensor, preprocess, count, about)}


def _values(folder: Path, name: str, values: Array, labels: Array | None, about: str) -> dict[str, RealSet]:
    arrays: dict[str, Any] = {"x": values} | ({} if labels is None else {"labels": labels})
    np.savez(folder / f"{name}.npz", **arrays)
    tensor = TensorSpec("x", str(values.dtype), (1, *values.shape[1:]))
    spec = NpzArchive("npz", str(folder / f"{name}.npz"))
    return {name: RealSet(spec, tensor, None, len(values), about)}


def _digits(folder: Path) -> dict[str, RealSet]:
    digits = sklearn.datasets.load_digits()
    levels = np.minimum(digits.images * 16, 255).astype(np.uint8)
    enlarged = _images(folder, "digits", levels, 32, "scikit-learn's digits, enlarged to 32 x 32, grey")
    small = (digits.images[:, np.newaxis] / 16).astype(np.float32)
    about = "the same as values, 1 x 8 x 8, with labels"
    return enlarged | _values(folder, "digits-8x8", small, digits.target, about)


def _photographs(folder: Path) -> dict[str, RealSet]:
    cut = patches(sklearn.datasets.load_sample_images().images, 200, (96, 300), 0)
    return _images(
        folder, "two-photographs", cut, 224, "patches of scikit-learn's two photographs, 224 x 224"
    )


def _tables(folder: Path) -> dict[str, RealSet]:
    made: dict[str, RealSet] = {}
    for name in ("iris", "wine", "breast_cancer", "diabetes"):
        loaded: Any = getattr(sklearn.datasets, f"load_{name}")()
        labels = None if name == "diabetes" else loaded.target
        about = f"scikit-learn's table {name}, {loaded.data.shape[1]} features"
        made |= _values(folder, name, loaded.data.astype(np.float32), labels, about)
    return made


def _text(folder: Path) -> dict[str, RealSet]:
    """Bytes of the documentation strings of numpy's functions, padded to 128."""
    told = {getattr(np, name).__doc__ or "" for name in dir(np) if not name.startswith("_")}
    lines = sorted(text for text in told if len(text) > 200)
    ids = np.zeros((len(lines), 128), np.int64)
    for row, line in zip(ids, lines, strict=True):
        code = line.encode()[:128]
        row[: len(code)] = list(code)
    return _values(folder, "text", ids, None, "bytes of numpy's documentation as 128 token ids")


def _pictures(wheels: Path, names: Iterable[str]) -> list[Array]:
    return [np.asarray(Image.open(wheels / "skimage" / "data" / name)) for name in names]


def _coloured(folder: Path, wheels: Path) -> dict[str, RealSet]:
    cut = patches(_pictures(wheels, _COLOURED), 300, (80, 300), 1)
    made = _images(folder, "photographs", cut, 128, "patches of six photographs of scikit-image, 128 x 128")
    cut = patches(_pictures(wheels, _SKY), 120, (100, 400), 2)
    return made | _images(folder, "sky-and-retina", cut, 96, "patches of a night sky and a retina, 96 x 96")


def _grey(folder: Path, wheels: Path) -> dict[str, RealSet]:
    cut = patches(_pictures(wheels, _TEXTURES), 280, (64, 160), 3)
    return _images(folder, "textures", cut, 96, "patches of seven grey pictures: brick, grass, gravel, print")


def _faces(folder: Path, wheels: Path) -> dict[str, RealSet]:
    faces = np.load(wheels / "skimage" / "data" / "lfw_subset.npy").astype(np.float32)
    labels = (np.arange(len(faces)) >= len(faces) // 2).astype(np.int64)
    return _values(folder, "faces", faces[..., np.newaxis], labels, "100 faces and 100 others, 25 x 25 x 1")


def _sound(folder: Path, wheels: Path) -> dict[str, RealSet]:
    """Windows of a piece of music, and their spectrograms."""
    with wave.open(str(wheels / "pygame" / "examples" / "data" / "house_lo.wav")) as file:
        width, raw = file.getsampwidth(), file.readframes(file.getnframes())
    sound = np.frombuffer(raw, np.uint8) / 128 - 1 if width == 1 else np.frombuffer(raw, "<i2") / 32768
    starts = range(0, len(sound) - 2048, 512)
    windows = np.stack([sound[at : at + 2048] for at in starts]).astype(np.float32)
    frames = np.stack([windows[:, at : at + 256] for at in range(0, 1793, 128)], axis=1) * np.hanning(256)
    power = np.log(np.abs(np.fft.rfft(frames)[..., :128]) ** 2 + 1e-6).astype(np.float32)
    made = _values(folder, "sound", windows, None, "windows of 2048 samples of music")
    return made | _values(folder, "spectrograms", power, None, "their spectrograms, 15 x 128")
