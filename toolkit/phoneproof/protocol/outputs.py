"""outputs/<case_id>.bin: what an infer case kept. The format stands byte by byte in protocol/PROTOCOL.md.

One record for each sample that has an output, in ascending order. A record is written whole before the next
sample begins, so a killed writer leaves whole records and at most one torn one.
"""

import hashlib
import os
import struct
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

import numpy as np
from numpy.typing import NDArray

from phoneproof.errors import ProtocolError, StorageError
from phoneproof.protocol.events import OUTPUTS_FOLDER
from phoneproof.protocol.job import FileRef
from phoneproof.protocol.keep import apply_keep

Tensors = tuple[NDArray[Any], ...]

MAGIC: Final = b"PPOUT\0"
VERSION: Final = 1
MAX_BODY_BYTES: Final = 2**30
"""Most bytes of a record's body: a reader on a phone holds one record in one array."""

DTYPE_CODES: Final[dict[str, int]] = {
    "bool": 1,
    "int8": 2,
    "uint8": 3,
    "int16": 4,
    "uint16": 5,
    "int32": 6,
    "uint32": 7,
    "int64": 8,
    "uint64": 9,
    "float16": 10,
    "float32": 11,
    "float64": 12,
}

_DTYPES: Final = {code: np.dtype(name).newbyteorder("<") for name, code in DTYPE_CODES.items()}
_HEADER: Final = MAGIC + struct.pack("<H", VERSION)
_LENGTH: Final = struct.Struct("<Q")
_RECORD: Final = struct.Struct("<QI")
_TENSOR: Final = struct.Struct("<BBH")
_CHECKSUM: Final = struct.Struct("<I")
_MAX_RANK: Final = 32
_MAX_DIMENSION: Final = 2**31 - 1
_CHUNK: Final = 2**20


@dataclass(frozen=True)
class _Record:
    """Where a whole record lies in its file, and its parts."""

    begin: int
    end: int
    sample: int
    body: bytes


class OutputWriter:
    """Appends records to a case's file, resuming it: a torn tail and samples from `next_sample` on are cut.

    path: its folder exists. next_sample: the first sample that will be appended, if it has an output.
    ProtocolError for a file that is none of this format; StorageError when the disk refuses. Records are
    given to the operating system by `append`, and synced by `close`.
    """

    def __init__(self, path: Path, next_sample: int) -> None:
        self._path = path
        self._least_sample = next_sample
        self._digest = hashlib.sha256()
        self._size = 0
        self._ref: FileRef | None = None
        with _storage_errors(path):
            self._file = path.open("r+b" if path.exists() else "w+b", buffering=0)
        try:
            self._resume()
        except BaseException:
            self._file.close()
            raise

    def _resume(self) -> None:
        with _storage_errors(self._path):
            if _has_header(self._file, self._path.name):
                self._add(_HEADER)
                for record in _records(self._file, self._path.name, torn_tail=True):
                    if record.sample >= self._least_sample:
                        break
                    self._add(_LENGTH.pack(len(record.body)), record.body)
                    self._add(_CHECKSUM.pack(_checksum(record.body)))
            self._file.truncate(self._size)
            self._file.seek(self._size)
            if self._size == 0:
                self._write([_HEADER])
                _sync_folder(self._path.parent)
            os.fsync(self._file.fileno())

    def append(self, sample: int, tensors: Sequence[NDArray[Any]]) -> None:
        """Write the record of one sample; afterwards the process may be killed without losing it.

        tensors: of the dtypes in DTYPE_CODES. ProtocolError for another dtype, a record above
        MAX_BODY_BYTES or a sample out of order; StorageError when the disk refuses: the file is then as it
        was before.
        """
        if self._file.closed:
            raise ProtocolError("The file is closed.", where=self._path.name)
        if not self._least_sample <= sample < 2**63:
            raise ProtocolError(f"Sample {sample} is out of order.", where=self._path.name)
        parts = _encoded(sample, tensors, self._path.name)
        with _storage_errors(self._path):
            self._write(parts)
        self._least_sample = sample + 1

    def _write(self, parts: list[bytes]) -> None:
        try:
            for part in parts:
                _write_all(self._file, part)
        except BaseException:
            with suppress(OSError):
                self._file.truncate(self._size)
                self._file.seek(self._size)
            raise
        self._add(*parts)

    def _add(self, *parts: bytes) -> None:
        for part in parts:
            self._digest.update(part)
            self._size += len(part)

    def close(self) -> FileRef:
        """Sync and close the file; its name is relative to the job's folder. Safe twice."""
        if self._ref is None:
            with _storage_errors(self._path), self._file:
                os.fsync(self._file.fileno())
            name = f"{OUTPUTS_FOLDER}/{self._path.name}"
            self._ref = FileRef(name, self._digest.hexdigest(), self._size)
        return self._ref

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def read_outputs(path: Path, *, torn_tail: bool = False) -> Iterator[tuple[int, Tensors]]:
    """Sample and tensors of each record, one record in memory at a time. Arrays are read-only.

    torn_tail: whether the file may end in a torn record, as that of a case without case_finished may; it is
    left out. ProtocolError for bytes that are no such file; StorageError if it cannot be read.
    """
    with _storage_errors(path), path.open("rb") as file:
        for record in _records(file, path.name, torn_tail):
            yield record.sample, _tensors(record, path.name)


