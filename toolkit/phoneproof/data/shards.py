"""Shards of samples on disk."""

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from phoneproof.errors import DataError, StorageError, said
from phoneproof.protocol.job import Shard

Array = npt.NDArray[Any]


class ShardReader:
    """Samples of one input by position, memory-mapped; a shard is mapped when it is first read.

    paths[k] holds the samples of shards[k], one after the other, little-endian; shape is one sample's.
    """

    def __init__(
        self, paths: Sequence[Path], shards: Sequence[Shard], dtype: str, shape: tuple[int, ...]
    ) -> None:
        self._paths = paths
        self._shards = shards
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._shape = shape
        self._ends = list(accumulate(shard.count for shard in shards))
        self._mapped: dict[int, Array] = {}

    def rows(self, first: int, count: int) -> Array:
        """Samples first … first + count - 1: [count, *shape], read-only where they lie in one shard.

        Raises DataError for a range outside the samples, StorageError for a damaged file.
        """
        total = self._ends[-1] if self._ends else 0
        if first < 0 or count < 1 or first + count > total:
            raise DataError(f"{count} samples from {first} on are not among the {total} stored.")
        parts = []
        position = first
        while position < first + count:
            k = bisect_right(self._ends, position)
            begin = self._ends[k] - self._shards[k].count
            stop = min(self._ends[k], first + count)
            parts.append(self._shard(k)[position - begin : stop - begin])
            position = stop
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _shard(self, k: int) -> Array:
        if k not in self._mapped:
            try:
                flat = np.memmap(self._paths[k], self._dtype, mode="r")
                self._mapped[k] = flat.reshape((self._shards[k].count, *self._shape))
            except (OSError, ValueError) as error:
                raise StorageError(
                    f"Stored samples are damaged: {said(error)}.", where=str(self._paths[k])
                ) from error
        return self._mapped[k]


def table_bytes(table: Array) -> bytes:
    """The file of a table [channels, 256]: its elements in C order, little-endian."""
    return np.ascontiguousarray(table, table.dtype.newbyteorder("<")).tobytes()


def check_shard(path: Path, shard: Shard, sample_bytes: int, verify: bool) -> None:
    """StorageError for a shard that is missing, has another size, or with `verify` another sha256."""
    step = "Delete the folder; it is made again."
    try:
        size = path.stat().st_size
        if size != shard.file.size_bytes or size != shard.count * sample_bytes:
            raise StorageError("The file has another size than was written.", where=str(path), next_step=step)
        if verify:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if digest != shard.file.sha256:
                raise StorageError("The file's checksum is wrong.", where=str(path), next_step=step)
    except OSError as error:
        what = f"Stored samples are missing: {error.strerror}."
        raise StorageError(what, where=str(path), next_step=step) from error
