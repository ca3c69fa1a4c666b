"""The sample store: sets materialised once on disk, read by calibration, harnesses and phones.

    <root>/samples/<digest>/samples.json        what is stored (StoredSet)
    <root>/samples/<digest>/<k>.<shard>.bin     samples of input k, one after the other, without header

An input has one of two encodings. `raw`: elements of the build's input dtype and layout, little-endian.
`u8+table`: uint8 pixels [height, width, channels], stored once for builds of every layout and dtype; a table
[channels, 256] per build, made by `values.value_table`, says what each level becomes, and who feeds the
runtime lays the axes out. Shards are plain memory: sample i of a shard begins at byte i * sample_bytes.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy.typing as npt

from phoneproof.data.preprocessing import Layout, Preprocess
from phoneproof.data.samples import Label
from phoneproof.data.shards import ShardReader, check_shard
from phoneproof.data.values import as_input, value_table
from phoneproof.errors import DataError, ProtocolError, StorageError, said
from phoneproof.protocol import codec
from phoneproof.protocol.job import FileRef, RawInput, Shard, TableInput, is_inner_path
from phoneproof.protocol.tensors import DTYPE_SIZES, TensorSpec

Array = npt.NDArray[Any]

SAMPLES_FILE: Final = "samples.json"
STORE_VERSION: Final = 1
RAW: Final = "raw"
PIXELS: Final = "u8+table"


@dataclass(frozen=True)
class StoredInput:
    """One input of the stored samples. shape: of one sample, without batch: [H, W, C] for pixels."""

    name: str
    encoding: Literal["raw", "u8+table"]
    dtype: str
    shape: tuple[int, ...]
    shards: tuple[Shard, ...]

    @property
    def sample_bytes(self) -> int:
        """Size of one sample in bytes."""
        return math.prod(self.shape) * DTYPE_SIZES[self.dtype]


@dataclass(frozen=True)
class SkippedSample:
    """A sample that could not be read, left out. id and reason are untrusted text."""

    id: str
    reason: str


@dataclass(frozen=True)
class StoredSet:
    """samples.json. Lists have one item per stored sample, in the set's order.

    source_digests: sha256 of each sample as the set holds it; content_digests: of its stored bytes, equal
    for one picture in two files. labels: None for a set without. geometry: the part of the preprocess that
    made the pixels; their values are the build's matter. decoder: what decoded and resized the images.
    """

    version: int
    digest: str
    count: int
    inputs: tuple[StoredInput, ...]
    labels: tuple[Any, ...] | None
    class_names: tuple[str, ...] | None
    ids: tuple[str, ...]
    source_digests: tuple[str, ...]
    content_digests: tuple[str, ...]
    skipped: tuple[SkippedSample, ...]
    ignored_files: int
    geometry: Mapping[str, Any] | None
    geometry_digest: str | None
    decoder: str | None


class SampleStore:
    """Memory-mapped access to one stored set."""

    def __init__(self, path: Path, stored: StoredSet) -> None:
        self.path = path
        self.stored = stored
        self._readers: dict[str, ShardReader] = {}

    @classmethod
    def open(cls, path: Path, verify: bool = False) -> "SampleStore":
        """The set stored in `path`. With `verify`, each shard's sha256 is checked too.

        Raises StorageError for a folder that holds no set, another version's, or one with a damaged shard.
        """
        where = str(path / SAMPLES_FILE)
        try:
            content = json.loads((path / SAMPLES_FILE).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise StorageError(f"The stored samples cannot be read: {said(error)}.", where=where) from error
        if not isinstance(content, dict) or content.get("version") != STORE_VERSION:
            step = "Delete the folder; it is made again."
            raise StorageError(
                "The samples were stored by another version of phoneproof.", where=where, next_step=step
            )
        try:
            stored = codec.from_dict(StoredSet, content)
        except ProtocolError as error:
            raise StorageError(f"The stored samples are damaged: {said(error)}.", where=where) from error
        store = cls(path, stored)
        for one_input in stored.inputs:
            for shard in one_input.shards:
                if not is_inner_path(shard.file.name):
                    raise StorageError(
                        "The stored samples are damaged: a shard lies outside the folder.", where=where
                    )
                check_shard(path / shard.file.name, shard, one_input.sample_bytes, verify)
        return store

    @property
    def count(self) -> int:
        """Number of stored samples."""
        return self.stored.count

    @property
    def digest(self) -> str:
        """The set's name in the store: sha256 over what it was made of."""
        return self.stored.digest

    @property
    def labels(self) -> tuple[Label, ...] | None:
        """One JSON value per sample, or None."""
        return self.stored.labels

    def input(self, name: str) -> StoredInput:
        """The stored input of that name. DataError if there is none."""
        for one_input in self.stored.inputs:
            if one_input.name == name:
                return one_input
        known = ", ".join(repr(one.name) for one in self.stored.inputs)
        raise DataError(
            f"No samples are stored for the input {name!r}, only for {known}.", where=str(self.path)
        )

    def rows(self, name: str, first: int, count: int) -> Array:
        """Stored samples first … first + count - 1 of one input: [count, *shape], read-only."""
        if name not in self._readers:
            one_input = self.input(name)
            paths = [self.path / shard.file.name for shard in one_input.shards]
            reader = ShardReader(paths, one_input.shards, one_input.dtype, one_input.shape)
            self._readers[name] = reader
        return self._readers[name].rows(first, count)

    def read_inputs(
        self,
        first: int,
        count: int,
        tensors: Sequence[TensorSpec],
        preprocess: Preprocess | None,
        layout: Layout | None = None,
    ) -> dict[str, Array]:
        """Samples as a build's inputs: for each tensor [count, *tensor.sample_shape] of its dtype.

        preprocess: the pipeline whose value map applies; needed for stored pixels and only there.
        layout: the build's, where it is not the preprocess's.
        Raises DataError for a range outside the set, a preprocess that would have made other pixels, and
        where only a raw cast would fit (`as_input`).
        """
        read: dict[str, Array] = {}
        for tensor in tensors:
            rows = self.rows(tensor.name, first, count)
            self._check_preprocess(tensor.name, preprocess)
            if preprocess is None:
                read[tensor.name] = as_input(rows, tensor)
            else:
                table = value_table(preprocess, tensor)
                read[tensor.name] = as_input(rows, tensor, table, layout or preprocess.layout)
        return read

    def batches(self, name: str, size: int = 32) -> Iterator[Array]:
        """All stored samples of one input, `size` at a time."""
        for first in range(0, self.count, size):
            yield self.rows(name, first, min(size, self.count - first))

    def job_input(
        self,
        tensor: TensorSpec,
        layout: Layout | None = None,
        table: FileRef | None = None,
        folder: str = "",
    ) -> RawInput | TableInput:
        """How job.json names this input for a build's `tensor`.

        layout, table: for stored pixels, the build's layout and the file that `table_bytes` fills.
        folder: put before the names of the shards, with its `/`.
        Raises DataError where a device would have to convert.
        """
        one_input = self.input(tensor.name)
        where = f"input {tensor.name!r}"
        shards = tuple(replace(s, file=replace(s.file, name=folder + s.file.name)) for s in one_input.shards)
        if one_input.encoding == RAW:
            if one_input.dtype != tensor.dtype or one_input.shape != tensor.sample_shape:
                raise DataError(
                    f"The stored samples are {one_input.dtype} {list(one_input.shape)}, the build takes "
                    f"{tensor.dtype} {list(tensor.sample_shape)}, and no device converts.",
                    where=where,
                    next_step="Materialise the set for this build's input.",
                )
            return RawInput("raw", tensor.name, tensor.dtype, tensor.shape, shards)
        if table is None or layout is None:
            raise DataError("Stored pixels need a table and a layout.", where=where)
        height, width, channels = one_input.shape
        laid_out = (channels, height, width) if layout is Layout.NCHW else (height, width, channels)
        if laid_out != tensor.sample_shape:
            raise DataError(
                f"Samples have the shape {list(laid_out)}, the input takes {list(tensor.sample_shape)}.",
                where=where,
            )
        if table.size_bytes != channels * 256 * DTYPE_SIZES[tensor.dtype]:
            raise DataError(f"The table is not one of {channels} channels of {tensor.dtype}.", where=where)
        size = (height, width, channels)
        return TableInput(
            "u8+table", tensor.name, tensor.dtype, tensor.shape, layout.value, size, shards, table
        )

    def _check_preprocess(self, name: str, preprocess: Preprocess | None) -> None:
        if self.input(name).encoding == RAW:
            if preprocess is not None:
                raise DataError(
                    "The stored samples are values, not pixels: no preprocess applies.", where=str(self.path)
                )
        elif preprocess is None:
            raise DataError(
                "Stored pixels need the preprocess that gives their values.", where=str(self.path)
            )
        elif preprocess.geometry_digest != self.stored.geometry_digest:
            raise DataError(
                "The stored pixels were made by another preprocess (resize, crop, colour order, alpha).",
                where=str(self.path),
                next_step="Materialise the set again with this preprocess.",
            )
