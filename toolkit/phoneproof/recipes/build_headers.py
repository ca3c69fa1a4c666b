"""Of which format a build made elsewhere is: by its name and its first bytes, no vendor's package loaded.

A build is judged in the format that it really has: a file whose content is another format than its name says
is refused, and so is one that is plainly truncated.
"""

import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

from phoneproof.errors import BuildFileError, SourceModelError
from phoneproof.recipes.mlpackage_folder import specification_file
from phoneproof.recipes.onnx_header import read_header
from phoneproof.recipes.table import Format

SUFFIXES: Final[Mapping[str, Format]] = {
    ".tflite": Format.TFLITE,
    ".mlpackage": Format.COREML,
    ".pte": Format.EXECUTORCH,
    ".onnx": Format.ONNX,
}
"""How the name of a build of each format ends."""

_KNOWN: Final = ", ".join(SUFFIXES)
_COPY_AGAIN: Final = "Copy or convert it again, and check that the copy is complete."

_OTHER_NAMES: Final[Mapping[str, str]] = {
    ".mlmodel": "It is Core ML's older form; convert it with convert_to='mlprogram', to a .mlpackage.",
    ".mlmodelc": "It is compiled for one system; name the .mlpackage that it was compiled from.",
    ".ort": "Name the .onnx file that it was made from.",
    ".lite": "Rename it to .tflite if it is one.",
    ".ptl": "PyTorch Mobile has ended; export the model to ExecuTorch (.pte).",
    ".pt": "A PyTorch file is a source model; name it under [[models]].",
    ".pt2": "An exported program is a source model; name it under [[models]].",
    ".keras": "A Keras file is a source model; name it under [[models]].",
}
_OTHER_STARTS: Final = (
    (b"version https://git-lfs", "a Git LFS pointer, not the build itself", "Run `git lfs pull`."),
    (b"PK\x03\x04", "a zip archive", "Unpack it and name the build inside."),
    (b"\x1f\x8b", "a gzip archive", "Unpack it and name the build inside."),
)
_TFLITE_MAGIC: Final = b"TFL3"
_PTE_MAGIC: Final = b"ET12"
_PTE_EXTENDED: Final = b"eh00"


def format_of_build(path: Path) -> Format:
    """The format that the name says. BuildFileError for any other name; the file is not looked at."""
    suffix = path.suffix.lower()
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    advice = _OTHER_NAMES.get(suffix, f"Formats of builds: {_KNOWN}.")
    ending = f"that ends in {suffix[:20]!r}" if suffix else "without an ending"
    raise BuildFileError(f"A name {ending} is no build's.", where=str(path), next_step=advice)


def read_build_header(path: Path) -> Format:
    """The format of the build at `path`, name and content agreeing.

    BuildFileError if it does not exist, cannot be read, is of no known format or of another than its name
    says, or is plainly truncated.
    """
    named = format_of_build(path)
    if not path.exists():
        raise BuildFileError(
            "The build does not exist.", where=str(path), next_step="Correct the path of the build."
        )
    if path.is_dir() != (named is Format.COREML):
        kind = "a folder" if path.is_dir() else "a file"
        expected = "A .mlpackage is a folder." if named is Format.COREML else f"A {path.suffix} is a file."
        raise BuildFileError(f"The build is {kind}.", where=str(path), next_step=expected)
    try:
        if named is Format.COREML:
            specification_file(path, BuildFileError)
        else:
            _check_file(path, named)
    except OSError as error:
        raise BuildFileError(
            f"The build cannot be read: {os.strerror(error.errno or 0)}.",
            where=str(path),
            next_step="Check the permissions of the file.",
        ) from error
    return named


def _check_file(path: Path, named: Format) -> None:
    with path.open("rb") as file:
        start = file.read(64)
    size = path.stat().st_size
    if not start:
        _refuse(path, "empty", _COPY_AGAIN)
    for magic, what, next_step in _OTHER_STARTS:
        if start.startswith(magic):
            _refuse(path, what, next_step)
    found = {_TFLITE_MAGIC: Format.TFLITE, _PTE_MAGIC: Format.EXECUTORCH}.get(start[4:8])
    if found is None and named is Format.ONNX:
        _check_onnx(path)
        return
    if found is not named:
        _refuse(path, "not what its name says", _advice(found, start, named))
    if struct.unpack_from("<I", start)[0] >= size:
        _refuse(path, "truncated", _COPY_AGAIN)
    if named is Format.EXECUTORCH:
        _check_extent(path, start, size)


def _check_onnx(path: Path) -> None:
    try:
        read_header(path)
    except SourceModelError as error:  # the same file would be a source model elsewhere; here it is a build
        raise BuildFileError(
            error.what, where=error.where, next_step=error.next_step or _COPY_AGAIN
        ) from error


def _advice(found: Format | None, start: bytes, named: Format) -> str:
    if found is not None:
        suffix = next(suffix for suffix, one in SUFFIXES.items() if one is found)
        return f"The content is {found.value}; rename it to {suffix}."
    if named is Format.EXECUTORCH and start[4:6] == b"ET":
        return "It is an ExecuTorch program of another version; export it again with ExecuTorch 1.0 or newer."
    return _COPY_AGAIN


def _check_extent(path: Path, start: bytes, size: int) -> None:
    """A .pte with an extended header says where its segments begin and how long they are.

    Layout (executorch/exir/_serialize/_program.py): magic `eh00` at byte 8, length of the header (uint32),
    size of the program, offset of the segments (0 for none), their size (uint64 each), all little-endian.
    Before ExecuTorch 0.7 the header was shorter and had no size of the segments.
    """
    if start[8:12] != _PTE_EXTENDED or len(start) < 40:
        return
    (header,) = struct.unpack_from("<I", start, 12)
    program, segments, length = struct.unpack_from("<QQQ", start, 16)
    if max(program, segments + length if header >= 32 else segments) > size:
        _refuse(path, "truncated", _COPY_AGAIN)


def _refuse(path: Path, what: str, next_step: str) -> NoReturn:
    raise BuildFileError(f"The build is {what}.", where=str(path), next_step=next_step)
