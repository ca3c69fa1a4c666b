"""Images whose elements lie in another order than their shape says, and images of nearly one colour."""

from pathlib import Path

import numpy as np
import pytest

from phoneproof.findings import Severity
from tests.data.checks.stored import found, photographs, stored_pixels, stored_values

COUNT = 100
NHWC = (photographs(COUNT) / 255).astype(np.float32)
NCHW = np.ascontiguousarray(NHWC.transpose(0, 3, 1, 2))


class TestLayout:
    @pytest.mark.parametrize("subject", ["calibration", "evaluation"])
    @pytest.mark.parametrize(
        ("values", "given", "right"),
        [(NHWC.reshape(NCHW.shape), "NCHW", "NHWC"), (NCHW.reshape(NHWC.shape), "NHWC", "NCHW")],
        ids=["NHWC reshaped", "NCHW reshaped"],
    )
    def test_reshaped_where_it_should_be_transposed(
        self, tmp_path: Path, values: np.ndarray, given: str, right: str, subject: str
    ) -> None:
        finding = found(stored_values(tmp_path, values), subject=subject)["DATA-LAYOUT"]
        assert finding.severity is Severity.SEVERE
        assert (finding.facts["given"], finding.facts["found"]) == (given, right)

    @pytest.mark.parametrize("values", [NHWC, NCHW], ids=["NHWC", "NCHW"])
    def test_either_layout_as_it_should_be(self, tmp_path: Path, values: np.ndarray) -> None:
        assert found(stored_values(tmp_path, values)) == {}

    def test_grey_pictures_in_three_channels(self, tmp_path: Path) -> None:
        grey = NHWC[..., [1, 1, 1]]
        assert found(stored_values(tmp_path / "right", grey)) == {}
        reshaped = stored_values(tmp_path / "wrong", grey.reshape(NCHW.shape))
        assert "DATA-LAYOUT" in found(reshaped)

    def test_one_channel_is_the_same_both_ways(self, tmp_path: Path) -> None:
        assert found(stored_values(tmp_path, NCHW[:, :1])) == {}


class TestNearlyConstant:
    def dark(self, count: int) -> list[np.ndarray]:
        """A camera with its lens covered: levels of 2 or 3, with noise."""
        draw = np.random.default_rng(0)
        return [np.clip(draw.normal(2.5, 1.2, (32, 32, 3)), 0, 255).astype(np.uint8) for _ in range(count)]

    def test_frames_in_the_dark(self, tmp_path: Path) -> None:
        finding = found(stored_pixels(tmp_path, self.dark(COUNT)))["DATA-CONSTANT"]
        assert finding.severity is Severity.SEVERE
        assert (finding.facts["samples"], finding.facts["nearly"]) == (COUNT, COUNT)

    def test_a_few_are_a_warning_and_fewer_are_nothing(self, tmp_path: Path) -> None:
        some = stored_pixels(tmp_path / "some", [*photographs(90), *self.dark(10)])
        assert found(some)["DATA-CONSTANT"].severity is Severity.WARNING
        few = stored_pixels(tmp_path / "few", [*photographs(97), *self.dark(3)])
        assert found(few) == {}

    def test_values(self, tmp_path: Path) -> None:
        values = np.concatenate([NCHW[:50], np.stack(self.dark(50)).transpose(0, 3, 1, 2) / 255])
        finding = found(stored_values(tmp_path, values.astype(np.float32)))["DATA-CONSTANT"]
        assert (finding.facts["samples"], finding.severity) == (50, Severity.WARNING)

    def test_quiet_sound_is_not_judged(self, tmp_path: Path) -> None:
        loud, quiet = np.random.default_rng(0).normal(size=(2, 60, 200))
        values = np.concatenate([loud, quiet / 1000]).astype(np.float32)
        assert found(stored_values(tmp_path, values)) == {}
