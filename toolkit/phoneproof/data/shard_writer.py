"""Files of the sample store as they are written: shards, locks, and what a full disk means."""

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy.typing as npt

from phoneproof.errors import BusyError, StorageError
from phoneproof.protocol.job import FileRef, Shard

Array = npt.NDArray[Any]

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class ShardWriter:
    """Writes one input's samples to shards of a fixed number of samples."""

    def __init__(self, folder: Path, prefix: str, first: Array, shard_bytes: int) -> None:
        self.shape = first.shape
        self.dtype = first.dtype.newbyteorder("=").name
        self._folder = folder
        self._prefix = prefix
        self._per_shard = max(1, shard_bytes // first.nbytes)
        self._shards: list[Shard] = []
        self._count = 0
        self._hashed = hashlib.sha256()
        self._file: Any = None

    def write(self, sample: Array) -> None:
        """Append one sample. OSError when the disk is full."""
        if self._file is None:
            self._file = (self._folder / self._name()).open("wb")
        data = sample.tobytes()
        self._file.write(data)
        self._hashed.update(data)
        self._count += 1
        if self._count == self._per_shard:
            self._end_shard()

    def close(self) -> tuple[Shard, ...]:
        """Finish the last shard; all that were written."""
        if self._file is not None:
            self._end_shard()
        return tuple(self._shards)

    def abandon(self) -> None:
        """Close without flushing errors hiding the one that led here."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()

    def _name(self) -> str:
        return f"{self._prefix}.{len(self._shards)}.bin"

    def _end_shard(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        size = self._file.tell()
        self._file.close()
        self._file = None
        self._shards.append(Shard(FileRef(self._name(), self._hashed.hexdigest(), size), self._count))
        self._hashed = hashlib.sha256()
        self._count = 0


@contextlib.contextmanager
def storage_errors(folder: Path) -> Iterator[None]:
    """OSError becomes StorageError, with what the user can do."""
    try:
        yield
    except OSError as error:
        full = error.errno in _FULL
        raise StorageError(
            "The disk is full." if full else f"The samples cannot be written: {error.strerror}.",
            where=str(folder.parent),
            next_step="Free some space."
            if full
            else "Choose a folder that can be written (PHONEPROOF_STORE).",
            errno=error.errno,
        ) from error


@contextlib.contextmanager
def store_lock(folder: Path, timeout_s: float) -> Iterator[None]:
    """Hold the lock of one set. BusyError when another process keeps it longer than `timeout_s`."""
    import filelock  # only who writes needs it: readers in vendors' environments do without

    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(folder.with_suffix(".lock"), timeout=timeout_s):
            yield
    except filelock.Timeout:
        raise BusyError(
            "Another process is writing the same samples.",
            where=str(folder),
            next_step="Wait for it to end, then start again.",
        ) from None


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last: a rename is not on the disk before its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