def missing_samples(path: Path, first: int, next_sample: int, bad: Collection[int]) -> tuple[int, ...]:
    """Samples from `first` up to but without `next_sample` that have no record and are not in `bad`.

    All of them if the file does not exist. Some are missing after the machine, not only the process, went
    down: records are synced at the end of a case. The runner goes on at the least of them.
    """
    found: set[int] = set()
    if path.exists():
        with _storage_errors(path), path.open("rb") as file:
            found = {record.sample for record in _records(file, path.name, torn_tail=True)}
    return tuple(s for s in range(first, next_sample) if s not in found and s not in bad)


def _encoded(sample: int, tensors: Sequence[NDArray[Any]], place: str) -> list[bytes]:
    parts = [_RECORD.pack(sample, len(tensors))]
    for tensor in tensors:
        code = DTYPE_CODES.get(tensor.dtype.name)
        if code is None or tensor.ndim > _MAX_RANK or max(tensor.shape, default=0) > _MAX_DIMENSION:
            raise ProtocolError(f"A tensor {tensor.dtype} {tensor.shape} cannot be stored.", where=place)
        parts.append(_TENSOR.pack(code, tensor.ndim, 0))
        parts.append(struct.pack(f"<{tensor.ndim}QQ", *tensor.shape, tensor.nbytes))
        parts.append(np.ascontiguousarray(tensor, _DTYPES[code]).tobytes())
    body_bytes = sum(map(len, parts))
    if body_bytes > MAX_BODY_BYTES:
        raise ProtocolError(f"An output of {body_bytes} bytes is above {MAX_BODY_BYTES}.", where=place)
    parts.insert(0, _LENGTH.pack(body_bytes))
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return [*parts, _CHECKSUM.pack(checksum)]


def _checksum(body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(_LENGTH.pack(len(body))))


def _records(file: BinaryIO | Any, place: str, torn_tail: bool) -> Iterator[_Record]:
    """Whole records of a file read from its beginning, samples ascending. ProtocolError for anything else."""
    size = os.fstat(file.fileno()).st_size
    if not _has_header(file, place):
        if torn_tail:
            return
        raise ProtocolError("The header is torn.", where=place)
    begin, last = len(_HEADER), -1
    while begin < size:
        record = _record_at(file, begin, size, place)
        if record is None:
            if not torn_tail:
                raise ProtocolError(f"The record at byte {begin} is torn.", where=place)
            return
        if record.sample <= last:
            raise ProtocolError(f"The record at byte {begin} is out of order.", where=place)
        yield record
        begin, last = record.end, record.sample


def _has_header(file: BinaryIO | Any, place: str) -> bool:
    """Whether the header is whole, else it is torn. The file then stands behind it.

    ProtocolError for a file of another format or version.
    """
    file.seek(0)
    header = _read(file, len(_HEADER))
    if header == _HEADER:
        return True
    if not _HEADER.startswith(header.rstrip(b"\0")) or not _only_zeros(file):
        raise ProtocolError("Not an output file of this version.", where=place)
    return False


