"""Sets in .npy and .npz files, read row by row: a set larger than memory is no trouble."""

import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from phoneproof.data.declared import suggestion
from phoneproof.data.labels import index_labels
from phoneproof.data.samples import UNNAMED, Content, Entry, Label, plain_label
from phoneproof.data.set_specs import NpyArray, NpzArchive
from phoneproof.errors import DataError, said

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class NpySet:
    """A memory-mapped .npy file; row i is the sample i."""

    entries: tuple[Entry, ...]
    rows: Array
    class_names: tuple[str, ...] | None
    ignored_files: int = 0

    def contents(self, indices: Sequence[int]) -> Iterator[Content]:
        """One copied row after the other."""
        return ({UNNAMED: np.array(self.rows[index])} for index in indices)


def open_npy(spec: NpyArray) -> NpySet:
    """The rows of `spec.path`. DataError for a missing, damaged or pickled file or other labels than rows."""
    rows = _mapped(spec.path)
    if rows.ndim < 1 or len(rows) == 0:
        raise DataError("The array holds no samples.", where=spec.path)
    labels: Sequence[Label] = [None] * len(rows)
    names = None
    if spec.labels_path is not None:
        labels, names = _labels(_mapped(spec.labels_path), spec.classes, len(rows), spec.labels_path)
    entries = tuple(Entry(str(index), label) for index, label in enumerate(labels))
    return NpySet(entries, rows, names)


def _mapped(path: str) -> Array:
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise DataError("The file does not exist.", where=path) from None
    except (OSError, ValueError, EOFError) as error:
        raise DataError(
            f"It is no array that can be read without unpickling: {said(error)}.", where=path
        ) from None
    if not isinstance(array, np.ndarray):
        raise DataError("It is an .npz archive, not an .npy file.", where=path, next_step="Set kind = 'npz'.")
    return array


def _labels(
    array: Array, classes: tuple[str, ...] | None, count: int, where: str
) -> tuple[Sequence[Label], tuple[str, ...] | None]:
    if array.ndim < 1 or len(array) != count:
        found = len(array) if array.ndim else 0
        raise DataError(f"There are {found} labels for {count} samples.", where=where)
    if array.dtype.kind == "U" and array.ndim == 1:
        return index_labels([str(text) for text in array], classes, where)
    if array.dtype.kind not in "biufU":
        raise DataError(f"Labels of type {array.dtype} cannot be read.", where=where)
    labels = [plain_label(label, where) for label in array]
    if classes is not None and array.ndim == 1 and array.dtype.kind in "iu":
        for label in labels:
            if not 0 <= label < len(classes):
                raise DataError(
                    f"The label {label} is not an index into {len(classes)} classes.", where=where
                )
    return labels, classes


@dataclass(frozen=True)
class NpzSet:
    """An .npz archive, its arrays decompressed one row at a time; members[input name] is an array's name."""

    entries: tuple[Entry, ...]
    path: str
    members: Mapping[str, str]
    class_names: tuple[str, ...] | None
    ignored_files: int = 0

    def contents(self, indices: Sequence[int]) -> Iterator[Content]:
        """Arrays by input name. DataError for an archive that turns out damaged."""
        with _opened(self.path) as archive:
            rows = {name: _rows(archive, array, indices, self.path) for name, array in self.members.items()}
            for _ in indices:
                yield {name: next(stream) for name, stream in rows.items()}


