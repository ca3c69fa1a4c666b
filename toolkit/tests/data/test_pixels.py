"""Decoding and geometry: every kind of file gives exactly the levels that docs/preprocessing.md states."""

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from phoneproof.data.pixels import MAX_PIXELS, crop_start, open_image, pixels, resized_size
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
from phoneproof.errors import BrokenSampleError, DataError
from tests.data.builders import Pixels, as_is, noise, preprocesses

GREY = as_is(mode=Mode.L)


def from_file(image: Image.Image, preprocess: Preprocess, kind: str = "PNG", **options: Any) -> Pixels:
    """The pixels of an image that went through a file."""
    return from_bytes(file_of(image, kind, **options), preprocess)


def file_of(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def from_bytes(data: bytes, preprocess: Preprocess) -> Pixels:
    return pixels(open_image(io.BytesIO(data)), preprocess)


def luminance(rgb: Pixels) -> Pixels:
    """docs/preprocessing.md, step 3: the integer formula."""
    wide = rgb.astype(np.int64)
    grey = (19595 * wide[..., 0] + 38470 * wide[..., 1] + 7471 * wide[..., 2] + 32768) >> 16
    return grey.astype(np.uint8)[..., np.newaxis]


def test_rgb_file_is_taken_as_it_is() -> None:
    image = noise(5, 7)
    assert np.array_equal(from_file(Image.fromarray(image), as_is()), image)


def test_rgb_becomes_grey_by_the_integer_formula() -> None:
    image = noise(64, 64)
    assert np.array_equal(from_file(Image.fromarray(image), GREY), luminance(image))


def test_grey_becomes_three_equal_channels_and_stays_itself_in_grey() -> None:
    image = np.arange(256, dtype=np.uint8).reshape(16, 16)
    assert np.array_equal(from_file(Image.fromarray(image), as_is()), np.stack([image] * 3, axis=2))
    assert np.array_equal(from_file(Image.fromarray(image), GREY)[..., 0], image)


def test_one_bit_image_is_0_and_255() -> None:
    bits = noise(9, 11, 1)[..., 0] > 127
    assert np.array_equal(from_file(Image.fromarray(bits), GREY)[..., 0], bits * np.uint8(255))


def test_palette_image_is_its_colours() -> None:
    image = Image.fromarray(noise(8, 8)).quantize(16)
    assert np.array_equal(from_file(image, as_is()), np.asarray(image.convert("RGB")))
    assert np.array_equal(from_file(image, GREY), luminance(np.asarray(image.convert("RGB"))))


def test_16_bit_grey_is_divided_by_257_and_rounded() -> None:
    wide = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    expected = np.floor(wide / 257 + 0.5).astype(np.uint8)
    for kind in ("PNG", "TIFF"):
        assert np.array_equal(from_file(Image.fromarray(wide), GREY, kind)[..., 0], expected), kind


def test_16_bit_pgm_too() -> None:
    wide = np.array([[0, 128, 129, 257, 65535]], dtype=">u2")
    levels = from_bytes(b"P5 5 1 65535\n" + wide.tobytes(), GREY)
    assert levels[0, :, 0].tolist() == [0, 0, 1, 1, 255]


def test_16_bit_rgb_keeps_its_high_byte() -> None:
    wide = np.array([[[0x12FF, 0x8000, 0xFF01]]], dtype=">u2")
    assert from_bytes(png(1, 1, 16, 2, b"\0" + wide.tobytes()), as_is())[0, 0].tolist() == [0x12, 0x80, 0xFF]


def test_16_bit_grey_with_a_transparent_level() -> None:
    wide = np.array([[1000, 2000]], dtype=">u2")
    data = png(2, 1, 16, 0, b"\0" + wide.tobytes(), transparent=struct.pack(">H", 1000))
    over_white = Preprocess(GREY.mode, GREY.layout, alpha=Alpha.COMPOSITE, background=(255,))
    assert from_bytes(data, over_white)[0, :, 0].tolist() == [255, (2000 + 128) // 257]


def test_cmyk_is_converted_as_stated() -> None:
    levels = noise(16, 16, 4)
    cmyk = Image.frombytes("CMYK", (16, 16), levels.tobytes())
    ink, black = levels[..., :3].astype(np.int64), 255 - levels[..., 3:].astype(np.int64)
    product = ink * black + 128
    expected = np.clip(black - (((product >> 8) + product) >> 8), 0, 255)
    assert np.array_equal(from_file(cmyk, as_is(), "TIFF"), expected)


@pytest.mark.parametrize("mode", ["I", "F"])
def test_levels_without_a_range_are_refused(mode: str) -> None:
    image = Image.fromarray(np.ones((2, 2), np.int32 if mode == "I" else np.float32))
    with pytest.raises(BrokenSampleError, match="no defined range"):
        from_file(image, as_is(), "TIFF")


class TestAlpha:
    levels = noise(16, 16, 4)

    def test_refused_unless_opaque(self) -> None:
        with pytest.raises(BrokenSampleError, match="transparent"):
            from_file(Image.fromarray(self.levels), as_is())
        opaque = self.levels.copy()
        opaque[..., 3] = 255
        assert np.array_equal(from_file(Image.fromarray(opaque), as_is()), opaque[..., :3])

    def test_dropped(self) -> None:
        dropped = from_file(Image.fromarray(self.levels), as_is(alpha=Alpha.DROP))
        assert np.array_equal(dropped, self.levels[..., :3])

    def test_composite_is_rounded_to_nearest(self) -> None:
        over = as_is(alpha=Alpha.COMPOSITE, background=(10, 200, 90))
        colour, opacity = self.levels[..., :3].astype(float), self.levels[..., 3:] / 255
        exact = colour * opacity + np.array([10, 200, 90]) * (1 - opacity)
        assert np.array_equal(from_file(Image.fromarray(self.levels), over), np.rint(exact))

    def test_grey_with_alpha(self) -> None:
        grey = np.ascontiguousarray(self.levels[..., :2])
        image = Image.frombytes("LA", (16, 16), grey.tobytes())
        assert np.array_equal(from_file(image, as_is(alpha=Alpha.DROP))[..., 1], grey[..., 0])
        over = as_is(mode=Mode.L, alpha=Alpha.COMPOSITE, background=(255,))
        exact = 255 - (255 - grey[..., 0].astype(float)) * grey[..., 1] / 255
        assert np.array_equal(from_file(image, over)[..., 0], np.rint(exact))

    def test_palette_with_a_transparent_colour(self) -> None:
        image = Image.frombytes("P", (2, 1), bytes([0, 1]))
        image.putpalette([255, 0, 0, 0, 0, 255])
        data = file_of(image, "PNG", transparency=0)
        with pytest.raises(BrokenSampleError, match="transparent"):
            from_bytes(data, as_is())
        assert from_bytes(data, as_is(alpha=Alpha.DROP))[0].tolist() == [[255, 0, 0], [0, 0, 255]]
        white = as_is(alpha=Alpha.COMPOSITE, background=(255, 255, 255))
        assert from_bytes(data, white)[0].tolist() == [[255, 255, 255], [0, 0, 255]]

    def test_rgb_with_a_transparent_colour(self) -> None:
        data = file_of(Image.fromarray(np.array([[[1, 2, 3], [4, 5, 6]]], np.uint8)), transparency=(1, 2, 3))
        black = as_is(alpha=Alpha.COMPOSITE)
        assert from_bytes(data, black)[0].tolist() == [[0, 0, 0], [4, 5, 6]]


ORIENTED = {
    1: [[1, 2, 3], [4, 5, 6]],
    2: [[3, 2, 1], [6, 5, 4]],
    3: [[6, 5, 4], [3, 2, 1]],
    4: [[4, 5, 6], [1, 2, 3]],
    5: [[1, 4], [2, 5], [3, 6]],
    6: [[4, 1], [5, 2], [6, 3]],
    7: [[6, 3], [5, 2], [4, 1]],
    8: [[3, 6], [2, 5], [1, 4]],
}


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP", "JPEG"])
@pytest.mark.parametrize("orientation", [*range(1, 9), 0, 9])
def test_exif_orientation_is_applied_once(orientation: int, kind: str) -> None:
    image = Image.fromarray(np.array([[1, 2, 3], [4, 5, 6]], np.uint8) * 40)
    blocks = image.resize((48, 32), Image.Resampling.NEAREST)  # whole JPEG blocks keep their level
    exif = Image.Exif()
    exif[0x0112] = orientation
    options: dict[str, Any] = {"exif": exif}
    if kind == "WEBP":
        options["lossless"] = True
    found = from_file(blocks.convert("RGB") if kind == "WEBP" else blocks, GREY, kind, **options)
    centres = found[8::16, 8::16, 0].astype(int)
    assert (np.rint(centres / 40)).tolist() == ORIENTED.get(orientation, ORIENTED[1])


def test_damaged_exif_leaves_the_image_as_it_is() -> None:
    image = noise(3, 4)
    data = file_of(Image.fromarray(image), exif=b"Exif\0\0MM\0*\xff\xff\xff\xff broken")
    assert np.array_equal(from_bytes(data, as_is()), image)


def png(
    width: int, height: int, depth: int, colour: int, rows: bytes, transparent: bytes | None = None
) -> bytes:
    """A PNG written chunk by chunk, for what Pillow does not write."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    transparency = b"" if transparent is None else chunk(b"tRNS", transparent)
    body = chunk(b"IHDR", header) + transparency + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


class TestBrokenFiles:
    def test_no_image_at_all(self) -> None:
        for data in (b"", b"not an image", b"\x89PNG\r\n\x1a\n", bytes(100)):
            with pytest.raises(BrokenSampleError):
                from_bytes(data, as_is())

    @pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP", "BMP", "GIF"])
    def test_truncated(self, kind: str) -> None:
        data = file_of(Image.fromarray(noise(64, 64)), kind)
        with pytest.raises(BrokenSampleError):
            from_bytes(data[: len(data) // 2], as_is())

    @given(st.sampled_from(["PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP"]), st.data())
    @pytest.mark.filterwarnings("ignore")
    def test_damaged_anywhere_is_broken_or_an_image_but_never_another_error(
        self, kind: str, data: st.DataObject
    ) -> None:
        good = bytearray(file_of(Image.fromarray(noise(12, 10)), kind))
        for _ in range(data.draw(st.integers(1, 4))):
            good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
        try:
            found = from_bytes(bytes(good), as_is(alpha=Alpha.DROP))
        except BrokenSampleError:
            return
        assert found.dtype == np.uint8
        assert found.ndim == 3

    @pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
    @pytest.mark.parametrize("side", [9_460, 14_000, 60_000])
    def test_decompression_bomb(self, side: int) -> None:
        assert side * side > MAX_PIXELS
        with pytest.raises(BrokenSampleError, match="pixels"):
            from_bytes(png(side, side, 8, 0, bytes(1000)), as_is())

    def test_bomb_made_by_resizing_a_thin_image(self) -> None:
        resize = Resize(1000, 1000, ResizeMethod.SHORTEST_SIDE, Interpolation.BILINEAR)
        with pytest.raises(BrokenSampleError, match="over the limit"):
            pixels(noise(1, 100_000), as_is(resize=resize, centre_crop=(1000, 1000)))

    def test_smaller_than_the_crop(self) -> None:
        with pytest.raises(BrokenSampleError, match="smaller than the centre crop"):
            pixels(noise(3, 9), as_is(centre_crop=(4, 4)))


class TestDecodedArrays:
    def test_other_arrays_than_pixels_are_refused(self) -> None:
        for array in (noise(4, 4).astype(np.float32), noise(4, 4, 4), noise(3, 4, 4)[0], noise(4, 4)[:0]):
            with pytest.raises(DataError, match="uint8") as caught:
                pixels(array, as_is())
            assert not isinstance(caught.value, BrokenSampleError)

    def test_grey_with_and_without_channel_axis(self) -> None:
        image = noise(4, 5, 1)
        assert np.array_equal(pixels(image[..., 0], GREY), pixels(image, GREY))


def letterbox(width: int, height: int, **fields: Any) -> Resize:
    return Resize(width, height, ResizeMethod.LETTERBOX, Interpolation.NEAREST, **fields)


class TestGeometry:
    def test_bgr_turns_the_channels(self) -> None:
        image = noise(4, 4)
        assert np.array_equal(pixels(image, as_is(colour_order=ColourOrder.BGR)), image[..., ::-1])

    def test_letterbox_centre_puts_the_odd_rest_right_and_below(self) -> None:
        image = np.full((2, 4, 3), 200, np.uint8)
        found = pixels(image, as_is(resize=letterbox(4, 5, pad_colour=(1, 2, 3))))
        assert (found[..., 0] == 200).all(axis=1).tolist() == [False, True, True, False, False]
        assert found[0, 0].tolist() == [1, 2, 3]

    def test_letterbox_top_left(self) -> None:
        found = pixels(noise(2, 4), as_is(resize=letterbox(4, 5, placement=Placement.TOP_LEFT)))
        assert np.array_equal(found[:2], noise(2, 4))
        assert not found[2:].any()

    @given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 640), st.integers(1, 640))
    def test_letterbox_lies_inside_touches_two_sides_and_keeps_the_aspect(
        self, width: int, height: int, box_width: int, box_height: int
    ) -> None:
        found_width, found_height = resized_size(width, height, letterbox(box_width, box_height))
        assert 1 <= found_width <= box_width
        assert 1 <= found_height <= box_height
        assert found_width == box_width or found_height == box_height
        scale = min(box_width / width, box_height / height)
        assert abs(found_width - max(1, width * scale)) <= 0.5 + 1e-9
        assert abs(found_height - max(1, height * scale)) <= 0.5 + 1e-9

    @given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 640))
    def test_shortest_side_of_a_square_is_what_torchvision_computes(
        self, width: int, height: int, size: int
    ) -> None:
        resize = Resize(size, size, ResizeMethod.SHORTEST_SIDE, Interpolation.BILINEAR)
        short, long = min(width, height), max(width, height)
        expected_long = int(size * long / short)  # torchvision.transforms.functional, 0.28
        expected = (size, expected_long) if width <= height else (expected_long, size)
        assert resized_size(width, height, resize) == expected

    @given(st.integers(1, 500), st.integers(1, 500), st.integers(1, 99), st.integers(1, 99))
    def test_shortest_side_covers_the_size(self, width: int, height: int, w: int, h: int) -> None:
        resize = Resize(w, h, ResizeMethod.SHORTEST_SIDE, Interpolation.BILINEAR)
        found = resized_size(width, height, resize)
        assert found[0] >= w
        assert found[1] >= h
        assert found[0] == w or found[1] == h

    @given(st.integers(0, 10_000))
    def test_crop_start(self, rest: int) -> None:
        assert crop_start(rest, CropRounding.FLOOR) == rest // 2
        assert crop_start(rest, CropRounding.HALF_EVEN) == round(rest / 2)

    @given(preprocesses(), st.integers(1, 30), st.integers(1, 30), st.integers(0, 99))
    def test_declared_size_is_the_size(self, preprocess: Preprocess, h: int, w: int, seed: int) -> None:
        try:
            found = pixels(noise(h, w, preprocess.channels, seed), preprocess)
        except BrokenSampleError:
            assert preprocess.resize is None  # only an image smaller than its crop
            return
        assert found.shape[:2] == (preprocess.output_size or (h, w))
        assert found.shape[2] == preprocess.channels
        assert found.flags.c_contiguous

    def test_one_pixel_and_extreme_aspect_ratios(self) -> None:
        for h, w in ((1, 1), (1, 5000), (5000, 1)):
            for method in (ResizeMethod.STRETCH, ResizeMethod.LETTERBOX):
                resize = Resize(8, 8, method, Interpolation.LANCZOS)
                assert pixels(noise(h, w), as_is(resize=resize)).shape == (8, 8, 3)
