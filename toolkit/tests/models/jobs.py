"""Builders of jobs and of the files they need, for the tests of harnesses and devices."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phoneproof.devices.device import Device, JobResults
from phoneproof.protocol.events import Event
from phoneproof.protocol.job import (
    BenchmarkCase,
    Case,
    Configuration,
    FileRef,
    InferCase,
    Job,
    Keep,
    Limits,
    LoadCase,
    ModelFiles,
    RawInput,
    SampleSet,
    Shard,
    TableInput,
    new_job,
)

KEEP_ALL = Keep("full")


@dataclass
class JobFiles:
    """Files written into a folder, and their places by sha256 as Device.submit takes them."""

    folder: Path
    paths: dict[str, Path] = field(default_factory=dict)

    def add(self, name: str, data: bytes) -> FileRef:
        digest = hashlib.sha256(data).hexdigest()
        path = self.folder / digest[:12] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.paths[digest] = path
        return FileRef(name, digest, len(data))

    def model(self, name: str, data: bytes) -> ModelFiles:
        return ModelFiles(name, (self.add(name, data),))

    def raw_input(self, name: str, values: NDArray[Any], shards: Sequence[int] | None = None) -> RawInput:
        """values: samples along the first axis, each with the batch of one."""
        return RawInput("raw", name, values.dtype.name, values.shape[1:], self._shards(name, values, shards))

    def table_input(
        self, name: str, pixels: NDArray[np.uint8], table: NDArray[Any], layout: str = "nchw"
    ) -> TableInput:
        """pixels: (samples, height, width, channels); table: (channels, 256) in the input's dtype."""
        _, height, width, channels = pixels.shape
        nchw = layout == "nchw"
        shape = (1, channels, height, width) if nchw else (1, height, width, channels)
        return TableInput(
            "u8+table",
            name,
            table.dtype.name,
            shape,
            "nchw" if nchw else "nhwc",
            (height, width, channels),
            self._shards(name, pixels, None),
            self.add(f"{name}.table", table.tobytes()),
        )

    def _shards(self, name: str, values: NDArray[Any], sizes: Sequence[int] | None) -> tuple[Shard, ...]:
        begin, shards = 0, []
        for number, size in enumerate(sizes or [len(values)]):
            part = values[begin : begin + size]
            shards.append(Shard(self.add(f"{name}-{number}.bin", part.tobytes()), size))
            begin += size
        return tuple(shards)


def configuration(
    configuration_id: str, model: ModelFiles, runtime: str = "onnxruntime", threads: int = 1,
    accelerator: str = "cpu", options: Mapping[str, str] | None = None, allow_fallback: bool = False,
) -> Configuration:  # fmt: skip
    return Configuration(
        configuration_id,
        f"model/onnx/{configuration_id}",
        runtime,
        accelerator,
        allow_fallback,
        threads,
        model,
        options or {},
    )


def load(configuration_id: str) -> LoadCase:
    return LoadCase("load", f"load-{configuration_id}", configuration_id)


def infer(
    configuration_id: str, samples: SampleSet, keep: Keep = KEEP_ALL, first: int = 0, count: int | None = None
) -> InferCase:
    how_many = samples.count - first if count is None else count
    case_id = f"infer-{configuration_id}"
    return InferCase("infer", case_id, configuration_id, samples.samples_id, first, how_many, keep)


def benchmark(
    candidate: str, samples: SampleSet, baseline: str | None = None, interleaving: str = "in_process",
    rounds: int = 3, visit_ms: int = 5, batch_below_ns: int = 0, max_runs: int = 50, warmup_ms: int = 5,
) -> BenchmarkCase:  # fmt: skip
    return BenchmarkCase(
        "benchmark",
        f"benchmark-{candidate}",
        candidate,
        baseline,
        samples.samples_id,
        samples.samples_id if baseline else None,
        rounds,
        interleaving if baseline else "none",  # type: ignore[arg-type]
        warmup_ms,
        visit_ms,
        max_runs,
        batch_below_ns,
        0,
    )


def indices(files: JobFiles, count: int, samples_id: str = "indices") -> SampleSet:
    """Samples that are their own number: one int32 input `index` of shape (1,)."""
    values = np.arange(count, dtype=np.int32).reshape(count, 1)
    return SampleSet(samples_id, count, (files.raw_input("index", values),))


def job_of(
    configurations: Sequence[Configuration],
    samples: Sequence[SampleSet],
    cases: Sequence[Case],
    limits: Limits | None = None,
) -> Job:
    return new_job(tuple(configurations), tuple(samples), tuple(cases), limits or Limits())


def wait_for_end(device: Device, job_id: str, seconds: float = 120.0) -> list[Event]:
    """All events of a job once it is finished; AssertionError if it does not finish."""
    events: list[Event] = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        batch = device.events(job_id, len(events))
        events += batch.events
        if batch.finished:
            return events
        time.sleep(0.02)
    raise AssertionError(f"the job did not finish in {seconds} s")


def run_to_end(device: Device, job: Job, files: JobFiles) -> JobResults:
    device.submit(job, files.paths)
    wait_for_end(device, job.job_id)
    return device.collect(job.job_id)
