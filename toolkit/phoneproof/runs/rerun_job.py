"""One case taken out of a job: a job of its own, and what its network was given."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from phoneproof.builds.store import storage_errors
from phoneproof.data.shards import ShardReader
from phoneproof.protocol.job import (
    FILES_FOLDER,
    Case,
    FileRef,
    InferCase,
    Job,
    LoadCase,
    RawInput,
    SampleSet,
    Shard,
    TableInput,
    configurations_of,
    new_job,
    samples_of,
)
from phoneproof.protocol.sample_files import SampleReader, file_path
from phoneproof.protocol.work import write_bytes_atomically
from phoneproof.runs.rerun_cases import RunCase

_IMAGE_CHANNELS = (1, 2, 3, 4)


@dataclass(frozen=True)
class JobOfOne:
    """A job with one case and the load cases that it needs. files: a local path for each sha256.

    sample: the run's number of the only sample, which the job counts as 0; None where it has all samples.
    """

    job: Job
    files: Mapping[str, Path]
    sample: int | None


def job_of_one(chosen: RunCase, sample: int | None, folder: Path) -> JobOfOne:
    """The case as it was, or narrowed to one sample.

    folder: where the file of that sample is written. The narrowed job holds no other sample: it is for a bug
    report, in which the rest of a set has no place. StorageError for samples that are damaged.
    """
    job, case = chosen.job, chosen.case
    files = {ref.sha256: chosen.folder / FILES_FOLDER / path for path, ref in job.files().items()}
    wanted = configurations_of(case)
    cases: list[Case] = [c for c in job.cases if isinstance(c, LoadCase) and c.configuration in wanted]
    sets: tuple[SampleSet, ...] = ()
    if not isinstance(case, LoadCase):
        sets = tuple(job.sample_set(name) for name in dict.fromkeys(samples_of(case)))
        if sample is not None and isinstance(case, InferCase):
            sets = tuple(_only(one, sample, chosen, folder, files) for one in sets)
            case = replace(case, first=0, count=1)
        cases.append(case)
    configurations = tuple(c for c in job.configurations if c.configuration_id in wanted)
    made = new_job(configurations, sets, tuple(cases), job.limits)
    return JobOfOne(made, {ref.sha256: files[ref.sha256] for ref in made.files().values()}, sample)


def _only(whole: SampleSet, sample: int, chosen: RunCase, folder: Path, files: dict[str, Path]) -> SampleSet:
    inputs: list[RawInput | TableInput] = []
    for number, one in enumerate(whole.inputs):
        content = _stored(one, sample, chosen).tobytes()
        digest = hashlib.sha256(content).hexdigest()
        path = folder / f"{number}.bin"
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            write_bytes_atomically(path, content)
        files[digest] = path
        shard = Shard(FileRef(path.name, digest, len(content)), 1)
        inputs.append(replace(one, shards=(shard,)))
    return SampleSet(whole.samples_id, 1, tuple(inputs))


def _stored(one: RawInput | TableInput, sample: int, chosen: RunCase) -> NDArray[Any]:
    """A sample as it lies in its shard: little-endian values, or uint8 pixels (height, width, channels)."""
    files = chosen.folder / FILES_FOLDER
    paths = [file_path(files, shard.file) for shard in one.shards]
    dtype, shape = one.dtype, one.shape
    if isinstance(one, TableInput):
        dtype, shape = "uint8", one.pixels_shape
    stored: NDArray[Any] = ShardReader(paths, one.shards, dtype, shape).rows(sample, 1)[0]
    return stored


def write_inputs(chosen: RunCase, sample: int, folder: Path) -> tuple[Path, ...]:
    """What the network was given for one sample: an .npy file for each input, in the input's dtype and shape
    with a batch of one, and a PNG file where it is an image in 8 bits. Names begin with the input's number.

    ProtocolError or StorageError for samples that are damaged.
    """
    case = chosen.case
    if not isinstance(case, InferCase):
        raise TypeError(f"a {case.kind} case has no samples")
    sample_set = chosen.job.sample_set(case.samples)
    given = SampleReader(sample_set, chosen.folder / FILES_FOLDER).read(sample)
    written: list[Path] = []
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for number, one in enumerate(sample_set.inputs):
            stem = f"{number}-{_plain(one.name)}"
            written.append(folder / f"{stem}.npy")
            np.save(written[-1], given[one.name], allow_pickle=False)
            if isinstance(one, TableInput) and one.pixels_shape[2] in _IMAGE_CHANNELS:
                pixels = _stored(one, sample, chosen)
                written.append(folder / f"{stem}.png")
                Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(written[-1])
    return tuple(written)


def _plain(name: str) -> str:
    """An input's name, which is foreign text, as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:60] or "input"
