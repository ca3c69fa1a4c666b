"""How a set is declared. Paths are absolute or relative to the process; the plan resolves its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from phoneproof.errors import DataError, ProtocolError
from phoneproof.protocol import codec


@dataclass(frozen=True)
class ImageFolder:
    """A folder of images. Its sub-folders are the classes; without sub-folders there are no labels.

    classes: names in order of their index; without it the sorted names of the sub-folders.
    """

    kind: Literal["image_folder"]
    path: str
    classes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class CsvManifest:
    """A CSV file with a header: a column of image paths, relative to the file, and one of labels.

    label_column: None says that there are no labels. encoding: of the file; None is UTF-8, or UTF-16 if the
    file begins with its byte order mark. classes: as for ImageFolder; without it labels that are all whole
    numbers are indices, and others are names, sorted.
    """

    kind: Literal["csv"]
    path: str
    path_column: str = "path"
    label_column: str | None = "label"
    delimiter: str = ","
    encoding: str | None = None
    classes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class NpzArchive:
    """An .npz file with one array per input, first dimension the sample, and perhaps one of labels.

    arrays: name of the array for an input, where it is not the input's name.
    """

    kind: Literal["npz"]
    path: str
    arrays: Mapping[str, str] = field(default_factory=dict)
    labels_array: str = "labels"
    classes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class NpyArray:
    """An .npy file for the model's only input, first dimension the sample; labels in another .npy file."""

    kind: Literal["npy"]
    path: str
    labels_path: str | None = None
    classes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class EntryPoint:
    """`module:function`, called without arguments with `folder` on the path of modules.

    It gives samples one after the other, the same ones on every call: an array, an image (Pillow), or a
    dict of input name to array; or a tuple (one of those, label).
    """

    kind: Literal["entry_point"]
    function: str
    folder: str
    classes: tuple[str, ...] | None = None


SetSpec = ImageFolder | CsvManifest | NpzArchive | NpyArray | EntryPoint
SET_KINDS: Final = ("image_folder", "csv", "npz", "npy", "entry_point")


def set_from_dict(given: Mapping[str, Any], where: str = "set") -> SetSpec:
    """The set that `given` declares by its `kind`. DataError for an unknown kind or key, or a wrong type."""
    try:
        spec: SetSpec = codec.from_dict(SetSpec, dict(given), where)  # type: ignore[arg-type]
    except ProtocolError as error:
        raise DataError(error.what, where=error.where, next_step=error.next_step) from None
    classes = spec.classes or ()
    if spec.classes is not None and (len(set(classes)) != len(classes) or not classes):
        raise DataError(
            "The key classes takes a list of different names, not empty.", where=f"{where}.classes"
        )
    return spec


def set_to_dict(spec: SetSpec) -> dict[str, Any]:
    """Plain values for JSON; `set_from_dict` gives an equal set."""
    written: dict[str, Any] = codec.to_dict(spec)
    return written
