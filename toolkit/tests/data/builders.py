"""Small images, sets and requests for the tests of phoneproof.data."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from PIL import Image

from phoneproof.data.materialization import Materialization
from phoneproof.data.preprocessing import (
    Alpha,
    ColourOrder,
    CropRounding,
    Interpolation,
    Layout,
    Mode,
    Placement,
    Preprocess,
    Resize,
    ResizeMethod,
)
from phoneproof.data.set_specs import ImageFolder
from phoneproof.data.sets import open_set
from phoneproof.data.store import SampleStore
from phoneproof.data.store_writer import materialize
from phoneproof.protocol.tensors import TensorSpec

Pixels = npt.NDArray[np.uint8]


def noise(height: int, width: int, channels: int = 3, seed: int = 0) -> Pixels:
    generator = np.random.default_rng(seed)
    return generator.integers(0, 256, (height, width, channels), dtype=np.uint8)


def stretch(height: int, width: int, **fields: Any) -> Preprocess:
    resize = Resize(width, height, ResizeMethod.STRETCH, Interpolation.BILINEAR)
    return as_is(resize=resize, **fields)


def as_is(**fields: Any) -> Preprocess:
    known: dict[str, Any] = {"mode": Mode.RGB, "layout": Layout.NCHW}
    return Preprocess(**(known | fields))


def image_folder(root: Path, classes: dict[str, int], size: tuple[int, int] = (6, 5)) -> Path:
    """A folder of PNG files, all different: classes[name] files in the sub-folder `name`."""
    seed = 0
    for name, count in classes.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for k in range(count):
            seed += 1
            Image.fromarray(noise(*size, seed=seed)).save(root / name / f"{k:03}.png")
    return root


def tensor(shape: tuple[int, ...], dtype: str = "float32", **fields: Any) -> TensorSpec:
    return TensorSpec("image", dtype, shape, **fields)


def target(root: Path, preprocess: Preprocess | None, *inputs: TensorSpec, **fields: Any) -> Materialization:
    known: dict[str, Any] = {"size_cap_bytes": 10**9, "threads": 1} | fields
    return Materialization(inputs or (tensor((1, 3, 4, 4)),), preprocess, root, **known)


def stored_folder(root: Path, folder: Path, preprocess: Preprocess | None = None) -> SampleStore:
    """All images of a folder, stored below `root`."""
    opened = open_set(ImageFolder("image_folder", str(folder)), ["image"])
    chosen = preprocess or stretch(4, 4)
    return materialize(opened, range(len(opened.entries)), target(root, chosen))


_numbers = st.floats(-300, 300, allow_nan=False)
_levels = st.integers(0, 255)


@st.composite
def preprocesses(draw: st.DrawFn) -> Preprocess:
    """Any Preprocess that can be meant."""
    mode = draw(st.sampled_from(Mode))
    n = 3 if mode is Mode.RGB else 1
    colour = st.tuples(*[_levels] * n)
    resize = None
    if draw(st.booleans()):
        method = draw(st.sampled_from(ResizeMethod))
        letterbox = method is ResizeMethod.LETTERBOX
        resize = Resize(
            draw(st.integers(1, 40)),
            draw(st.integers(1, 40)),
            method,
            draw(st.sampled_from(Interpolation)),
            draw(st.sampled_from(Placement)) if letterbox else Placement.CENTRE,
            draw(colour) if letterbox else (),
        )
    crop = None
    if (resize and resize.method is ResizeMethod.SHORTEST_SIDE) or draw(st.booleans()):
        most = (resize.height, resize.width) if resize else (40, 40)
        crop = (draw(st.integers(1, most[0])), draw(st.integers(1, most[1])))
    return Preprocess(
        mode=mode,
        layout=draw(st.sampled_from(Layout)),
        dtype=draw(st.sampled_from(["float32", "float64", "uint8", "int8"])),
        alpha=draw(st.sampled_from(Alpha)),
        background=draw(colour),
        resize=resize,
        centre_crop=crop,
        crop_rounding=draw(st.sampled_from(CropRounding)),
        colour_order=draw(st.sampled_from(ColourOrder)) if n == 3 else ColourOrder.RGB,
        scale=draw(_numbers),
        mean=draw(st.tuples(*[_numbers] * n)),
        std=draw(st.tuples(*[st.floats(1e-3, 300)] * n)),
    )
