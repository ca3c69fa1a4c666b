"""Sets of image files: a folder whose sub-folders are classes, or a CSV manifest."""

import codecs
import csv
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from phoneproof.data.declared import suggestion
from phoneproof.data.labels import class_order, index_labels
from phoneproof.data.samples import Content, Entry, shown
from phoneproof.data.set_specs import CsvManifest, ImageFolder
from phoneproof.errors import DataError, said

IMAGE_SUFFIXES: Final = frozenset(
    {".avif", ".bmp", ".gif", ".jfif", ".jp2", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm"}
    | {".tga", ".tif", ".tiff", ".webp"}
)


@dataclass(frozen=True)
class FileSet:
    """A listed set of image files; entries[i] is the file paths[i]."""

    entries: tuple[Entry, ...]
    paths: tuple[Path, ...]
    class_names: tuple[str, ...] | None
    ignored_files: int = 0

    def contents(self, indices: Sequence[int]) -> Iterator[Content]:
        """The paths at `indices`: files are opened only where they are read."""
        return (self.paths[index] for index in indices)


def open_image_folder(spec: ImageFolder) -> FileSet:
    """The images below `spec.path`, sorted by class and path.

    Hidden files and folders (.ipynb_checkpoints, .DS_Store) and __MACOSX are passed over, as are files
    without an image suffix, which are counted. Links are followed; a loop of links is cut.
    Raises DataError for a missing or empty folder, images beside class folders, an unknown or empty class.
    """
    root = Path(spec.path)
    if not root.is_dir():
        what = "It is not a folder." if root.exists() else "The folder does not exist."
        raise DataError(what, where=spec.path, next_step="Give the folder of the images.")
    files, ignored = _image_files(root)
    folders = sorted(path.name for path in root.iterdir() if not _hidden(path.name) and _is_folder(path))
    used = {parts[0] for parts in files if len(parts) > 1}
    loose = [parts[0] for parts in files if len(parts) == 1]
    if not files:
        step = "Images end in " + ", ".join(sorted(IMAGE_SUFFIXES)) + "."
        raise DataError("The folder holds no images.", where=spec.path, next_step=step, ignored_files=ignored)
    if loose and used:
        raise DataError(
            f"Images lie beside class folders, so their class is not known: {shown(loose[0])!r}.",
            where=spec.path,
            next_step="Move them into a class folder, or name a folder without sub-folders.",
        )
    names: tuple[str, ...] | None = None
    if used:
        empty = [name for name in folders if name not in used]
        if empty and spec.classes is None:
            raise DataError(
                f"The class folder {shown(empty[0])!r} holds no images, so class indices are not certain.",
                where=spec.path,
                next_step="Remove it, or set classes to the list of names.",
            )
        names = class_order(sorted(used), spec.classes, spec.path)
    index = {name: position for position, name in enumerate(names or ())}
    entries = tuple(Entry(shown("/".join(p)), index[p[0]] if names else None) for p in files)
    shown_names = None if names is None else tuple(shown(name) for name in names)
    return FileSet(entries, tuple(root.joinpath(*p) for p in files), shown_names, ignored)


def _is_folder(path: Path) -> bool:
    """False, not an error, for a link that leads to where nobody may look or that no file can be called."""
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises on those before Python 3.14


def _hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"


def _image_files(root: Path) -> tuple[list[tuple[str, ...]], int]:
    """Paths of the images below `root` as tuples of names, sorted, and the number of other files."""
    files: list[tuple[str, ...]] = []
    ignored = 0

    def walk(folder: Path, parts: tuple[str, ...], parents: frozenset[str]) -> None:
        nonlocal ignored
        real = os.path.realpath(folder)
        if real in parents:
            return
        for path in sorted(folder.iterdir()):
            if _hidden(path.name):
                continue
            if _is_folder(path):
                walk(path, (*parts, path.name), parents | {real})
            elif path.suffix.lower() in IMAGE_SUFFIXES:
                files.append((*parts, path.name))
            else:
                ignored += 1

    try:
        walk(root, (), frozenset())
    except OSError as error:
        place = str(error.filename or root)
        raise DataError(f"The folder cannot be read: {error.strerror}.", where=place) from error
    return sorted(files), ignored


def open_csv(spec: CsvManifest) -> FileSet:
    """The images that the rows of `spec.path` name, in order of the rows.

    Cells are text and nothing else: one that begins with `=` is a file name like any other.
    A row whose file does not exist is a broken sample, unless all are so: then the paths mean another folder.
    Raises DataError, with the line, for a missing column or path, a wrong encoding, an unknown label.
    """
    manifest = Path(spec.path)
    rows = _rows(_decoded(manifest, spec), spec)
    paths = [manifest.parent / path for _, path, _ in rows]
    if not any(map(os.path.exists, paths)):  # unlike Path.exists it raises nothing, whatever the name
        line, path, _ = rows[0]
        raise DataError(
            f"None of the files exists. The first is {path!r}.",
            where=f"{spec.path}: line {line}",
            next_step="Paths are relative to the folder of the CSV file.",
        )
    if spec.label_column is None:
        return FileSet(tuple(Entry(path) for _, path, _ in rows), tuple(paths), None)
    labels, names = index_labels([label for *_, label in rows], spec.classes, spec.path)
    entries = tuple(Entry(path, label) for (_, path, _), label in zip(rows, labels, strict=True))
    return FileSet(entries, tuple(paths), names)


def _decoded(manifest: Path, spec: CsvManifest) -> str:
    try:
        raw = manifest.read_bytes()
    except OSError as error:
        raise DataError(f"The CSV file cannot be read: {error.strerror}.", where=spec.path) from error
    encoding = spec.encoding
    if encoding is None:
        utf16 = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        encoding = "utf-16" if utf16 else "utf-8-sig"
    try:
        return raw.decode(encoding)
    except LookupError:
        raise DataError(f"{encoding!r} is not an encoding.", where=spec.path) from None
    except UnicodeError as error:
        raise DataError(
            f"The CSV file is not {encoding}: {said(error)}.",
            where=spec.path,
            next_step="Save it as UTF-8, or name its encoding, as in encoding = 'cp1252'.",
        ) from None


def _rows(text: str, spec: CsvManifest) -> list[tuple[int, str, str]]:
    """(line, path, label) of each row that is not blank; the label is empty text where there is no column."""
    if len(spec.delimiter) != 1:
        raise DataError("The delimiter is one character.", where=spec.path)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=spec.delimiter, strict=True)
    rows = []
    try:
        header = next(reader, [])
        path_at = _column(header, spec.path_column, spec)
        label_at = None if spec.label_column is None else _column(header, spec.label_column, spec)
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(header) or not cells[path_at]:
                raise DataError(
                    f"A row has {len(cells)} cells, the header {len(header)}."
                    if cells and len(cells) != len(header)
                    else "A row has no path.",
                    where=f"{spec.path}: line {reader.line_num}",
                )
            rows.append((reader.line_num, cells[path_at], "" if label_at is None else cells[label_at]))
    except csv.Error as error:
        raise DataError(
            f"It is no CSV: {said(error)}.", where=f"{spec.path}: line {reader.line_num}"
        ) from None
    if not rows:
        raise DataError("The CSV file has no rows.", where=spec.path)
    return rows


def _column(header: list[str], name: str, spec: CsvManifest) -> int:
    if header.count(name) == 1:
        return header.index(name)
    if header.count(name) > 1:
        raise DataError(f"The column {name!r} stands there twice.", where=f"{spec.path}: line 1")
    if len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
        step = "The header has one column: set delimiter to the character between the columns."
    else:
        step = suggestion(name, [shown(column)[:80] for column in header])
    raise DataError(f"There is no column {name!r}.", where=f"{spec.path}: line 1", next_step=step)
