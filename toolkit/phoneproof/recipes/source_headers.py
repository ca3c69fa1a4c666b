"""Whether a file can be a source model of its declared form: by its first bytes, no vendor's package loaded."""

import struct
import zipfile
from pathlib import Path
from typing import Final

from phoneproof.errors import SourceModelError
from phoneproof.recipes.onnx_header import read_header
from phoneproof.recipes.table import SourceFormat

_ZIP: Final = b"PK\x03\x04"
_HDF5: Final = b"\x89HDF\r\n\x1a\n"
_MEMBERS: Final = {SourceFormat.KERAS: "config.json", SourceFormat.EXPORTED_PROGRAM: "models/"}
"""What the archive of a format has somewhere in the names of its members."""
_SAVE_AS: Final = {
    SourceFormat.KERAS: "Save the model with model.save('model.keras').",
    SourceFormat.EXPORTED_PROGRAM: "Save the program with torch.export.save(program, 'model.pt2').",
}


def check_source(path: Path, form: SourceFormat) -> None:
    """SourceModelError where the file or folder cannot be a source of this form. Not for Python functions."""
    match form:
        case SourceFormat.ONNX:
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
    start = _start(path, 9)
    step = "Save it with safetensors.torch.save_file or torch.save(module.state_dict(), ...)."
    if path.suffix == ".safetensors":
        if len(start) < 9 or struct.unpack("<Q", start[:8])[0] > path.stat().st_size or start[8:] != b"{":
            raise SourceModelError("The file is not safetensors.", where=str(path), next_step=step)
    elif not start.startswith(_ZIP):
        raise SourceModelError("The file is no archive of torch.save.", where=str(path), next_step=step)


def _check_savedmodel(path: Path) -> None:
    step = "Name the folder that tf.saved_model.save or model.export wrote; it holds saved_model.pb."
    if not path.exists():
        raise SourceModelError("The source model does not exist.", where=str(path), next_step=step)
    if not (path / "saved_model.pb").is_file():
        raise SourceModelError("This is no SavedModel folder.", where=str(path), next_step=step)


def _check_archive(path: Path, form: SourceFormat) -> None:
    _must_be_file(path, "source model")
    start = _start(path, 8)
    if start == _HDF5:
        what = "The file is HDF5, the old form of Keras models."
        raise SourceModelError(what, where=str(path), next_step=_SAVE_AS[SourceFormat.KERAS])
    names: list[str] = []
    if start.startswith(_ZIP):
        try:
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
        except (zipfile.BadZipFile, OSError) as error:
            what = f"The file is a damaged archive: {error}."
            step = "Check that the copy is complete, or save the model again."
            raise SourceModelError(what, where=str(path), next_step=step) from None
    if not any(_MEMBERS[form] in name for name in names):
        what = "The file is empty." if not start else f"The file is no {form.value.replace('_', ' ')}."
        raise SourceModelError(what, where=str(path), next_step=_SAVE_AS[form])


def _must_be_file(path: Path, what: str) -> None:
    if path.is_dir():
        raise SourceModelError(f"The {what} is a folder.", where=str(path), next_step="Name the file.")
    if not path.is_file():
        raise SourceModelError(f"The {what} does not exist.", where=str(path), next_step="Correct its path.")


def _start(path: Path, count: int) -> bytes:
    with path.open("rb") as file:
        return file.read(count)
