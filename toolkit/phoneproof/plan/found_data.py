"""What `phoneproof init --data` finds: which sets a path holds, and how one source is parted into two."""

import csv
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from phoneproof.data.array_sets import open_npy, open_npz
from phoneproof.data.file_sets import IMAGE_SUFFIXES, FileSet, open_image_folder
from phoneproof.data.labels import is_whole_number
from phoneproof.data.samples import Label
from phoneproof.data.set_specs import ImageFolder, NpyArray, NpzArchive
from phoneproof.errors import CommandLineError, DataError

CALIBRATION_NAMES: Final = ("calibration", "calib", "train", "training")
EVALUATION_NAMES: Final = ("evaluation", "eval", "val", "validation", "test")
MOST_FOR_CALIBRATION: Final = 200
PATH_COLUMNS: Final = ("path", "file", "filename", "file_name", "image", "image_path")
DELIMITERS: Final = (",", ";", "\t")
LABEL_COLUMNS: Final = ("label", "class", "target", "category")

Keys = dict[str, str | int]


@dataclass(frozen=True)
class FoundData:
    """The two sets as keys of the plan. said: how they were chosen, for the user.

    images: whether the sets are images. samples: of the evaluation set. classes: number of labelled classes,
    None without labels of classes; indices: whether labels are class indices, of which the largest is known,
    not names. rows, dtypes: shape and dtype of one sample by input, of
    arrays only.
    """

    calibration: Keys
    evaluation: Keys
    said: tuple[str, ...]
    images: bool
    samples: int
    classes: int | None = None
    indices: bool = False
    rows: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)


def find_data(path: Path, input_names: Sequence[str] | None) -> FoundData:
    """The sets at `path`. CommandLineError for a path that holds none.

    input_names: of the model; None where they are not known, and each array but the labels is an input.
    """
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
            return _npy(path, input_names)
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
        listed = _listed(evaluation[0])
        return FoundData(
            {"kind": "image_folder", "path": str(calibration)},
            {"kind": "image_folder", "path": str(evaluation[0])},
            tuple(said),
            True,
            len(listed.entries),
            _classes(listed),
        )
    only = evaluation[0] if evaluation else calibration
    if only is not None and any(has_image(one) for one in inner.values() if one != only):
        only = None  # a class may be called train or test
    whole = only or path
    said = [] if only is None else [f"Of the sub-folders only {only.name} is used."]
    listed = _listed(whole)
    keys: Keys = {"kind": "image_folder", "path": str(whole)}
    found = FoundData(keys, keys, tuple(said), True, len(listed.entries), _classes(listed))
    return _parted(found, "images")


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


