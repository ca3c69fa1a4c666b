"""Copies inside a set, and between the calibration and the evaluation set."""

import io
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets
from PIL import Image

from phoneproof.findings import Severity
from tests.data.checks.stored import Pixels, found, photographs, stored_pixels, stored_values

COUNT = 100


def encoded(picture: Pixels, quality: int, side: int) -> Pixels:
    """As a JPEG of another size, and back."""
    file = io.BytesIO()
    Image.fromarray(picture).resize((side, side)).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file).resize(picture.shape[1::-1]))


def video(frames: int, speed: float) -> Pixels:
    """A camera that pans over china.jpg by `speed` pixels of 64 a frame, with the noise of a sensor."""
    picture = Image.fromarray(sklearn.datasets.load_sample_image("china.jpg"))
    draw = np.random.default_rng(0)
    taken = []
    for frame in range(frames):
        left = 20 + frame * speed * 200 / 64
        box = (left, 60, left + 200, 260)
        seen = np.asarray(picture.transform((64, 64), Image.Transform.EXTENT, box, Image.Resampling.BILINEAR))
        taken.append(np.clip(seen + draw.normal(0, 3, seen.shape), 0, 255).astype(np.uint8))
    return np.stack(taken)


def test_different_patches_are_no_copies(tmp_path: Path) -> None:
    calibration = stored_pixels(tmp_path / "c", photographs(COUNT))
    evaluation = stored_pixels(tmp_path / "e", photographs(COUNT, seed=1))
    assert found(calibration, evaluation) == {}


class TestDuplicates:
    def test_from_a_twentieth_on(self, tmp_path: Path) -> None:
        pictures = photographs(COUNT).copy()
        pictures[-5:] = pictures[0]
        finding = found(stored_pixels(tmp_path, pictures))["DATA-DUPLICATES"]
        assert finding.severity is Severity.WARNING
        assert (finding.facts["samples"], finding.facts["distinct"]) == (5, 95)
        assert finding.facts["examples"] == tuple(f"{number:04}.bmp" for number in range(95, 100))

    def test_below_a_twentieth_nothing_is_said(self, tmp_path: Path) -> None:
        pictures = photographs(COUNT).copy()
        pictures[-4:] = pictures[0]
        assert found(stored_pixels(tmp_path, pictures)) == {}

    def test_equal_rows_of_a_table(self, tmp_path: Path) -> None:
        rows = np.random.default_rng(0).normal(size=(COUNT, 5)).astype(np.float32)
        rows[50:] = rows[:50]
        finding = found(stored_values(tmp_path, rows))["DATA-DUPLICATES"]
        assert finding.facts["fraction"] == 0.5


class TestNearDuplicates:
    def test_frames_of_a_video(self, tmp_path: Path) -> None:
        finding = found(stored_pixels(tmp_path, video(COUNT, 0.25)))["DATA-NEAR-DUPLICATES"]
        assert finding.severity is Severity.WARNING
        fraction = finding.facts["fraction"]
        assert isinstance(fraction, float)
        assert fraction > 0.5
        assert finding.facts["samples"] == COUNT - int(str(finding.facts["distinct"]))

    def test_frames_far_apart(self, tmp_path: Path) -> None:
        assert found(stored_pixels(tmp_path, video(12, 8.0))).keys() == {"DATA-CALIBRATION-FEW"}

    def test_exact_copies_are_left_to_the_other_finding(self, tmp_path: Path) -> None:
        pictures = np.concatenate([photographs(50), photographs(50)])
        assert found(stored_pixels(tmp_path, pictures)).keys() == {"DATA-DUPLICATES"}

    def test_values_are_compared_like_pixels(self, tmp_path: Path) -> None:
        frames = (video(COUNT, 0.25) / 127.5 - 1).astype(np.float32).transpose(0, 3, 1, 2)
        assert "DATA-NEAR-DUPLICATES" in found(stored_values(tmp_path, frames))

    def test_pictures_of_one_colour_are_no_copies_of_each_other(self, tmp_path: Path) -> None:
        plain = [np.full((8, 8, 3), (level, 3 * level // 2, 20), np.uint8) for level in range(COUNT)]
        assert found(stored_pixels(tmp_path, plain)).keys() == {"DATA-CONSTANT"}


class TestNearOverlap:
    @pytest.mark.parametrize(("quality", "side", "least"), [(90, 64, 18), (75, 48, 14)])
    def test_pictures_encoded_anew_and_resized(
        self, tmp_path: Path, quality: int, side: int, least: int
    ) -> None:
        mine = photographs(COUNT, side=64)
        copies = [encoded(one, quality, side) for one in mine[:20]]
        others = [*photographs(80, seed=1, side=64), *copies]
        calibration = stored_pixels(tmp_path / "c", mine)
        finding = found(calibration, stored_pixels(tmp_path / "e", others))["DATA-NEAR-OVERLAP"]
        assert finding.severity is Severity.WARNING
        samples = finding.facts["samples"]
        assert isinstance(samples, int)
        assert least <= samples <= 20
        assert finding.facts["compared"] == 100

    def test_equal_pictures_are_left_to_the_other_finding(self, tmp_path: Path) -> None:
        calibration = stored_pixels(tmp_path / "c", photographs(COUNT))
        evaluation = stored_pixels(tmp_path / "e", photographs(COUNT)[:40], kind="png")
        assert found(calibration, evaluation).keys() == {"DATA-OVERLAP"}

    def test_another_size_of_the_samples_is_not_compared(self, tmp_path: Path) -> None:
        calibration = stored_pixels(tmp_path / "c", photographs(COUNT))
        evaluation = stored_pixels(tmp_path / "e", photographs(COUNT, side=16))
        assert found(calibration, evaluation) == {}
