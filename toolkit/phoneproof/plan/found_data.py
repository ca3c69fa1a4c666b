"""What `phoneproof init --data` finds: which sets a path holds, and how one source is parted into two."""

import csv
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from phoneproof.data.file_sets import IMAGE_SUFFIXES, FileSet, open_image_folder
from phoneproof.data.set_specs import ImageFolder
from phoneproof.errors import CommandLineError, DataError

CALIBRATION_NAMES: Final = ("calibration", "calib", "train", "training")
EVALUATION_NAMES: Final = ("evaluation", "eval", "val", "validation", "test")
MOST_FOR_CALIBRATION: Final = 200
PATH_COLUMNS: Final = ("path", "file", "filename", "file_name", "image", "image_path")
LABEL_COLUMNS: Final = ("label", "class", "target", "category")

Keys = dict[str, str | int]


@dataclass(frozen=True)
class FoundData:
    """The two sets as keys of the plan. said: how they were chosen, for the user.

    images: whether the sets are images. classes: number of labelled classes, None if not labelled or unknown.
    """

    calibration: Keys
    evaluation: Keys
    said: tuple[str, ...]
    images: bool
    classes: int | None


def find_data(path: Path, input_names: Sequence[str]) -> FoundData:
    """The sets at `path`. CommandLineError for a path that holds none."""
    if not path.exists():
        raise _no_data(path, "It does not exist.", "Correct the path.")
    try:
        if path.is_dir():
            return _folder(path)
        if path.suffix == ".csv":
            return _csv(path)
        if path.suffix == ".npz":
            return _npz(path, input_names)
        if path.suffix == ".npy":
            return _npy(path)
    except OSError as error:
        raise _no_data(path, f"It cannot be read: {error.strerror}.", "Check its permissions.") from None
    raise _no_data(path, "It is no folder and no .csv, .npz or .npy file.", "Give one of these.")


def _no_data(path: Path, what: str, next_step: str) -> CommandLineError:
    return CommandLineError(what, where=f"--data {path}", next_step=next_step)


def _folder(path: Path) -> FoundData:
    inner = {entry.name.lower(): entry for entry in sorted(path.iterdir()) if entry.is_dir()}
    calibration = next((inner[name] for name in CALIBRATION_NAMES if name in inner), None)
    evaluation = [inner[name] for name in EVALUATION_NAMES if name in inner]
    if calibration is not None and evaluation:
        said = [f"{calibration.name} is taken for calibration and {evaluation[0].name} for evaluation."]
        if len(evaluation) > 1:
            said.append(f"Not used: {', '.join(one.name for one in evaluation[1:])}.")
        _listed(calibration)
        return FoundData(
            {"kind": "image_folder", "path": str(calibration)},
            {"kind": "image_folder", "path": str(evaluation[0])},
            tuple(said),
            True,
            _classes(_listed(evaluation[0])),
        )
    only = evaluation[0] if evaluation else calibration
    if only is not None and any(has_image(one) for one in inner.values() if one != only):
        only = None  # a class may be called train or test
    whole = only or path
    said = [] if only is None else [f"Of the sub-folders only {only.name} is used."]
    listed = _listed(whole)
    keys: Keys = {"kind": "image_folder", "path": str(whole)}
    return _parted(keys, len(listed.entries), "images", said, True, _classes(listed))


def _listed(folder: Path) -> FileSet:
    try:
        return open_image_folder(ImageFolder("image_folder", str(folder)))
    except DataError as error:
        raise _no_data(folder, error.what, error.next_step or "") from None


def _classes(listed: FileSet) -> int | None:
    return None if listed.class_names is None else len(listed.class_names)


def has_image(folder: Path) -> bool:
    """Whether there is one image; the walk ends at it, however large the folder is.

    A link to a folder counts as one: links may form loops, so they are followed only where all is listed.
    """
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        if any(Path(name).suffix.lower() in IMAGE_SUFFIXES and not name.startswith(".") for name in files):
            return True
        if any(Path(place, name).is_symlink() for name in folders):
            return True
    return False


def _parted(
    keys: Keys, count: int | None, unit: str, said: Sequence[str], images: bool, classes: int | None
) -> FoundData:
    """One source for both sets: a third of it, at most 200, for calibration, and the rest for evaluation."""
    if count is not None and count < 2:
        what = f"{count} of its {unit} can be used, and two sets need two."
        raise _no_data(Path(str(keys["path"])), what, "Give more data.")
    n = MOST_FOR_CALIBRATION if count is None else min(MOST_FOR_CALIBRATION, max(1, count // 3))
    of = f"{n} of its {unit}" if count is None else f"{n} of its {count} {unit}"
    parted = (
        f"One source serves both sets: {of} are taken for calibration, the rest for evaluation,",
        "chosen by data.seed, each class with its share, so that the two share no sample.",
    )
    return FoundData({**keys, "take": n}, {**keys, "skip": n}, (*said, *parted), images, classes)


def _csv(path: Path) -> FoundData:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file)
            header = next(rows, [])
            count = sum(1 for row in rows if row)
    except (UnicodeError, csv.Error) as error:
        step = "Save it as UTF-8 with commas."
        raise _no_data(path, f"It cannot be read as CSV: {error}.", step) from None
    path_column = next((c for c in header if c.lower() in PATH_COLUMNS), None)
    if path_column is None:
        what = f"No column of {header[:8]} is named as one of image paths usually is."
        raise _no_data(path, what, f"Name it {' or '.join(PATH_COLUMNS[:2])}, or write the plan by hand.")
    label_column = next((c for c in header if c.lower() in LABEL_COLUMNS), None)
    keys: Keys = {"kind": "csv", "path": str(path), "path_column": path_column}
    said = [f"CHECK THIS: {path_column} is taken for the column of image paths."]
    classes = None
    if label_column is not None:
        keys["label_column"] = label_column
        said.append(f"CHECK THIS: {label_column} is taken for the column of labels.")
        with path.open(encoding="utf-8-sig", newline="") as file:
            classes = len({row[label_column] for row in csv.DictReader(file) if row[label_column]}) or None
    return _parted(keys, count, "lines", said, True, classes)


def _npz(path: Path, input_names: Sequence[str]) -> FoundData:
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = sorted(name.removesuffix(".npy") for name in archive.namelist())
    except zipfile.BadZipFile:
        raise _no_data(path, "It is not an .npz archive.", "Write it with numpy.savez.") from None
    missing = [name for name in input_names if name not in arrays]
    if missing:
        raise _no_data(
            path,
            f"The archive has the arrays {', '.join(arrays[:20])}, and the model the input {missing[0]!r}.",
            f"Save the array as {missing[0]!r}, or write the plan by hand with arrays = {{ ... }}.",
        )
    return _parted({"kind": "npz", "path": str(path)}, None, "samples", [], False, None)


def _npy(path: Path) -> FoundData:
    with path.open("rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise _no_data(path, "It is not an .npy file.", "Write it with numpy.save.")
    return _parted({"kind": "npy", "path": str(path)}, None, "samples", [], False, None)


__all__ = ["FoundData", "Keys", "find_data", "has_image"]
