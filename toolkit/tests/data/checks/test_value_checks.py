"""Noise, scaling, ranges, statistics, colours and borders, against a sound evaluation set."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from phoneproof.data.preprocessing import Layout, Mode, Preprocess
from phoneproof.data.store import SampleStore
from phoneproof.findings import Finding, Severity
from tests.data.builders import noise
from tests.data.checks.stored import Pixels, found, photographs, stored_pixels, stored_values

COUNT = 100
IMAGENET = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
Floats = npt.NDArray[np.float64]


def unit(seed: int) -> Floats:
    """Patches from 0 to 1, [n, 3, H, W]."""
    return photographs(COUNT, seed).transpose(0, 3, 1, 2) / 255


def per_channel(values: Floats, numbers: Floats) -> Floats:
    return np.broadcast_to(numbers[:, np.newaxis, np.newaxis], values.shape)


def imagenet(values: Floats) -> Floats:
    return (values - per_channel(values, IMAGENET[0])) / per_channel(values, IMAGENET[1])


def compared(root: Path, calibration: npt.NDArray[Any], evaluation: npt.NDArray[Any]) -> dict[str, Finding]:
    mine = stored_values(root / "c", calibration.astype(np.float32))
    return found(mine, stored_values(root / "e", evaluation.astype(np.float32)))


class TestNoise:
    def test_pictures_of_noise(self, tmp_path: Path) -> None:
        pictures = [noise(32, 32, seed=seed) for seed in range(COUNT)]
        finding = found(stored_pixels(tmp_path, pictures))["DATA-NOISE"]
        assert finding.severity is Severity.WARNING
        assert finding.facts["samples"] == COUNT

    def test_noise_that_was_enlarged(self, tmp_path: Path) -> None:
        pictures = [
            np.asarray(Image.fromarray(noise(24, 24, seed=seed)).resize((96, 96))) for seed in range(COUNT)
        ]
        assert "DATA-NOISE" in found(stored_pixels(tmp_path, pictures))

    def test_a_tenth_of_the_set(self, tmp_path: Path) -> None:
        pictures = [*photographs(90), *(noise(32, 32, seed=seed) for seed in range(10))]
        finding = found(stored_pixels(tmp_path, pictures))["DATA-NOISE"]
        assert finding.facts["examples"] == tuple(f"{number:04}.bmp" for number in range(90, 95))

    @pytest.mark.parametrize("kind", ["normal", "uniform"])
    def test_values(self, tmp_path: Path, kind: str) -> None:
        values = getattr(np.random.default_rng(0), kind)(size=(COUNT, 1, 24, 24)).astype(np.float32)
        assert found(stored_values(tmp_path, values)).keys() == {"DATA-NOISE"}

    def test_a_vector_of_features_has_no_neighbours(self, tmp_path: Path) -> None:
        features = np.random.default_rng(0).normal(size=(2 * COUNT, 512))
        assert compared(tmp_path, features[:COUNT], features[COUNT:]) == {}

    def test_noise_for_sound(self, tmp_path: Path) -> None:
        draw = np.random.default_rng(0)
        time, pitch = np.arange(2048) / 16000, draw.uniform(80, 900, (COUNT, 1))
        sound = np.sin(2 * np.pi * pitch * time) * 0.3
        calibration = draw.normal(0, 0.21, sound.shape)
        assert "DATA-NOISE" in compared(tmp_path, calibration, sound)

    def test_pictures_with_grain(self, tmp_path: Path) -> None:
        grain = np.random.default_rng(0).normal(0, 12, (COUNT, 32, 32, 3))
        pictures = np.clip(photographs(COUNT) + grain, 0, 255).astype(np.uint8)
        assert found(stored_pixels(tmp_path, pictures)) == {}


class TestNormalisation:
    @pytest.mark.parametrize(
        ("calibration", "evaluation", "why"),
        [
            (lambda x: x / 255, lambda x: x, "divided_by_255_again"),
            (lambda x: x * 255, lambda x: x, "not_divided_by_255"),
            (lambda x: x * 255, lambda x: 2 * x - 1, "not_scaled_around_zero"),
            (lambda x: (2 * x - 1) / 127.5 - 1, lambda x: 2 * x - 1, "scaled_around_zero_again"),
            (lambda x: imagenet(imagenet(x)), imagenet, "imagenet_normalised_again"),
            (lambda x: x, imagenet, "not_imagenet_normalised"),
            (lambda x: x * 255, imagenet, "pixels_not_imagenet_normalised"),
            (lambda x: x * 255, lambda x: x * 255 - 118, "mean_not_subtracted"),
            (lambda x: (x / 255 - 0.3) / 0.32, lambda x: (x - 0.3) / 0.32, "divided_by_255_again"),
            (lambda x: x * 255, lambda x: (x - 0.3) / 0.32, "pixels_not_normalised"),
        ],
        ids=lambda one: one if isinstance(one, str) else "",
    )
    def test_a_step_too_much_or_too_few(
        self, tmp_path: Path, calibration: Any, evaluation: Any, why: str
    ) -> None:
        findings = compared(tmp_path, calibration(unit(0)), evaluation(unit(1)))
        assert findings.keys() == {"DATA-NORMALISATION"}
        assert findings["DATA-NORMALISATION"].facts["why"] == why
        assert findings["DATA-NORMALISATION"].severity is Severity.WARNING

    @pytest.mark.parametrize("scaled", [lambda x: x, lambda x: 2 * x - 1, imagenet, lambda x: x * 255])
    def test_the_same_step_in_both_sets(self, tmp_path: Path, scaled: Any) -> None:
        assert compared(tmp_path, scaled(unit(0)), scaled(unit(1))) == {}

    def test_both_sets_divided_twice(self, tmp_path: Path) -> None:
        findings = compared(tmp_path, unit(0) / 255, unit(1) / 255)
        assert findings["DATA-NORMALISATION"].facts["why"] == "divided_by_255_again"

    def test_a_preprocess_that_divides_twice(self, tmp_path: Path) -> None:
        twice = Preprocess(mode=Mode.RGB, layout=Layout.NCHW, scale=1 / 255, std=(255.0,) * 3)
        store = stored_pixels(tmp_path, photographs(COUNT), twice)
        assert found(store, preprocess=twice).keys() == {"DATA-NORMALISATION"}
        once = Preprocess(mode=Mode.RGB, layout=Layout.NCHW, scale=1 / 255)
        assert found(store, preprocess=once) == {}

    def test_sound_of_sixteen_bits(self, tmp_path: Path) -> None:
        draw = np.random.default_rng(0)
        time, pitch = np.arange(1024) / 16000, draw.uniform(80, 900, (2 * COUNT, 1))
        sound = np.sin(2 * np.pi * pitch * time) * 0.3
        findings = compared(tmp_path, sound[:COUNT] * 32768, sound[COUNT:])
        assert findings["DATA-NORMALISATION"].facts["why"] == "not_divided_by_32768"


class TestRange:
    def test_half_the_contrast(self, tmp_path: Path) -> None:
        finding = compared(tmp_path, 0.45 + unit(0) / 8, unit(1))["DATA-RANGE"]
        assert finding.severity is Severity.WARNING
        assert finding.facts["ratio"] == pytest.approx(1 / 8, rel=0.2)

    def test_one_feature_of_a_table(self, tmp_path: Path) -> None:
        draw = np.random.default_rng(0)
        mine, other = draw.normal(size=(2, COUNT, 6))
        mine[:, 4] *= 5
        finding = compared(tmp_path, mine, other)["DATA-RANGE"]
        assert finding.facts["channel"] == 4

    @pytest.mark.parametrize("seed", range(2))
    @pytest.mark.parametrize("count", [10, 30])
    def test_heavy_tails_in_small_sets(self, tmp_path: Path, count: int, seed: int) -> None:
        draw = np.random.default_rng(seed).lognormal(sigma=1.2, size=(count + 300, 30))
        findings = compared(tmp_path, draw[:count], draw[count:])
        assert findings.keys() <= {"DATA-CALIBRATION-FEW"}

    def test_a_rare_flag(self, tmp_path: Path) -> None:
        flags = (np.random.default_rng(0).random((400, 8)) < 0.1).astype(np.float32)
        flags[:, 0] = np.linspace(0, 1, 400)
        assert compared(tmp_path, flags[::2], flags[1::2]) == {}


class TestStatistics:
    def test_pictures_of_the_night(self, tmp_path: Path) -> None:
        dark = (photographs(COUNT) * 0.35).astype(np.uint8)
        calibration = stored_pixels(tmp_path / "c", dark)
        finding = found(calibration, stored_pixels(tmp_path / "e", photographs(COUNT, 1)))["DATA-STATISTICS"]
        assert finding.severity is Severity.WARNING
        effect = finding.facts["effect"]
        assert isinstance(effect, float)
        assert effect > 1

    def test_a_feature_of_another_unit(self, tmp_path: Path) -> None:
        mine, other = np.random.default_rng(0).normal(size=(2, COUNT, 6))
        mine[:, 2] += 3
        finding = compared(tmp_path, mine, other)["DATA-STATISTICS"]
        assert finding.facts["channel"] == 2

    @pytest.mark.parametrize("seed", range(2))
    def test_small_sets_are_silent(self, tmp_path: Path, seed: int) -> None:
        draw = np.random.default_rng(seed).normal(size=(110, 30))
        assert compared(tmp_path, draw[:10], draw[10:]).keys() == {"DATA-CALIBRATION-FEW"}


class TestColourOrder:
    def stores(self, root: Path, mine: Pixels, other: Pixels) -> tuple[SampleStore, SampleStore]:
        return stored_pixels(root / "c", mine), stored_pixels(root / "e", other)

    def test_red_and_blue_swapped(self, tmp_path: Path) -> None:
        findings = found(*self.stores(tmp_path, photographs(COUNT)[..., ::-1], photographs(COUNT, 1)))
        assert findings.keys() == {"DATA-COLOUR-ORDER"}
        facts = findings["DATA-COLOUR-ORDER"].facts
        assert float(str(facts["distance"])) > 3 * float(str(facts["distance_swapped"]))

    def test_values_are_compared_like_pixels(self, tmp_path: Path) -> None:
        assert compared(tmp_path, unit(0)[:, ::-1], unit(1)).keys() == {"DATA-COLOUR-ORDER"}

    def test_both_sets_in_one_order(self, tmp_path: Path) -> None:
        swapped = (photographs(COUNT, seed)[..., ::-1] for seed in (0, 1))
        assert found(*self.stores(tmp_path, *swapped)) == {}

    def test_grey_pictures_are_the_same_both_ways(self, tmp_path: Path) -> None:
        grey = (photographs(COUNT, seed)[..., [1, 1, 1]] for seed in (0, 1))
        assert found(*self.stores(tmp_path, *grey)) == {}


def letterboxed(pictures: Pixels) -> Pixels:
    """Black above and below, a quarter of the height in all."""
    boxed = np.zeros_like(pictures)
    side = pictures.shape[1]
    edge = side // 8
    for number, picture in enumerate(pictures):
        boxed[number, edge : side - edge] = np.asarray(
            Image.fromarray(picture).resize((side, side - 2 * edge))
        )
    return boxed


class TestBorders:
    @pytest.mark.parametrize("of_calibration", [True, False])
    def test_a_letterbox_in_one_set(self, tmp_path: Path, of_calibration: bool) -> None:
        with_them, without = letterboxed(photographs(COUNT)), photographs(COUNT, 1)
        pair = (with_them, without) if of_calibration else (without, with_them)
        mine, other = (stored_pixels(tmp_path / name, one) for name, one in zip("ce", pair, strict=True))
        findings = found(mine, other)
        facts = findings["DATA-BORDERS"].facts
        assert {facts["calibration_share"], facts["evaluation_share"]} == {1.0, 0.0}
        assert facts["border"] == 0.25
        assert findings["DATA-BORDERS"].severity is Severity.WARNING

    def test_a_letterbox_in_both(self, tmp_path: Path) -> None:
        mine, other = (
            stored_pixels(tmp_path / str(seed), letterboxed(photographs(COUNT, seed))) for seed in (0, 1)
        )
        assert found(mine, other) == {}

    def test_after_jpeg(self, tmp_path: Path) -> None:
        boxed = letterboxed(photographs(COUNT, side=128))
        calibration = stored_pixels(tmp_path / "c", boxed, kind="jpg")
        evaluation = stored_pixels(tmp_path / "e", photographs(COUNT, 1, side=128))
        assert "DATA-BORDERS" in found(calibration, evaluation)
