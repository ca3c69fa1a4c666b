"""What every kind of set looks like to the sample store: listed entries, streamed contents."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image

from phoneproof.errors import BrokenSampleError, DataError

Label = Any
"""A JSON value. A class index for classification; what an entry point's metric understands otherwise."""

Content = Path | Image.Image | Mapping[str, npt.NDArray[Any]]
"""An image file, an image, or arrays by input name. One array without a name stands under `UNNAMED`."""

UNNAMED: Final = ""


@dataclass(frozen=True)
class Entry:
    """One listed sample. id: file name or position, untrusted text. label: None where the set has none."""

    id: str
    label: Label = None


class SampleSet(Protocol):
    """An opened set: everything listed, nothing loaded.

    entries are in the set's one order. class_names[i] is the name of label i, or None where labels are
    indices or absent. ignored_files counts files of a folder that are no images.
    """

    @property
    def entries(self) -> Sequence[Entry]: ...
    @property
    def class_names(self) -> tuple[str, ...] | None: ...
    @property
    def ignored_files(self) -> int: ...

    def contents(self, indices: Sequence[int]) -> Iterator[Content]:
        """The contents of the entries at `indices` (ascending), one after the other."""
        ...


def content_digest(content: Content) -> str:
    """sha256 over the bytes of a file, or over mode, size and levels of an image, or over each array's name,
    dtype, shape and elements in order of names. BrokenSampleError for a file that cannot be read."""
    if isinstance(content, Path):
        with opened_file(content) as file:
            try:
                return hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise unreadable(error) from error
    if isinstance(content, Image.Image):
        hashed = hashlib.sha256(f"{content.mode} {content.size}".encode())
        hashed.update(content.tobytes())
        return hashed.hexdigest()
    hashed = hashlib.sha256()
    for name in sorted(content):
        array = content[name]
        little = np.asarray(array, dtype=array.dtype.newbyteorder("<"))
        hashed.update(f"{len(name)}:{name}{little.dtype.str}{little.shape}".encode("utf-8", "surrogatepass"))
        hashed.update(little.tobytes())
    return hashed.hexdigest()


def opened_file(path: Path) -> BufferedReader:
    """`path` open for reading. BrokenSampleError if it is not a regular file that can be read."""
    try:
        if not path.is_file():  # also keeps a named pipe from blocking for ever
            what = "It is not a regular file." if path.exists() else "The file does not exist."
            raise BrokenSampleError(what)
        return path.open("rb")
    except OSError as error:
        raise unreadable(error) from error


def unreadable(error: OSError) -> BrokenSampleError:
    """What an error of the operating system says about one sample."""
    return BrokenSampleError(f"The file cannot be read: {error.strerror}.")


def plain_label(value: Any, where: str) -> Label:
    """A label as a JSON value. DataError for what JSON cannot hold, NaN included."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and np.isfinite(value):
        return value
    if isinstance(value, list | tuple):
        return [plain_label(item, where) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: plain_label(item, where) for key, item in value.items()}
    raise DataError(f"A label of type {type(value).__name__} cannot be kept: {value!r:.80}.", where=where)


def shown(name: str) -> str:
    """A file name as text that can be written anywhere: bytes that are not UTF-8 become `\\xNN`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