def _parted(found: FoundData, unit: str) -> FoundData:
    """One source for both sets: a third of it, at most 200, for calibration, and the rest for evaluation."""
    keys, count = found.evaluation, found.samples
    if count < 2:
        what = f"{count} of its {unit} can be used, and two sets need two."
        raise _no_data(Path(str(keys["path"])), what, "Give more data.")
    n = min(MOST_FOR_CALIBRATION, max(1, count // 3))
    of = f"{n} of its {count} {unit}"
    said = (
        f"One source serves both sets: {of} are taken for calibration, the rest for evaluation,",
        "chosen by data.seed, each class with its share, so that the two share no sample.",
    )
    return replace(
        found,
        calibration={**keys, "take": n},
        evaluation={**keys, "skip": n},
        said=(*found.said, *said),
        samples=count - n,
    )


def _csv(path: Path) -> FoundData:
    try:
        tables = {delimiter: _lines(path, delimiter) for delimiter in DELIMITERS}
    except (UnicodeError, csv.Error) as error:
        step = "Save it as UTF-8 with commas."
        raise _no_data(path, f"It cannot be read as CSV: {error}.", step) from None
    delimiter = next((d for d in DELIMITERS if _column(tables[d][0], PATH_COLUMNS)), DELIMITERS[0])
    header, *lines = tables[delimiter]
    path_column = _column(header, PATH_COLUMNS)
    if path_column is None:
        what = f"No column of {header[:8]} is named as one of image paths usually is."
        raise _no_data(path, what, f"Name it {' or '.join(PATH_COLUMNS[:2])}, or write the plan by hand.")
    label_column = _column(header, LABEL_COLUMNS)
    keys: Keys = {"kind": "csv", "path": str(path), "path_column": path_column}
    said = [f"CHECK THIS: {path_column} is taken for the column of image paths."]
    if delimiter != DELIMITERS[0]:
        keys["delimiter"] = delimiter
    found = FoundData(keys, keys, (), True, len(lines))
    if label_column is not None:
        keys["label_column"] = label_column
        said.append(f"CHECK THIS: {label_column} is taken for the column of labels.")
        column = header.index(label_column)
        found = _labelled(found, [line[column] for line in lines if line[column:] and line[column]])
    return _parted(replace(found, said=tuple(said)), "lines")


def _lines(path: Path, delimiter: str) -> list[list[str]]:
    """The header, empty in an empty file, and the lines that are not."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter=delimiter)
        return [next(rows, []), *(row for row in rows if row)]


def _column(header: Sequence[str], names: Sequence[str]) -> str | None:
    return next((column for column in header if column.lower() in names), None)


def _labelled(found: FoundData, labels: Sequence[Label]) -> FoundData:
    """With the classes that the labels speak of: indices, also as text, or names. Others say nothing."""
    if all(isinstance(label, str) for label in labels):
        if not all(is_whole_number(label) for label in labels):
            return replace(found, classes=len(set(labels)))
        labels = [int(label) for label in labels]
    if labels and all(isinstance(label, int) and label >= 0 for label in labels):
        return replace(found, classes=int(max(labels)) + 1, indices=True)
    return found


def _npz(path: Path, input_names: Sequence[str] | None) -> FoundData:
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = sorted(name.removesuffix(".npy") for name in archive.namelist())
    except zipfile.BadZipFile:
        raise _no_data(path, "It is not an .npz archive.", "Write it with numpy.savez.") from None
    if input_names is None:
        input_names = [name for name in arrays if name != NpzArchive.labels_array]
        if not input_names:
            raise _no_data(path, "The archive holds no array for an input.", "Save one for each input.")
    missing = [name for name in input_names if name not in arrays]
    if missing:
        raise _no_data(
            path,
            f"The archive has the arrays {', '.join(arrays[:20])}, and the model the input {missing[0]!r}.",
            f"Save the array as {missing[0]!r}, or write the plan by hand with arrays = {{ ... }}.",
        )
    try:
        opened = open_npz(NpzArchive("npz", str(path)), input_names)
        first = next(opened.contents([0]))
    except DataError as error:
        raise _no_data(path, error.what, error.next_step or "Write it with numpy.savez.") from None
    keys: Keys = {"kind": "npz", "path": str(path)}
    samples = {name: first[name] for name in input_names} if isinstance(first, Mapping) else {}
    rows = {name: one.shape for name, one in samples.items()}
    dtypes = {name: str(one.dtype) for name, one in samples.items()}
    found = FoundData(keys, keys, (), False, len(opened.entries), rows=rows, dtypes=dtypes)
    names = opened.class_names
    labels = [entry.label for entry in opened.entries]
    return _parted(
        _labelled(found, labels) if names is None else replace(found, classes=len(names)), "samples"
    )


def _npy(path: Path, input_names: Sequence[str] | None) -> FoundData:
    try:
        opened = open_npy(NpyArray("npy", str(path)))
    except DataError as error:
        raise _no_data(path, error.what, error.next_step or "Write it with numpy.save.") from None
    keys: Keys = {"kind": "npy", "path": str(path)}
    names = ("input",) if input_names is None else input_names[:1]
    rows = dict.fromkeys(names, opened.rows.shape[1:])
    dtypes = dict.fromkeys(names, str(opened.rows.dtype))
    found = FoundData(keys, keys, (), False, len(opened.entries), rows=rows, dtypes=dtypes)
    return _parted(found, "samples")


__all__ = ["FoundData", "Keys", "find_data", "has_image"]
