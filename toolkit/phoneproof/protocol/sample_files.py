"""Samples of a job, read from its files and given in the build's input dtype and layout."""

import mmap
from bisect import bisect_right
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phoneproof.errors import ProtocolError
from phoneproof.protocol.job import FileRef, RawInput, SampleSet, TableInput, stored_path


def file_path(files: Path, ref: FileRef) -> Path:
    """Where a job's file lies below its folder of files."""
    return files / stored_path(ref)


class SampleReader:
    """Random access to the samples of one set. Only the pages that are read come into memory."""

    def __init__(self, sample_set: SampleSet, files: Path) -> None:
        self._inputs = tuple(_InputReader(one, files) for one in sample_set.inputs)

    def read(self, index: int) -> dict[str, NDArray[Any]]:
        """Inputs of sample `index` by name, batch of one, in the build's dtype and layout."""
        return {one.name: one.read(index) for one in self._inputs}


class _InputReader:
    def __init__(self, one_input: RawInput | TableInput, files: Path) -> None:
        self.name = one_input.name
        self._input = one_input
        self._dtype = np.dtype(one_input.dtype).newbyteorder("<")
        stored = np.dtype(np.uint8) if isinstance(one_input, TableInput) else self._dtype
        shape = one_input.pixels_shape if isinstance(one_input, TableInput) else one_input.shape
        self._ends = list(accumulate(shard.count for shard in one_input.shards))
        self._shards = [
            _map_array(file_path(files, shard.file), stored, (shard.count, *shape))
            for shard in one_input.shards
        ]
        if isinstance(one_input, TableInput):
            channels = one_input.pixels_shape[2]
            table = np.fromfile(file_path(files, one_input.table), self._dtype)
            self._table = table.reshape(channels, 256)

    def read(self, index: int) -> NDArray[Any]:
        shard = bisect_right(self._ends, index)
        before = self._ends[shard - 1] if shard else 0
        stored = self._shards[shard][index - before]
        if isinstance(self._input, RawInput):
            # A copy: a runtime that writes into its input must not crash on the mapped file.
            return np.array(stored, order="C")
        return look_up(stored, self._table, self._input.layout).reshape(self._input.shape)


def look_up(pixels: NDArray[np.uint8], table: NDArray[Any], layout: str) -> NDArray[Any]:
    """Pixels (height, width, channels) through their channel's table, in the layout without batch."""
    channels = np.arange(table.shape[0])
    if layout == "nhwc":
        return np.ascontiguousarray(table[channels, pixels])
    return np.ascontiguousarray(table[channels[:, None, None], pixels.transpose(2, 0, 1)])


def _map_array(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    array = np.frombuffer(data, dtype)
    if array.size != int(np.prod(shape)):
        raise ProtocolError(f"The shard has {array.size} elements, not {shape}.", where=path.name)
    return array.reshape(shape)
