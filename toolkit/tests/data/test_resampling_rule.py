"""docs/preprocessing.md states resampling so that other languages can equal it.

Here is that text as a program in plain Python; Pillow has to give the same levels, bit for bit.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phoneproof.data.pixels import pixels
from phoneproof.data.preprocessing import Interpolation, Mode, Resize, ResizeMethod
from tests.data.builders import Pixels, as_is, noise


def sinc(x: float) -> float:
    return 1.0 if x == 0.0 else math.sin(x * math.pi) / (x * math.pi)


def bilinear(x: float) -> float:
    return 1.0 - abs(x) if abs(x) < 1.0 else 0.0


def box(x: float) -> float:
    return 1.0 if -0.5 < x <= 0.5 else 0.0


def hamming(x: float) -> float:
    x = abs(x)
    a, b = float(np.float32(0.54)), float(np.float32(0.46))
    return 0.0 if x >= 1.0 else sinc(x) * (a + b * math.cos(x * math.pi))


def bicubic(x: float) -> float:
    x, a = abs(x), -0.5
    if x < 1.0:
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    return (((x - 5.0) * x + 8.0) * x - 4.0) * a if x < 2.0 else 0.0


def lanczos(x: float) -> float:
    return sinc(x) * sinc(x / 3.0) if -3.0 <= x < 3.0 else 0.0


FILTERS: dict[Interpolation, tuple[Callable[[float], float], float]] = {
    Interpolation.BOX: (box, 0.5),
    Interpolation.BILINEAR: (bilinear, 1.0),
    Interpolation.HAMMING: (hamming, 1.0),
    Interpolation.BICUBIC: (bicubic, 2.0),
    Interpolation.LANCZOS: (lanczos, 3.0),
}


def weights(n_in: int, n_out: int, interpolation: Interpolation) -> list[tuple[int, list[int]]]:
    """For each output position: first input position, and integer weights (1.0 is 2 ** 22)."""
    function, support = FILTERS[interpolation]
    step = n_in / n_out
    stretch = max(step, 1.0)
    made = []
    for i in range(n_out):
        centre = (i + 0.5) * step
        first = max(0, int(centre - support * stretch + 0.5))
        last = min(n_in, int(centre + support * stretch + 0.5))
        inverse = 1.0 / stretch
        real = [function((j - centre + 0.5) * inverse) for j in range(first, last)]
        total = 0.0
        for weight in real:
            total += weight
        if total != 0.0:
            real = [weight * (1.0 / total) for weight in real]
        made.append((first, [int(w * 2**22 + (0.5 if w >= 0 else -0.5)) for w in real]))
    return made


def resample_rows(levels: Pixels, n_out: int, interpolation: Interpolation) -> Pixels:
    """Along the first axis."""
    out = np.empty((n_out, *levels.shape[1:]), np.uint8)
    for i, (first, whole) in enumerate(weights(levels.shape[0], n_out, interpolation)):
        window = levels[first : first + len(whole)].astype(np.int64)
        total = np.tensordot(np.array(whole, np.int64), window, axes=1) + 2**21
        out[i] = np.clip(total >> 22, 0, 255)
    return out


def resample(levels: Pixels, height: int, width: int, interpolation: Interpolation) -> Pixels:
    if interpolation is Interpolation.NEAREST:
        return levels[nearest(levels.shape[0], height)][:, nearest(levels.shape[1], width)]
    if width != levels.shape[1]:
        levels = resample_rows(levels.transpose(1, 0, 2), width, interpolation).transpose(1, 0, 2)
    if height != levels.shape[0]:
        levels = resample_rows(levels, height, interpolation)
    return levels


def nearest(n_in: int, n_out: int) -> list[int]:
    step = n_in / n_out
    position, chosen = step * 0.5, []
    for _ in range(n_out):
        chosen.append(int(position))
        position += step
    return chosen


@pytest.mark.parametrize("interpolation", Interpolation)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 60), st.integers(1, 60), st.integers(0, 9))
def test_pillow_equals_the_written_rule(
    interpolation: Interpolation, h: int, w: int, height: int, width: int, seed: int
) -> None:
    image = noise(h, w, 3, seed)
    resize = Resize(width, height, ResizeMethod.STRETCH, interpolation)
    assert np.array_equal(pixels(image, as_is(resize=resize)), resample(image, height, width, interpolation))


@pytest.mark.parametrize("interpolation", Interpolation)
def test_a_photograph_sized_image_in_grey(interpolation: Interpolation) -> None:
    image = noise(301, 407, 1)
    resize = Resize(224, 224, ResizeMethod.STRETCH, interpolation)
    found = pixels(image, as_is(mode=Mode.L, resize=resize))
    assert np.array_equal(found, resample(image, 224, 224, interpolation))
