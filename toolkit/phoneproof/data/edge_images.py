"""Edge inputs as image files: really encoded, so that decoding and the declared preprocess are tried too.

Every file is the same bytes on every run: noise has a fixed seed, and nothing else is random.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from PIL import Image

from phoneproof.data.edge import IMAGE_NAMES
from phoneproof.data.preprocessing import ColourOrder, Preprocess
from phoneproof.data.store import SkippedSample

Pixels = npt.NDArray[np.uint8]

OVER_EXPOSURE: Final = 2.5
"""Times the levels of a real sample: most of a photograph is then at 255, with some texture left."""

_NOISE_SEED: Final = 0
_NARROW: Final = (30, 900)
"""Width and height, 1 to 30."""
_VERY_LARGE: Final = (6_000, 4_000)
"""24 megapixels, the photograph of a phone; a mobile app is handed such files."""
_ODD_SIZED: Final = frozenset({"aspect_1_30", "aspect_30_1", "one_by_one", "very_large"})


@dataclass(frozen=True)
class EdgeImages:
    """The files that were written, by name, and those that the preprocess has no place for."""

    files: Mapping[str, Path]
    refused: tuple[SkippedSample, ...]


def write_edge_images(
    folder: Path, names: Sequence[str], preprocess: Preprocess, size: tuple[int, int], first: Pixels
) -> EdgeImages:
    """The edge images of these names as files.

    size: (height, width) of the model's input. first: a stored sample [H, W, C], as the model's colour
    order has it. A preprocess without a size takes only images of the model's own size: the others are
    refused, as they would be among data.
    """
    drawn = _Drawing(_made_at(preprocess, size), _in_rgb(first, preprocess))
    files: dict[str, Path] = {}
    refused = []
    for name in (name for name in IMAGE_NAMES if name in names):
        if name in _ODD_SIZED and preprocess.output_size is None:
            refused.append(SkippedSample(name, "The preprocess keeps images at their own size"))
            continue
        files[name] = drawn.write(name, folder)
    return EdgeImages(files, tuple(refused))


def _made_at(preprocess: Preprocess, size: tuple[int, int]) -> tuple[int, int]:
    """(height, width) at which the preprocess does not resample: a lit pixel stays one."""
    if preprocess.resize is not None:
        return preprocess.resize.height, preprocess.resize.width
    return preprocess.centre_crop or size


def _in_rgb(levels: Pixels, preprocess: Preprocess) -> Pixels:
    return levels[:, :, ::-1] if preprocess.colour_order is ColourOrder.BGR else levels


@dataclass(frozen=True)
class _Drawing:
    """size: (height, width) of the plain images. first: a real sample in RGB order, or grey."""

    size: tuple[int, int]
    first: Pixels

    def write(self, name: str, folder: Path) -> Path:
        image = _DRAWN[name](self)
        path = folder / f"{name}.{'jpg' if name in ('cmyk', 'very_large') else 'png'}"
        image.save(path)
        return path

    def flat(self, level: int) -> Image.Image:
        return Image.fromarray(np.full((*self.size, 3), level, np.uint8))

    def over_bright(self) -> Image.Image:
        bright = np.minimum(self.first.astype(np.float64) * OVER_EXPOSURE, 255).astype(np.uint8)
        return Image.fromarray(bright if bright.shape[2] == 3 else bright[:, :, 0])

    def saturated_noise(self) -> Image.Image:
        random = np.random.default_rng(_NOISE_SEED)
        return Image.fromarray(random.integers(0, 2, (*self.size, 3)).astype(np.uint8) * np.uint8(255))

    def checkerboard(self) -> Image.Image:
        rows, columns = np.indices(self.size)
        board = ((rows + columns) % 2 * 255).astype(np.uint8)
        return Image.fromarray(np.repeat(board[:, :, np.newaxis], 3, axis=2))

    def one_pixel_lit(self) -> Image.Image:
        levels = np.zeros((*self.size, 3), np.uint8)
        levels[self.size[0] // 2, self.size[1] // 2] = 255
        return Image.fromarray(levels)

    def grey(self) -> Image.Image:
        return self.gradient().convert("L")

    def alpha(self) -> Image.Image:
        image = self.gradient()
        image.putalpha(Image.new("L", image.size, 128))
        return image

    def sixteen_bit(self) -> Image.Image:
        height, width = self.size
        ramp = np.linspace(0, 65_535, height * width).astype(np.uint16).reshape(height, width)
        return Image.fromarray(ramp)

    def gradient(self, size: tuple[int, int] | None = None) -> Image.Image:
        """Red grows to the right, green downwards, blue falls to the right. size: (width, height)."""
        width, height = size or self.size[::-1]
        across = np.linspace(0, 255, width).astype(np.uint8)
        down = np.linspace(0, 255, height).astype(np.uint8)
        levels = np.empty((height, width, 3), np.uint8)
        levels[:, :, 0], levels[:, :, 1], levels[:, :, 2] = across, down[:, np.newaxis], across[::-1]
        return Image.fromarray(levels)


_DRAWN: Final[Mapping[str, Callable[[_Drawing], Image.Image]]] = {
    "black": lambda drawing: drawing.flat(0),
    "white": lambda drawing: drawing.flat(255),
    "mid_grey": lambda drawing: drawing.flat(128),
    "over_bright": _Drawing.over_bright,
    "saturated_noise": _Drawing.saturated_noise,
    "checkerboard": _Drawing.checkerboard,
    "one_pixel_lit": _Drawing.one_pixel_lit,
    "aspect_1_30": lambda drawing: drawing.gradient(_NARROW),
    "aspect_30_1": lambda drawing: drawing.gradient(_NARROW[::-1]),
    "grey": _Drawing.grey,
    "alpha": _Drawing.alpha,
    "cmyk": lambda drawing: drawing.gradient().convert("CMYK"),
    "sixteen_bit": _Drawing.sixteen_bit,
    "one_by_one": lambda drawing: Image.new("RGB", (1, 1), (200, 100, 50)),
    "very_large": lambda drawing: drawing.gradient(_VERY_LARGE),
}
