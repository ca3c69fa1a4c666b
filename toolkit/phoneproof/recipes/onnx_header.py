"""Is this file an ONNX model at all, and is it complete? Answered without loading onnx.

Only the outer message is walked: protobuf fields are (tag, length, bytes), so a few seeks tell a truncated
copy, a Git LFS pointer, a zip of a PyTorch checkpoint or a text file from a model, whatever its size.
Sources: the protobuf encoding guide (wire types, varints) and onnx.proto (field numbers of ModelProto).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, NoReturn

from phoneproof.errors import SourceModelError

_VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH_DELIMITED: Final = 2
_FIXED32: Final = 5

_IR_VERSION: Final = 1
_PRODUCER_NAME: Final = 2
_GRAPH: Final = 7
_LAST_FIELD: Final = 30
"""ModelProto's highest field number is 26; a little room is left for later versions of ONNX."""

_OTHER_FILES: Final = (
    (b"version https://git-lfs", "a Git LFS pointer, not the model itself", "Run `git lfs pull`."),
    (b"PK\x03\x04", "a zip archive, such as a PyTorch checkpoint", "Export the model to ONNX."),
    (b"\x89HDF", "an HDF5 file, such as a Keras model", "Export the model to ONNX."),
    (b"\x80\x02", "a pickle, such as a PyTorch checkpoint", "Export the model to ONNX."),
)


@dataclass(frozen=True)
class OnnxHeader:
    """What the outer message says."""

    ir_version: int
    producer: str
    size_bytes: int


def read_header(path: Path) -> OnnxHeader:
    """The header of the ONNX file at `path`.

    Raises SourceModelError if the file is missing, unreadable, truncated, or not an ONNX model.
    """
    if not path.is_file():
        what = "is a folder, not an ONNX file" if path.is_dir() else "does not exist"
        raise SourceModelError(
            f"The source model {what}.", where=str(path), next_step="Correct the path of the model."
        )
    try:
        with path.open("rb") as file:
            return _read(file, path, path.stat().st_size)
    except OSError as error:
        raise SourceModelError(
            f"The source model cannot be read: {error.strerror}.",
            where=str(path),
            next_step="Check the permissions of the file.",
        ) from error


def _refuse(path: Path, what: str, next_step: str = "Export the model again.") -> NoReturn:
    raise SourceModelError(f"The file is {what}.", where=str(path), next_step=next_step)


def _read(file: BinaryIO, path: Path, size: int) -> OnnxHeader:
    if size == 0:
        _refuse(path, "empty")
    start = file.read(32)
    for magic, what, next_step in _OTHER_FILES:
        if start.startswith(magic):
            _refuse(path, what, next_step)
    file.seek(0)
    ir_version: int | None = None
    producer = ""
    has_graph = False
    while file.tell() < size:
        tag = _varint(file, path)
        number, wire_type = tag >> 3, tag & 7
        if not 1 <= number <= _LAST_FIELD:
            _refuse(path, "not an ONNX model")
        if wire_type == _VARINT:
            value = _varint(file, path)
            ir_version = value if number == _IR_VERSION else ir_version
            continue
        length = _payload_length(file, path, wire_type)
        if file.tell() + length > size:
            _refuse(path, "truncated", "Copy or export the model again; the end of the file is missing.")
        if number == _PRODUCER_NAME and length <= size and length < 4096:
            producer = file.read(length).decode("utf-8", errors="replace")
            continue
        has_graph = has_graph or number == _GRAPH
        file.seek(length, 1)
    if ir_version is None or not has_graph:
        _refuse(path, "not an ONNX model, or is truncated")
    return OnnxHeader(ir_version=ir_version, producer=producer, size_bytes=size)


def _payload_length(file: BinaryIO, path: Path, wire_type: int) -> int:
    if wire_type == _LENGTH_DELIMITED:
        return _varint(file, path)
    if wire_type == _FIXED64:
        return 8
    if wire_type == _FIXED32:
        return 4
    _refuse(path, "not an ONNX model")


def _varint(file: BinaryIO, path: Path) -> int:
    """An unsigned base-128 number of at most ten bytes, least significant group first."""
    value = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            _refuse(path, "truncated", "Copy or export the model again; the end of the file is missing.")
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    _refuse(path, "not an ONNX model")