def _record_at(file: BinaryIO | Any, begin: int, size: int, place: str) -> _Record | None:
    """The record that begins at `begin`; None if it is torn: cut short, or wrong and the last in the file.

    After a loss of power some file systems leave zeros where bytes were not yet written: a wrong record that
    only zeros follow is the last.
    """
    prefix = _read(file, _LENGTH.size)
    if len(prefix) < _LENGTH.size:
        return None
    (body_bytes,) = _LENGTH.unpack(prefix)
    end = begin + _LENGTH.size + body_bytes + _CHECKSUM.size
    if end > size:
        return None
    if not _RECORD.size <= body_bytes <= MAX_BODY_BYTES:
        if body_bytes < _RECORD.size and _only_zeros(file):
            return None
        raise ProtocolError(f"The record at byte {begin} has an impossible length.", where=place)
    body = _read(file, body_bytes)
    checksum = _read(file, _CHECKSUM.size)
    if len(checksum) < _CHECKSUM.size:
        return None
    if _CHECKSUM.unpack(checksum)[0] != _checksum(body):
        if _only_zeros(file):
            return None
        raise ProtocolError(f"The record at byte {begin} is damaged.", where=place)
    sample = _RECORD.unpack_from(body)[0]
    if sample >= 2**63:
        raise ProtocolError(f"The record at byte {begin} has no such sample.", where=place)
    return _Record(begin, end, sample, body)


def _only_zeros(file: BinaryIO | Any) -> bool:
    while chunk := file.read(_CHUNK):
        if chunk.count(0) != len(chunk):
            return False
    return True


def _tensors(record: _Record, place: str) -> Tensors:
    where = f"{place}: sample {record.sample}"
    count = _RECORD.unpack_from(record.body)[1]
    tensors: list[NDArray[Any]] = []
    offset = _RECORD.size
    try:
        for _ in range(count):
            tensor, offset = _tensor_at(record.body, offset)
            tensors.append(tensor)
    except (struct.error, ValueError) as error:
        raise ProtocolError(f"A tensor of the record is damaged: {error}.", where=where) from None
    if offset != len(record.body):
        raise ProtocolError("The record is longer than its tensors.", where=where)
    return tuple(tensors)


def _tensor_at(body: bytes, offset: int) -> tuple[NDArray[Any], int]:
    """The tensor at `offset` and where it ends. ValueError or struct.error if there is none."""
    code, rank, reserved = _TENSOR.unpack_from(body, offset)
    if code not in _DTYPES or rank > _MAX_RANK or reserved != 0:
        raise ValueError("unknown dtype code, rank or reserved bytes")
    offset += _TENSOR.size
    *shape, byte_length = struct.unpack_from(f"<{rank}QQ", body, offset)
    offset += 8 * (rank + 1)
    dtype = _DTYPES[code]
    elements = 1
    for length in shape:
        if length > _MAX_DIMENSION:
            raise ValueError("a dimension is too long")
        elements *= length
    if byte_length != elements * dtype.itemsize or byte_length > len(body) - offset:
        raise ValueError("the byte length is not that of the shape, or beyond the record")
    flat = np.frombuffer(body, dtype, elements, offset)
    if dtype == np.bool_ and flat.view(np.uint8).max(initial=0) > 1:
        raise ValueError("a bool is neither 0 nor 1")
    return flat.reshape(shape), offset + byte_length


def _read(file: BinaryIO | Any, count: int) -> bytes:
    """`count` bytes, or what there is up to the end; an unbuffered file may give less at once."""
    data: bytes = file.read(count) or b""
    while len(data) < count and (more := file.read(count - len(data))):
        data += more
    return data


def _write_all(file: BinaryIO | Any, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _storage_errors:  # noqa: N801 - reads as a word after `with`
    """Turns an OSError into a StorageError that names the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise StorageError(
                f"The output file cannot be read or written: {error.strerror or error}.",
                where=str(self._path),
                next_step="Look at the free space and the permissions of this folder.",
            ) from error


__all__ = [
    "DTYPE_CODES",
    "MAGIC",
    "MAX_BODY_BYTES",
    "VERSION",
    "OutputWriter",
    "apply_keep",
    "missing_samples",
    "read_outputs",
]
