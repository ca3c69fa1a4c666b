"""From an image file to the uint8 pixels that are stored: steps 1 to 6 of docs/preprocessing.md.

Pillow decodes and resizes; every other rule is integer arithmetic written here.
"""

from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
from PIL import Image

from phoneproof.data.preprocessing import (
    Alpha,
    ColourOrder,
    CropRounding,
    Interpolation,
    Mode,
    Placement,
    Preprocess,
    Resize,
    ResizeMethod,
)
from phoneproof.errors import BrokenSampleError, DataError, said

Pixels = npt.NDArray[np.uint8]

MAX_PIXELS: Final = 89_478_485
"""Most pixels of a decoded or resized image: a small file can otherwise unpack to gigabytes. Pillow's own
default, fixed here because any program can lift Pillow's."""

_FILTERS: Final = {
    Interpolation.NEAREST: Image.Resampling.NEAREST,
    Interpolation.BILINEAR: Image.Resampling.BILINEAR,
    Interpolation.BICUBIC: Image.Resampling.BICUBIC,
    Interpolation.LANCZOS: Image.Resampling.LANCZOS,
    Interpolation.BOX: Image.Resampling.BOX,
    Interpolation.HAMMING: Image.Resampling.HAMMING,
}
_ORIENTATION_TAG: Final = 0x0112
_ALPHA_MODES: Final = frozenset({"LA", "La", "PA", "RGBA", "RGBa"})
_SIXTEEN_BIT_MODES: Final = frozenset({"I;16", "I;16L", "I;16B", "I;16N"})


def pixels(image: Image.Image | npt.NDArray[Any], preprocess: Preprocess) -> Pixels:
    """uint8 [height, width, channels] in the declared size and colour order.

    image: a Pillow image, decoded or not, or decoded pixels: uint8 [H, W, 3] in RGB order for mode RGB,
        [H, W] or [H, W, 1] for mode L.
    Raises BrokenSampleError for an image that cannot be decoded, breaks a declared rule or is too large, and
    DataError for an array that is not decoded pixels.
    """
    if isinstance(image, np.ndarray):
        decoded = _checked_array(image, preprocess)
    else:
        decoded = decode(image, preprocess)
    shaped = _crop(_resize(decoded, preprocess), preprocess)
    if preprocess.colour_order is ColourOrder.BGR:
        shaped = shaped[:, :, ::-1]
    return np.ascontiguousarray(shaped)


def open_image(file: BinaryIO) -> Image.Image:
    """The image whose header `file` holds, not decoded yet. BrokenSampleError if there is none."""
    try:
        return Image.open(file)
    # Pillow's readers raise more than OSError on damaged bytes (struct.error, SyntaxError, KeyError, ...).
    except Exception as error:
        raise BrokenSampleError(_reason("There is no readable image", error)) from error


def decode(image: Image.Image, preprocess: Preprocess) -> Pixels:
    """RGB8 or L8 [height, width, channels], upright, without alpha. Raises BrokenSampleError."""
    _check_pixel_count(image.width, image.height)
    try:
        image.load()
        colour, alpha = _eight_bit(image)
        orientation = _orientation(image)
    except BrokenSampleError:
        raise
    # As in open_image: a damaged file makes Pillow's decoders raise nearly anything.
    except Exception as error:
        raise BrokenSampleError(_reason("The image cannot be decoded", error)) from error
    levels = _in_mode(colour, preprocess.mode)
    if alpha is not None:
        levels = _without_alpha(levels, alpha, preprocess)
    return upright(levels, orientation)


def upright(levels: Pixels, orientation: int) -> Pixels:
    """[H, W, C] turned as EXIF orientation 1 to 8 says (EXIF 2.32, tag 0x0112); any other is 1."""
    if orientation in (5, 6, 7, 8):
        levels = levels.transpose(1, 0, 2)
    if orientation in (3, 4, 7, 8):
        levels = levels[::-1]
    if orientation in (2, 3, 6, 7):
        levels = levels[:, ::-1]
    return levels


def resized_size(width: int, height: int, resize: Resize) -> tuple[int, int]:
    """(width, height) that an image of `width` x `height` is resampled to; integers throughout."""
    if resize.method is ResizeMethod.STRETCH:
        return resize.width, resize.height
    wide = resize.width * height >= resize.height * width
    if resize.method is ResizeMethod.SHORTEST_SIDE:
        if wide:
            return resize.width, height * resize.width // width
        return width * resize.height // height, resize.height
    if wide:
        return _nearest_ratio(width * resize.height, height), resize.height
    return resize.width, _nearest_ratio(height * resize.width, width)


def crop_start(rest: int, rounding: CropRounding) -> int:
    """First row or column kept when `rest` of them are cut."""
    half = rest // 2
    return half + 1 if rounding is CropRounding.HALF_EVEN and rest % 4 == 3 else half


