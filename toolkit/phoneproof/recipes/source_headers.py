"""Whether a file can be a source model of its form: by its first bytes, no vendor's package loaded."""

import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from phoneproof.errors import SourceModelError
from phoneproof.recipes.onnx_header import read_header
from phoneproof.recipes.table import SourceFormat

_ZIP: Final = b"PK\x03\x04"
_HDF5: Final = b"\x89HDF\r\n\x1a\n"
_LFS: Final = b"version https://git-lfs"
_LARGEST_HEADER: Final = 100_000_000
"""Bytes of a safetensors header; its own reader refuses more."""

SOURCE_SUFFIXES: Final[Mapping[str, SourceFormat]] = {
    ".onnx": SourceFormat.ONNX,
    ".keras": SourceFormat.KERAS,
    ".pt2": SourceFormat.EXPORTED_PROGRAM,
}
"""How the name of a source file of each form ends; a SavedModel is a folder."""

_MEMBERS: Final = {SourceFormat.KERAS: "config.json", SourceFormat.EXPORTED_PROGRAM: "/models/"}
"""What the archive of a form has in the names of its members; a .pt2's begin with the name of the file."""
_CALLED: Final = {SourceFormat.KERAS: "Keras model", SourceFormat.EXPORTED_PROGRAM: "exported program"}
_SAVE_AS: Final = {
    SourceFormat.KERAS: "Save the model with model.save('model.keras').",
    SourceFormat.EXPORTED_PROGRAM: "Save the program with torch.export.save(program, 'model.pt2').",
}
_SAVE_STATE: Final = "Save it with safetensors.torch.save_file or torch.save(module.state_dict(), ...)."


def check_source(path: Path, form: SourceFormat) -> None:
    """SourceModelError where the file or folder cannot be a source of this form. Not for Python functions."""
    match form:
        case SourceFormat.ONNX:
            _refuse_pointer(path)
            read_header(path)
        case SourceFormat.SAVEDMODEL:
            _check_savedmodel(path)
        case SourceFormat.KERAS | SourceFormat.EXPORTED_PROGRAM:
            _check_archive(path, form)
        case SourceFormat.PYTORCH:
            raise ValueError("a Python function is no file")


def check_state(path: Path) -> None:
    """SourceModelError where the file cannot be a state dict: a .safetensors, or an archive of torch.save."""
    _must_be_file(path, "state dict")
    _refuse_pointer(path)
    if path.suffix == ".safetensors":
        _check_safetensors(path)
        return
    names = _members(path) if _start(path, 4) == _ZIP else []
    if not any(name.endswith("data.pkl") for name in names):
        what = "The file is no archive of torch.save."
        raise SourceModelError(what, where=str(path), next_step=_SAVE_STATE)
    if any(name.endswith("constants.pkl") for name in names):
        what = "The file is a TorchScript module, not a state dict."
        raise SourceModelError(what, where=str(path), next_step=_SAVE_STATE)


def _check_safetensors(path: Path) -> None:
    start = _start(path, 9)
    length = struct.unpack("<Q", start[:8])[0] if len(start) == 9 else 0
    if start[8:] != b"{" or not 2 <= length <= _LARGEST_HEADER:
        raise SourceModelError("The file is not safetensors.", where=str(path), next_step=_SAVE_STATE)
    if 8 + length > path.stat().st_size:
        step = "Check that the copy is complete, or save it again."
        raise SourceModelError("The file is truncated.", where=str(path), next_step=step)


def _check_savedmodel(path: Path) -> None:
    step = "Name the folder that tf.saved_model.save or model.export wrote; it holds saved_model.pb."
    if not path.exists():
        raise SourceModelError("The source model does not exist.", where=str(path), next_step=step)
    pointed = path / "saved_model.pb"
    if not pointed.is_file():
        raise SourceModelError("This is no SavedModel folder.", where=str(path), next_step=step)
    if pointed.stat().st_size == 0:
        raise SourceModelError("The file is empty.", where=str(pointed), next_step=step)
    _refuse_pointer(pointed)


def _check_archive(path: Path, form: SourceFormat) -> None:
    _must_be_file(path, "source model")
    _refuse_pointer(path)
    start = _start(path, 8)
    if start == _HDF5:
        what = "The file is HDF5, the old form of Keras models."
        step = "Save the model with model.save('model.keras') and name it with format = 'keras'."
        raise SourceModelError(what, where=str(path), next_step=step)
    names = _members(path) if start.startswith(_ZIP) else []
    if not any(_is_member(form, name) for name in names):
        what = "The file is empty." if not start else f"The file is no {_CALLED[form]}."
        other = next((one for one in _MEMBERS if any(_is_member(one, name) for name in names)), None)
        step = _SAVE_AS[form] if other is None else f"It is one of format = {other.value!r}."
        raise SourceModelError(what, where=str(path), next_step=step)


def _is_member(form: SourceFormat, name: str) -> bool:
    wanted = _MEMBERS[form]
    return name == wanted or (form is SourceFormat.EXPORTED_PROGRAM and wanted in name)


def _members(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, OSError) as error:
        what = f"The file is a damaged archive: {error}."
        step = "Check that the copy is complete, or save the model again."
        raise SourceModelError(what, where=str(path), next_step=step) from None


def _refuse_pointer(path: Path) -> None:
    if path.is_file() and _start(path, len(_LFS)) == _LFS:
        what = "The file is a Git LFS pointer, not the model itself."
        raise SourceModelError(what, where=str(path), next_step="Run `git lfs pull`.")


def _must_be_file(path: Path, what: str) -> None:
    if path.is_dir():
        raise SourceModelError(f"The {what} is a folder.", where=str(path), next_step="Name the file.")
    if not path.is_file():
        raise SourceModelError(f"The {what} does not exist.", where=str(path), next_step="Correct its path.")


def _start(path: Path, count: int) -> bytes:
    with path.open("rb") as file:
        return file.read(count)