def open_npz(spec: NpzArchive, input_names: Sequence[str]) -> NpzSet:
    """The samples of `spec.path` for the inputs of a model.

    Raises DataError for a missing or damaged file, an input without an array, arrays of different lengths,
    labels that do not fit, and anything that would have to be unpickled.
    """
    for name in spec.arrays:
        if name not in input_names:
            step = suggestion(name, input_names)
            raise DataError(f"The model has no input {name!r}.", where=f"{spec.path}: arrays", next_step=step)
    members = {name: spec.arrays.get(name, name) for name in input_names}
    with _opened(spec.path) as archive:
        present = [Path(name).stem for name in archive.namelist() if name.endswith(".npy")]
        lengths = {}
        for name, array in members.items():
            if array not in present:
                raise DataError(
                    f"There is no array {array!r} for the input {name!r}.",
                    where=spec.path,
                    next_step=suggestion(array, present) + " Set arrays to name another.",
                )
            shape = _header(archive, array, spec.path)[0]
            lengths[array] = shape[0] if shape else 0
        count = next(iter(lengths.values()))
        if len(set(lengths.values())) != 1 or count == 0:
            found = ", ".join(f"{name!r}: {length}" for name, length in lengths.items())
            raise DataError(f"Each array needs the same number of samples, not {found}.", where=spec.path)
        labels: Sequence[Label] = [None] * count
        names = None
        if spec.labels_array in present and spec.labels_array not in members.values():
            shape = _header(archive, spec.labels_array, spec.path)[0]
            rows = list(_rows(archive, spec.labels_array, range(shape[0] if shape else 0), spec.path))
            where = f"{spec.path}: {spec.labels_array}"
            labels, names = _labels(np.array(rows), spec.classes, count, where)
        elif spec.labels_array != "labels":
            step = suggestion(spec.labels_array, present)
            what = f"There is no array of labels {spec.labels_array!r}."
            raise DataError(what, where=spec.path, next_step=step)
    entries = tuple(Entry(str(index), label) for index, label in enumerate(labels))
    return NpzSet(entries, spec.path, members, names)


def _opened(path: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except FileNotFoundError:
        raise DataError("The file does not exist.", where=path) from None
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"It is no .npz archive: {said(error)}.", where=path) from None


def _member(archive: zipfile.ZipFile, array: str, path: str) -> IO[bytes]:
    try:
        return archive.open(f"{array}.npy")
    except (KeyError, RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
        raise DataError(f"The array {array!r} cannot be read: {said(error)}.", where=path) from None


def _read_header(stream: IO[bytes], where: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """(shape, Fortran order, dtype); the stream stands at the first element afterwards."""
    try:
        version = npy_format.read_magic(stream)
        if version == (1, 0):
            shape, fortran, dtype = npy_format.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, fortran, dtype = npy_format.read_array_header_2_0(stream)
        else:
            raise DataError(f"Arrays of format {version} are not read.", where=where)
    except (ValueError, EOFError, OSError, zlib.error, zipfile.BadZipFile) as error:
        raise DataError(f"It is no array: {said(error)}.", where=where) from None
    if dtype.hasobject:
        raise DataError("The array holds Python objects, which are never unpickled.", where=where)
    return shape, fortran, dtype


def _header(archive: zipfile.ZipFile, array: str, path: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    with _member(archive, array, path) as stream:
        shape, _, dtype = _read_header(stream, f"{path}: {array}")
    return shape, dtype


def _rows(archive: zipfile.ZipFile, array: str, indices: Sequence[int], path: str) -> Iterator[Array]:
    """Rows at ascending `indices`. Fortran order scatters a row over the file: it is read whole."""
    where = f"{path}: {array}"
    with _member(archive, array, path) as stream:
        shape, fortran, dtype = _read_header(stream, where)
        if fortran and len(shape) > 1:
            whole = _exactly(stream, math.prod(shape) * dtype.itemsize, where)
            columns = np.frombuffer(whole, dtype).reshape(shape, order="F")
            for index in indices:
                yield np.ascontiguousarray(columns[index])
            return
        size = math.prod(shape[1:]) * dtype.itemsize
        start = stream.tell()
        for index in indices:
            try:
                stream.seek(start + index * size)
            except (OSError, zlib.error, zipfile.BadZipFile, EOFError) as error:
                raise DataError(f"The archive is damaged: {said(error)}.", where=where) from None
            yield np.frombuffer(_exactly(stream, size, where), dtype).reshape(shape[1:])


def _exactly(stream: IO[bytes], size: int, where: str) -> bytes:
    try:
        data = stream.read(size)
    except (OSError, zlib.error, zipfile.BadZipFile, EOFError) as error:
        raise DataError(f"The archive is damaged: {said(error)}.", where=where) from None
    if len(data) != size:
        raise DataError("The archive ends in the middle of an array.", where=where)
    return data
