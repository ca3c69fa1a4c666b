"""Materialising a set: once, whole or not at all, under a lock, within a size cap."""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import Image

from phoneproof.data.materialization import Materialization, decoder_version, store_digest
from phoneproof.data.ordered import ordered_map
from phoneproof.data.pixels import open_image, pixels
from phoneproof.data.samples import UNNAMED, Content, SampleSet, content_digest, opened_file, unreadable
from phoneproof.data.shard_writer import ShardWriter, storage_errors, store_lock, sync_folder
from phoneproof.data.store import (
    PIXELS,
    RAW,
    SAMPLES_FILE,
    STORE_VERSION,
    SampleStore,
    SkippedSample,
    StoredInput,
    StoredSet,
)
from phoneproof.data.values import input_array
from phoneproof.errors import BrokenSampleError, DataError, StorageError
from phoneproof.protocol import codec

Array = npt.NDArray[Any]
Progress = Callable[[str, int, int], None]
"""Called with stage (`hash` or `write`), samples done, samples in all."""


@dataclass(frozen=True)
class _Sample:
    arrays: Mapping[str, Array]
    digest: str


@dataclass(frozen=True)
class _Broken:
    """A sample that is left out. digest: None where nothing of it could be read."""

    reason: str
    digest: str | None


def materialize(
    opened: SampleSet, indices: Sequence[int], target: Materialization, progress: Progress | None = None
) -> SampleStore:
    """The samples at `indices` (ascending) in the store: found there, or written now.

    Samples that cannot be read are left out and recorded. Raises DataError for a set of which nothing can be
    read, samples that do not fit the inputs, or one beyond the size cap; StorageError for a full or read-only
    disk (nothing half-written stays at the final path); BusyError when another process holds the lock.
    """
    report = progress or (lambda stage, done, total: None)
    _check_target(target)
    digests = _source_digests(opened, indices, target, report)
    digest = store_digest([opened.entries[i] for i in indices], digests, opened.class_names, target)
    folder = target.root / "samples" / digest
    with storage_errors(folder), store_lock(folder, target.lock_timeout_s):
        found = _found(folder)
        if found is not None:
            return found
        _Writing(opened, indices, digests, target, folder, digest, report).run()
        return SampleStore.open(folder)


def _check_target(target: Materialization) -> None:
    if not target.inputs:
        raise DataError("The model has no inputs.", where="inputs")
    if target.preprocess is None:
        return
    names = ", ".join(repr(tensor.name) for tensor in target.inputs)
    if len(target.inputs) != 1:
        raise DataError(
            f"A preprocess makes one input, and the model has {len(target.inputs)}: {names}.",
            where="preprocess",
            next_step="Remove the preprocess and give arrays for each input (.npz or an entry point).",
        )


def _source_digests(
    opened: SampleSet, indices: Sequence[int], target: Materialization, report: Progress
) -> list[str | None]:
    """sha256 of each sample as the set holds it; None for a file that cannot be read."""

    def digest(content: Content) -> str | None:
        try:
            return content_digest(content)
        except BrokenSampleError:
            return None

    digests = []
    for made in ordered_map(digest, opened.contents(indices), target.threads):
        digests.append(made)
        report("hash", len(digests), len(indices))
    return digests


def _found(folder: Path) -> SampleStore | None:
    """The stored set, or None if there is none; a damaged one is removed, since it can be made again."""
    if not folder.exists():
        return None
    try:
        return SampleStore.open(folder, verify=True)
    except StorageError:
        shutil.rmtree(folder)
        return None


