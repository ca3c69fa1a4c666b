"""The demo's sets are real, labelled, and share no image."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from phoneproof.demo import digits


@pytest.fixture(scope="module")
def loaded() -> tuple[digits.Images, digits.Labels]:
    return digits.load()


@pytest.fixture(scope="module")
def parts(loaded: tuple[digits.Images, digits.Labels]) -> digits.Split:
    return digits.split(*loaded)


def test_sizes_of_the_sets(parts: digits.Split) -> None:
    assert (len(parts.training), len(parts.calibration), len(parts.evaluation)) == (700, 200, 897)


def test_no_image_is_in_two_sets_even_by_content(
    loaded: tuple[digits.Images, digits.Labels], parts: digits.Split
) -> None:
    images, _ = loaded
    contents = [
        {images[index].tobytes() for index in part}
        for part in (parts.training, parts.calibration, parts.evaluation)
    ]
    assert sum(map(len, contents)) == len(set.union(*contents)) == 1797


def test_repeated_images_are_left_out_before_the_sets_are_made(
    loaded: tuple[digits.Images, digits.Labels],
) -> None:
    images, labels = loaded
    parts = digits.split(np.concatenate([images, images[:50]]), np.concatenate([labels, labels[:50]]))
    positions = np.concatenate([parts.training, parts.calibration, parts.evaluation])
    assert sorted(positions) == list(range(1797))


@pytest.mark.parametrize("name", ["training", "calibration", "evaluation"])
def test_each_set_has_the_classes_in_the_proportion_of_the_whole(
    name: str, loaded: tuple[digits.Images, digits.Labels], parts: digits.Split
) -> None:
    _, labels = loaded
    part = getattr(parts, name)
    expected = np.bincount(labels) * len(part) / len(labels)
    assert np.abs(np.bincount(labels[part], minlength=10) - expected).max() < 1.01


def test_the_split_is_always_the_same(
    loaded: tuple[digits.Images, digits.Labels], parts: digits.Split
) -> None:
    again = digits.split(*loaded)
    assert np.array_equal(again.calibration, parts.calibration)
    assert np.array_equal(again.evaluation, parts.evaluation)


def test_a_written_set_reads_back_as_the_source_digits(
    tmp_path: Path, loaded: tuple[digits.Images, digits.Labels], parts: digits.Split
) -> None:
    from sklearn.datasets import load_digits

    images, labels = loaded
    digits.write_set(tmp_path / "calibration", images, labels, parts.calibration)
    source = load_digits()
    files = sorted((tmp_path / "calibration").rglob("*.png"))
    assert len(files) == 200
    for file in files:
        index = int(file.stem)
        with Image.open(file) as image:
            assert image.mode == "L"
            assert np.array_equal(np.rint(np.asarray(image, np.float64) * 16 / 255), source.images[index])
        assert file.parent.name == str(source.target[index])


def test_a_folders_hash_depends_on_names_and_contents(tmp_path: Path) -> None:
    first, renamed, changed = (tmp_path / name for name in ("first", "renamed", "changed"))
    for folder, name, content in ((first, "a", b"1"), (renamed, "b", b"1"), (changed, "a", b"2")):
        folder.mkdir()
        (folder / name).write_bytes(content)
    assert len({digits.folder_sha256(folder) for folder in (first, renamed, changed)}) == 3


def test_inputs_are_enlarged_and_about_standardised(
    loaded: tuple[digits.Images, digits.Labels], parts: digits.Split
) -> None:
    images, _ = loaded
    inputs = digits.model_inputs(images[parts.training])
    assert inputs.shape == (700, 1, digits.SIDE, digits.SIDE)
    assert inputs.dtype == np.float32
    assert abs(float(inputs.mean())) < 0.05
    assert abs(float(inputs.std()) - 1) < 0.05
