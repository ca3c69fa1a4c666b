"""Stored sets of real patches, and what the checks find in them."""

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sklearn.datasets
from PIL import Image

from phoneproof.data.checks.checked import CheckedSet
from phoneproof.data.checks.registry import run_checks
from phoneproof.data.preprocessing import Preprocess
from phoneproof.data.set_specs import ImageFolder, NpzArchive
from phoneproof.data.sets import open_set
from phoneproof.data.store import SampleStore
from phoneproof.data.store_writer import materialize
from phoneproof.findings import FINDING_IDS, Finding
from phoneproof.protocol.tensors import TensorSpec
from tests.data.builders import as_is, target
from tests.data.real_sets import patches

Pixels = npt.NDArray[np.uint8]
SIDE = 32


@cache
def photographs(count: int, seed: int = 0, side: int = SIDE) -> Pixels:
    """[count, side, side, 3]: patches of scikit-learn's two photographs, those of another seed elsewhere."""
    cut = patches(sklearn.datasets.load_sample_images().images, count, (90, 250), seed)
    made = [np.asarray(Image.fromarray(one).resize((side, side), Image.Resampling.BOX)) for one in cut]
    return np.stack(made)


def stored_pixels(
    root: Path, pictures: Iterable[npt.NDArray[Any]], preprocess: Preprocess | None = None, kind: str = "bmp"
) -> SampleStore:
    """Pictures written to image files below `root` and stored."""
    folder = root / "pictures"
    folder.mkdir(parents=True)
    for number, picture in enumerate(pictures):
        Image.fromarray(picture).save(folder / f"{number:04}.{kind}")
    opened = open_set(ImageFolder("image_folder", str(folder)), ["image"])
    return materialize(opened, range(len(opened.entries)), target(root, preprocess or as_is()))


def stored_values(
    root: Path,
    values: npt.NDArray[Any],
    labels: Sequence[Any] | None = None,
    classes: tuple[str, ...] | None = None,
) -> SampleStore:
    """values: [n, *shape of the model's input]."""
    root.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {"image": values} | ({} if labels is None else {"labels": np.array(labels)})
    np.savez(root / "set.npz", **arrays)
    opened = open_set(NpzArchive("npz", str(root / "set.npz"), classes=classes), ["image"])
    tensor = TensorSpec("image", str(values.dtype), (1, *values.shape[1:]))
    return materialize(opened, range(len(opened.entries)), target(root, None, tensor))


def found(
    store: SampleStore,
    evaluation: SampleStore | None = None,
    subject: str = "calibration",
    preprocess: Preprocess | None = None,
) -> dict[str, Finding]:
    """By id; each id at most once, and known."""
    findings = run_checks(CheckedSet(subject, store, evaluation, preprocess))
    assert len({finding.id for finding in findings}) == len(findings)
    assert {finding.id for finding in findings} <= set(FINDING_IDS)
    return {finding.id: finding for finding in findings}
