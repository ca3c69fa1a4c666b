"""Shards of samples on disk, and what a harness reads of them by job.json alone."""

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from phoneproof.data.preprocessing import Layout
from phoneproof.data.values import as_input
from phoneproof.errors import DataError, StorageError, said
from phoneproof.protocol.job import RawInput, Shard, TableInput
from phoneproof.protocol.tensors import TensorSpec

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


class JobInputReader:
    """The samples of one input as job.json describes it, for a harness that knows nothing else.

    folder: where the file names of the job begin. The names are inner paths; `read_job` has checked them.
    """

    def __init__(self, job_input: RawInput | TableInput, folder: Path) -> None:
        self._input = job_input
        self._tensor = TensorSpec(job_input.name, job_input.dtype, job_input.shape)
        paths = [folder / shard.file.name for shard in job_input.shards]
        self._table: Array | None = None
        self._layout: Layout | None = None
        if isinstance(job_input, TableInput):
            channels = job_input.pixels_shape[2]
            self._table = read_table(folder / job_input.table.name, job_input.dtype, channels)
            self._layout = Layout(job_input.layout)
            self._shards = ShardReader(paths, job_input.shards, "uint8", job_input.pixels_shape)
        else:
            self._shards = ShardReader(paths, job_input.shards, job_input.dtype, self._tensor.sample_shape)

    def read(self, first: int, count: int = 1) -> Array:
        """[count, *sample shape] of the input's dtype. DataError and StorageError as ShardReader."""
        return as_input(self._shards.rows(first, count), self._tensor, self._table, self._layout)


def table_bytes(table: Array) -> bytes:
    """The file of a table [channels, 256]: its elements in C order, little-endian."""
    return np.ascontiguousarray(table, table.dtype.newbyteorder("<")).tobytes()


def read_table(path: Path, dtype: str, channels: int) -> Array:
    """[channels, 256] out of a file of `table_bytes`. StorageError for a missing file or another size."""
    try:
        table = np.fromfile(path, np.dtype(dtype).newbyteorder("<"))
    except OSError as error:
        raise StorageError(f"The table cannot be read: {error.strerror}.", where=str(path)) from error
    if table.size != channels * 256 or path.stat().st_size != table.nbytes:
        raise StorageError(f"It is no table of {channels} channels by 256 elements.", where=str(path))
    return table.reshape(channels, 256).astype(dtype)


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