def _nearest_ratio(numerator: int, denominator: int) -> int:
    return max(1, (2 * numerator + denominator) // (2 * denominator))


def _reason(what: str, error: Exception) -> str:
    return f"{what}: {type(error).__name__}: {said(error)}."


def _checked_array(array: npt.NDArray[Any], preprocess: Preprocess) -> Pixels:
    grey = preprocess.mode is Mode.L
    if array.ndim == 2 and grey:
        array = array[:, :, np.newaxis]
    is_image = array.ndim == 3 and array.shape[2] == preprocess.channels and 0 not in array.shape
    if array.dtype != np.uint8 or not is_image:
        expected = "[H, W] or [H, W, 1]" if grey else "[H, W, 3]"
        found = f"{array.dtype} {list(array.shape)}"
        raise DataError(
            f"With a declared preprocess an array must be uint8 {expected}, not {found}.",
            where="preprocess",
            next_step="Give decoded uint8 pixels, or remove the preprocess and give the model's own input.",
        )
    _check_pixel_count(array.shape[1], array.shape[0])
    return array


def _check_pixel_count(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise BrokenSampleError(f"{width} x {height} pixels are over the limit of {MAX_PIXELS}.")


def _orientation(image: Image.Image) -> int:
    """Read after load(): Pillow turns TIFF images itself and then removes the tag."""
    try:
        value = image.getexif().get(_ORIENTATION_TAG, 1)
    except Exception:  # noqa: BLE001 - damaged EXIF raises nearly anything, and the pixels are still good
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _eight_bit(image: Image.Image) -> tuple[Pixels, Pixels | None]:
    """RGB8 or L8 pixels [H, W, 3 or 1], and alpha [H, W] where the file has one."""
    mode = image.mode
    if mode in _SIXTEEN_BIT_MODES or (mode == "I" and image.format in ("PNG", "PPM")):
        return _from_sixteen_bit(image)
    if mode in ("I", "F"):
        raise BrokenSampleError(f"Pixels of Pillow mode {mode} have no defined range of levels.")
    if _has_alpha(image):
        whole = np.asarray(image.convert("RGBA"))
        return whole[:, :, :3], whole[:, :, 3]
    if mode in ("L", "1"):
        return np.asarray(image.convert("L"))[:, :, np.newaxis], None
    return np.asarray(image.convert("RGB")), None


def _has_alpha(image: Image.Image) -> bool:
    if image.mode in _ALPHA_MODES or "transparency" in image.info:
        return True
    return image.mode == "P" and image.palette is not None and image.palette.mode.endswith("A")


def _from_sixteen_bit(image: Image.Image) -> tuple[Pixels, Pixels | None]:
    wide = np.asarray(image).astype(np.int64)
    if wide.min() < 0 or wide.max() > 65535:
        raise BrokenSampleError("Levels lie outside 0 to 65535.")
    levels = ((wide + 128) // 257).astype(np.uint8)[:, :, np.newaxis]
    key = image.info.get("transparency")
    alpha = None if key is None else np.where(wide == key, 0, 255).astype(np.uint8)
    return levels, alpha


def _in_mode(colour: Pixels, mode: Mode) -> Pixels:
    channels = colour.shape[2]
    if mode is Mode.RGB:
        return colour if channels == 3 else np.repeat(colour, 3, axis=2)
    return colour if channels == 1 else np.asarray(Image.fromarray(colour).convert("L"))[:, :, np.newaxis]


def _without_alpha(levels: Pixels, alpha: Pixels, preprocess: Preprocess) -> Pixels:
    if preprocess.alpha is Alpha.DROP or bool((alpha == 255).all()):
        return levels
    if preprocess.alpha is Alpha.REFUSE:
        raise BrokenSampleError("The image is partly transparent and the preprocess says alpha = 'refuse'.")
    opacity = alpha[:, :, np.newaxis].astype(np.uint32)
    background = np.array(preprocess.background, dtype=np.uint32)
    return ((levels * opacity + background * (255 - opacity) + 127) // 255).astype(np.uint8)


def _resize(levels: Pixels, preprocess: Preprocess) -> Pixels:
    resize = preprocess.resize
    if resize is None:
        return levels
    width, height = resized_size(levels.shape[1], levels.shape[0], resize)
    _check_pixel_count(width, height)
    plane = np.ascontiguousarray(levels if preprocess.mode is Mode.RGB else levels[:, :, 0])
    resampled = np.asarray(_resample(Image.fromarray(plane), width, height, _FILTERS[resize.interpolation]))
    inner: Pixels = resampled.reshape(height, width, preprocess.channels)
    if resize.method is not ResizeMethod.LETTERBOX:
        return inner
    canvas = np.empty((resize.height, resize.width, preprocess.channels), np.uint8)
    canvas[:] = np.array(resize.pad_colour, np.uint8)
    centred = resize.placement is Placement.CENTRE
    top = (resize.height - height) // 2 if centred else 0
    left = (resize.width - width) // 2 if centred else 0
    canvas[top : top + height, left : left + width] = inner
    return canvas


def _resample(image: Image.Image, width: int, height: int, resampling: Image.Resampling) -> Image.Image:
    """Along the width, then along the height, each a call of its own.

    In one call the order is Pillow's choice, and each pass rounds: 13.0 takes the height first where that is
    cheaper, older versions where an image is over 100 times taller than wide; levels then differ by up to 30
    (noise, Lanczos). toolkit/tests/data/test_resampling_rule.py holds each pass to the written rule.
    """
    _check_pixel_count(width, image.height)
    return image.resize((width, image.height), resampling).resize((width, height), resampling)


def _crop(levels: Pixels, preprocess: Preprocess) -> Pixels:
    if preprocess.centre_crop is None:
        return levels
    height, width = preprocess.centre_crop
    if height > levels.shape[0] or width > levels.shape[1]:
        size = f"{levels.shape[1]} x {levels.shape[0]}"
        raise BrokenSampleError(f"{size} pixels are smaller than the centre crop {width} x {height}.")
    top = crop_start(levels.shape[0] - height, preprocess.crop_rounding)
    left = crop_start(levels.shape[1] - width, preprocess.crop_rounding)
    return levels[top : top + height, left : left + width]