@dataclass
class _Writing:
    """One set on its way to the disk: everything goes to a temporary folder, renamed at the end."""

    opened: SampleSet
    indices: Sequence[int]
    digests: Sequence[str | None]
    target: Materialization
    folder: Path
    digest: str
    report: Progress
    kept: list[int] = field(default_factory=list)
    content_digests: list[str] = field(default_factory=list)
    skipped: list[SkippedSample] = field(default_factory=list)
    writers: dict[str, ShardWriter] = field(default_factory=dict)

    def run(self) -> None:
        prefix = f".{self.digest}.tmp-"
        for leftover in self.folder.parent.glob(f"{prefix}*"):  # the lock is ours: its writer was killed
            shutil.rmtree(leftover, ignore_errors=True)
        temporary = self.folder.with_name(prefix + secrets.token_hex(4))
        temporary.mkdir()
        try:
            self._write_samples(temporary)
            self._write_manifest(temporary)
            temporary.rename(self.folder)
            sync_folder(self.folder.parent)
        finally:
            for writer in self.writers.values():
                writer.abandon()
            shutil.rmtree(temporary, ignore_errors=True)

    def _write_samples(self, temporary: Path) -> None:
        contents = self.opened.contents(self.indices)
        prepared = ordered_map(self._prepare, contents, self.target.threads)
        for position, sample in enumerate(prepared):
            index = self.indices[position]
            self._check_unchanged(sample, position)
            if isinstance(sample, _Broken):
                self.skipped.append(SkippedSample(self.opened.entries[index].id, sample.reason))
            else:
                self._keep(sample, position, temporary)
            self.report("write", position + 1, len(self.indices))
        if not self.kept:
            reason = self.skipped[0].reason if self.skipped else "It is empty"
            raise DataError(
                f"No sample of the set can be read. The first: {reason}.",
                where=self._place(0),
                next_step="Look at that file; then see that kind and path of the set are right.",
            )

    def _prepare(self, content: Content) -> _Sample | _Broken:
        digest = None
        try:
            if isinstance(content, Path):
                # Hashed and decoded through one open file, so both are of the same content.
                with opened_file(content) as file:
                    digest = _file_digest(file)
                    with open_image(file) as image:
                        return _Sample(_arrays(image, self.target), digest)
            digest = content_digest(content)
            return _Sample(_arrays(content, self.target), digest)
        except BrokenSampleError as error:
            return _Broken(error.what.removesuffix("."), digest)

    def _check_unchanged(self, sample: _Sample | _Broken, position: int) -> None:
        """The set's digest is over what was there before: what is there now must be that, broken or not."""
        if sample.digest != self.digests[position]:
            step = "Leave the set alone while it is read, and start again."
            raise DataError(
                "The sample changed while it was read.", where=self._place(position), next_step=step
            )

    def _keep(self, sample: _Sample, position: int, temporary: Path) -> None:
        index = self.indices[position]
        if not self.writers:
            self._start(sample.arrays, temporary)
        hashed = hashlib.sha256()
        for name, array in sample.arrays.items():
            writer = self.writers[name]
            if array.shape != writer.shape:
                raise DataError(
                    f"A sample has the shape {list(array.shape)}, those before it {list(writer.shape)}.",
                    where=self._place(position),
                    next_step="Declare a resize or centre_crop, so that all have one shape.",
                )
            writer.write(array)
            hashed.update(array.tobytes())
        self.kept.append(index)
        self.content_digests.append(hashed.hexdigest())

    def _start(self, arrays: Mapping[str, Array], temporary: Path) -> None:
        """The first sample tells the size of all: refuse before the disk fills."""
        per_sample = sum(array.nbytes for array in arrays.values())
        predicted = per_sample * len(self.indices)
        facts = {"predicted_bytes": predicted, "samples": len(self.indices), "sample_bytes": per_sample}
        if predicted > self.target.size_cap_bytes:
            raise DataError(
                f"The set takes {predicted:,} bytes ({len(self.indices)} samples of {per_sample:,}), "
                f"above the cap of {self.target.size_cap_bytes:,}.",
                where=self.target.cap_key,
                next_step=f"Raise {self.target.cap_key}, or take fewer samples.",
                **facts,
            )
        free = shutil.disk_usage(temporary).free
        if predicted > free:
            raise StorageError(
                f"The set takes {predicted:,} bytes and the disk has {free:,} left.",
                where=str(self.target.root),
                next_step="Free some space, set PHONEPROOF_STORE to another disk, or take fewer samples.",
                **facts,
            )
        for k, (name, array) in enumerate(arrays.items()):
            if array.nbytes == 0:
                raise DataError(f"The input {name!r} has no elements.", where=self._place(0))
            self.writers[name] = ShardWriter(temporary, str(k), array, self.target.shard_bytes)

    def _place(self, position: int) -> str:
        return f"sample {self.opened.entries[self.indices[position]].id!r}" if self.indices else "set"

    def _write_manifest(self, temporary: Path) -> None:
        preprocess = self.target.preprocess
        encoding: Any = RAW if preprocess is None else PIXELS
        inputs = tuple(
            StoredInput(name, encoding, writer.dtype, writer.shape, writer.close())
            for name, writer in self.writers.items()
        )
        entries = [self.opened.entries[index] for index in self.kept]
        labelled = any(entry.label is not None for entry in entries)
        by_index = dict(zip(self.indices, self.digests, strict=True))
        stored = StoredSet(
            version=STORE_VERSION,
            digest=self.digest,
            count=len(self.kept),
            inputs=inputs,
            labels=tuple(entry.label for entry in entries) if labelled else None,
            class_names=self.opened.class_names,
            ids=tuple(entry.id for entry in entries),
            source_digests=tuple(str(by_index[index]) for index in self.kept),
            content_digests=tuple(self.content_digests),
            skipped=tuple(self.skipped),
            ignored_files=self.opened.ignored_files,
            geometry=None if preprocess is None else preprocess.geometry(),
            geometry_digest=None if preprocess is None else preprocess.geometry_digest,
            decoder=None if preprocess is None else decoder_version(),
        )
        with (temporary / SAMPLES_FILE).open("w", encoding="utf-8") as file:
            json.dump(codec.to_dict(stored), file, ensure_ascii=True, allow_nan=False, indent=1)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(temporary)


def _file_digest(file: BinaryIO) -> str:
    try:
        digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        file.seek(0)
    except OSError as error:
        raise unreadable(error) from error
    return digest


def _arrays(content: Image.Image | Mapping[str, Array], target: Materialization) -> dict[str, Array]:
    """A sample as it is stored, in the order of the inputs."""
    names = [tensor.name for tensor in target.inputs]
    if isinstance(content, Image.Image):
        if target.preprocess is None:
            raise DataError(
                "Images need a declared preprocess.",
                where="preprocess",
                next_step="Add it to the plan's data.",
            )
        return {names[0]: pixels(content, target.preprocess)}
    given = dict(content)
    if UNNAMED in given and len(names) == 1:
        given = {names[0]: given[UNNAMED]}
    if set(given) != set(names):
        found = "one array without a name" if UNNAMED in given else ", ".join(map(repr, sorted(given)))
        wanted = ", ".join(map(repr, names))
        raise DataError(f"A sample holds {found}, and the model takes {wanted}.", where="inputs")
    if target.preprocess is not None:
        return {names[0]: pixels(np.asarray(given[names[0]]), target.preprocess)}
    return {tensor.name: input_array(given[tensor.name], tensor) for tensor in target.inputs}
