"""Each check finds its fault, and is silent on a set that has none."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from phoneproof.data.checks.checked import CheckedSet
from phoneproof.data.checks.registry import run_checks
from phoneproof.data.set_specs import ImageFolder, NpzArchive
from phoneproof.data.sets import open_set
from phoneproof.data.store import SampleStore
from phoneproof.data.store_writer import materialize
from phoneproof.findings import FINDING_IDS, Finding, Severity
from phoneproof.protocol.tensors import TensorSpec
from tests.data.builders import image_folder, noise, stored_folder, target, tensor


def found(
    store: SampleStore, subject: str = "calibration", evaluation: SampleStore | None = None
) -> dict[str, Finding]:
    findings = run_checks(CheckedSet(subject, store, evaluation))
    assert len({finding.id for finding in findings}) == len(findings)
    assert {finding.id for finding in findings} <= set(FINDING_IDS)
    return {finding.id: finding for finding in findings}


def values_store(root: Path, *inputs: TensorSpec, **arrays: np.ndarray) -> SampleStore:
    np.savez(root / "set.npz", **arrays)  # type: ignore[arg-type]
    opened = open_set(NpzArchive("npz", str(root / "set.npz")), [t.name for t in inputs])
    return materialize(opened, range(len(opened.entries)), target(root, None, *inputs))


def normal(count: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(count, *shape)).astype(np.float32)


def test_a_sound_set_has_no_findings(tmp_path: Path) -> None:
    evaluation = stored_folder(tmp_path, image_folder(tmp_path / "evaluation", {"x": 3}, (8, 8)))
    folder = image_folder(tmp_path / "set", {"a": 50, "b": 50})
    store = stored_folder(tmp_path, folder)
    assert found(store, evaluation=evaluation) == {}
    assert found(store, "evaluation") == {}


def test_a_sound_set_of_values_has_no_findings(tmp_path: Path) -> None:
    assert found(values_store(tmp_path, tensor((1, 5)), image=normal(100, 5))) == {}


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (9, "DATA-CALIBRATION-TOO-FEW"),
        (10, "DATA-CALIBRATION-FEW"),
        (99, "DATA-CALIBRATION-FEW"),
        (100, None),
    ],
)
def test_number_of_calibration_samples(tmp_path: Path, count: int, expected: str | None) -> None:
    store = values_store(tmp_path, tensor((1, 5)), image=normal(count, 5))
    findings = found(store)
    assert list(findings) == ([] if expected is None else [expected])
    if expected is not None:
        assert findings[expected].facts["samples"] == count
        assert findings[expected].severity is FINDING_IDS[expected]
    assert found(store, "evaluation") == {}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(tmp_path: Path, bad: float) -> None:
    values = normal(100, 5)
    values[70, 3] = bad
    finding = found(values_store(tmp_path, tensor((1, 5)), image=values))["DATA-NONFINITE"]
    assert finding.severity is Severity.SEVERE
    assert finding.facts["samples"] == 1
    assert finding.facts["examples"] == ("70",)


def test_values_that_are_not_finite_in_either_input(tmp_path: Path) -> None:
    first, second = normal(100, 5), normal(100, 5)
    first[3] = np.nan
    second[4, 0] = np.inf
    inputs = (tensor((1, 5)), TensorSpec("mask", "float32", (1, 5)))
    store = values_store(tmp_path, *inputs, image=first, mask=second)
    assert found(store)["DATA-NONFINITE"].facts["examples"] == ("3", "4")


class TestConstant:
    def folder(self, tmp_path: Path, black: int, colour: tuple[int, int, int]) -> SampleStore:
        folder = image_folder(tmp_path / "set", {"a": 100})
        for k in range(black):
            Image.new("RGB", (6, 5), colour).save(folder / "a" / f"{k:03}.png")
        return stored_folder(tmp_path, folder)

    @pytest.mark.parametrize("colour", [(0, 0, 0), (255, 255, 255), (10, 20, 200)])
    def test_some_images_of_one_colour_are_a_warning(
        self, tmp_path: Path, colour: tuple[int, int, int]
    ) -> None:
        finding = found(self.folder(tmp_path, 2, colour))["DATA-CONSTANT"]
        assert finding.severity is Severity.WARNING
        assert finding.facts["fraction"] == 0.02
        assert finding.facts["examples"] == ("a/000.png", "a/001.png")

    def test_more_than_half_are_severe(self, tmp_path: Path) -> None:
        assert found(self.folder(tmp_path, 51, (0, 0, 0)))["DATA-CONSTANT"].severity is Severity.SEVERE

    def test_a_set_of_one_black_image(self, tmp_path: Path) -> None:
        folder = tmp_path / "set"
        folder.mkdir()
        Image.new("L", (6, 5)).save(folder / "black.png")
        findings = found(stored_folder(tmp_path, folder))
        assert {i for i, f in findings.items() if f.severity is Severity.SEVERE} == {
            "DATA-CALIBRATION-TOO-FEW",
            "DATA-CONSTANT",
        }

    def test_constant_values(self, tmp_path: Path) -> None:
        values = normal(100, 5)
        values[40] = 0.5
        finding = found(values_store(tmp_path, tensor((1, 5)), image=values))["DATA-CONSTANT"]
        assert finding.facts["examples"] == ("40",)

    def test_a_constant_mask_beside_varying_values_is_no_fault(self, tmp_path: Path) -> None:
        inputs = (tensor((1, 5)), TensorSpec("mask", "int64", (1, 5)))
        store = values_store(tmp_path, *inputs, image=normal(100, 5), mask=np.ones((100, 5), np.int64))
        assert found(store) == {}

    def test_inputs_of_one_element_are_not_judged(self, tmp_path: Path) -> None:
        assert found(values_store(tmp_path, tensor((1, 1)), image=normal(100, 1))) == {}


class TestBrokenFiles:
    def store(self, tmp_path: Path, broken: int) -> SampleStore:
        folder = image_folder(tmp_path / "set", {"a": 100})
        for k in range(broken):
            path = folder / "a" / f"{k:03}.png"
            path.write_bytes(path.read_bytes()[:60])
        return stored_folder(tmp_path, folder)

    def test_broken_files_are_left_out_and_named(self, tmp_path: Path) -> None:
        store = self.store(tmp_path, 1)
        assert store.count == 99
        for subject in ("calibration", "evaluation"):
            finding = found(store, subject)["DATA-BROKEN-FILE"]
            assert finding.subject == subject
            assert finding.severity is Severity.WARNING
            assert (finding.facts["broken"], finding.facts["total"]) == (1, 100)
            examples: Any = finding.facts["examples"]
            assert examples[0].startswith("a/000.png: ")

    def test_what_is_no_regular_file_is_left_out(self, tmp_path: Path) -> None:
        folder = image_folder(tmp_path / "set", {"a": 2})
        os.mkfifo(folder / "a" / "pipe.png")  # opening it would wait for a writer for ever
        (folder / "a" / "nowhere.png").symlink_to(folder / "absent.png")
        store = stored_folder(tmp_path, folder)
        assert [one.id for one in store.stored.skipped] == ["a/nowhere.png", "a/pipe.png"]

    def test_more_than_half_are_severe(self, tmp_path: Path) -> None:
        assert found(self.store(tmp_path, 51))["DATA-BROKEN-FILE"].severity is Severity.SEVERE


class TestOverlap:
    def two(self, tmp_path: Path, shared: int, kind: str) -> tuple[SampleStore, SampleStore]:
        calibration = image_folder(tmp_path / "calibration", {"a": 100})
        evaluation = tmp_path / "evaluation"
        evaluation.mkdir()
        Image.fromarray(noise(9, 9, seed=5000)).save(evaluation / "own.png")
        for k in range(shared):
            with Image.open(calibration / "a" / f"{k:03}.png") as image:
                image.save(evaluation / f"other_name_{k}.{kind}")
        return stored_folder(tmp_path, calibration), stored_folder(tmp_path, evaluation)

    @pytest.mark.parametrize("kind", ["png", "bmp"])
    def test_the_same_pictures_under_other_names_and_formats(self, tmp_path: Path, kind: str) -> None:
        calibration, evaluation = self.two(tmp_path, 50, kind)
        finding = found(calibration, evaluation=evaluation)["DATA-OVERLAP"]
        assert finding.severity is Severity.WARNING
        assert finding.facts["fraction"] == 0.5

    def test_over_half_is_severe(self, tmp_path: Path) -> None:
        calibration, evaluation = self.two(tmp_path, 51, "png")
        assert found(calibration, evaluation=evaluation)["DATA-OVERLAP"].severity is Severity.SEVERE

    def test_without_an_evaluation_set_there_is_nothing_to_compare(self, tmp_path: Path) -> None:
        calibration, _ = self.two(tmp_path, 51, "png")
        assert found(calibration) == {}


def test_another_subject_is_an_error(tmp_path: Path) -> None:
    store = stored_folder(tmp_path, image_folder(tmp_path / "set", {"a": 1}))
    with pytest.raises(ValueError):
        run_checks(CheckedSet("training", store))


def test_a_16_bit_image_of_one_level_is_constant(tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "set", {"a": 100})
    Image.fromarray(np.full((5, 5), 30000, np.uint16)).save(folder / "a" / "000.png")
    opened = open_set(ImageFolder("image_folder", str(folder)), ["image"])
    assert len(opened.entries) == 100
    assert found(stored_folder(tmp_path, folder))["DATA-CONSTANT"].facts["samples"] == 1
