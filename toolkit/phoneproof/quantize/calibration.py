"""What calibration workers are asked, a source model, samples and methods, and how they answer: ranges."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from phoneproof.data.preprocessing import Layout, Preprocess
from phoneproof.data.store import SampleStore
from phoneproof.errors import RecipeError
from phoneproof.protocol.codec import from_dict
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import Progress
from phoneproof.quantize.ranges import RANGES_VERSION, Ranges, range_of, write_ranges
from phoneproof.quantize.statistics import Histogram
from phoneproof.recipes.table import Method
from phoneproof.sources.request import SourceRequest

Samples = Iterable[Mapping[str, NDArray[Any]]]
Observe = Callable[[Samples, int, Callable[[int], None]], Mapping[str, Histogram]]
"""One pass over samples, with so many threads, telling how many are done: a histogram of each tensor."""


@dataclass(frozen=True)
class MethodRequest:
    """One calibration method. percentile: in percent, required by method percentile, None for the others."""

    method: Method
    percentile: float | None = None

    @property
    def file_name(self) -> str:
        """Name of its ranges file: `ranges-minmax.json`, `ranges-percentile-99.99.json`."""
        suffix = "" if self.percentile is None else f"-{self.percentile:.12g}"
        return f"ranges-{self.method.value}{suffix}.json"


@dataclass(frozen=True)
class CalibrationRequest:
    """samples: folder of the stored calibration set (data/store.py). count: the first so many; None for all.

    source: of a format that the worker reads. preprocess: as `Preprocess.to_dict` writes it; its value map
    makes stored pixels into the model's input. None where values are stored. layout: of the model's image
    inputs; None takes the preprocessing's. threads: of the float pass; None for all cores.
    """

    source: SourceRequest
    samples: str
    calibration_sha256: str
    methods: tuple[MethodRequest, ...]
    preprocess: Mapping[str, Any] | None = None
    layout: str | None = None
    count: int | None = None
    threads: int | None = None


@dataclass(frozen=True)
class StoredSamples:
    """The samples that a request names. count: how many."""

    store: SampleStore
    request: CalibrationRequest
    count: int

    def read(self, inputs: tuple[TensorSpec, ...]) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Every sample in order: input name to an array of the input's dtype and shape, batch included."""
        given = self.request
        preprocess = None if given.preprocess is None else Preprocess.from_dict(dict(given.preprocess))
        layout = None if given.layout is None else Layout(given.layout)
        for index in range(self.count):
            rows = self.store.read_inputs(index, 1, inputs, preprocess, layout)
            yield {one.name: rows[one.name].reshape(one.shape) for one in inputs}


@dataclass(frozen=True)
class Observed:
    """A source model that is ready for its pass. inputs: its inputs, by which the samples are read."""

    inputs: tuple[TensorSpec, ...]
    observe: Observe


def calibrated(
    request: Mapping[str, Any],
    folder: Path,
    progress: Progress,
    prepare: Callable[[CalibrationRequest], Observed],
) -> Mapping[str, Any]:
    """The work of every calibration worker: one pass, and one ranges file per method in `folder`.

    prepare: loads the request's source model; ProtocolError for a format that the worker does not read.
    Raises as `read_calibration`, `prepare` and `stored_samples`, and what the pass raises.
    """
    wanted = read_calibration(request)
    progress.say("prepare")
    observed = prepare(wanted)
    samples = stored_samples(wanted)
    histograms = observed.observe(
        samples.read(observed.inputs),
        wanted.threads or os.cpu_count() or 1,
        lambda done: progress.say("calibrate", done, samples.count),
    )
    progress.say("ranges")
    return write_all(folder, wanted, histograms, samples.count)


def read_calibration(request: Mapping[str, Any]) -> CalibrationRequest:
    """The request, checked. RecipeError for a percentile where none belongs, or one that is missing."""
    wanted = from_dict(CalibrationRequest, request)
    for method in wanted.methods:
        _check(method)
    return wanted


def stored_samples(wanted: CalibrationRequest) -> StoredSamples:
    """The samples of a request. DataError for a store that cannot be read."""
    store = SampleStore.open(Path(wanted.samples))
    count = store.count if wanted.count is None else min(wanted.count, store.count)
    return StoredSamples(store, wanted, count)


def write_all(
    folder: Path, wanted: CalibrationRequest, histograms: Mapping[str, Histogram], samples: int
) -> Mapping[str, Any]:
    """Write one ranges file per method into `folder` and give the worker's result."""
    entries = []
    for method in wanted.methods:
        ranges = ranges_by(method, histograms, wanted.calibration_sha256, samples)
        write_ranges(folder / method.file_name, ranges)
        entries.append(
            {"method": method.method.value, "percentile": method.percentile, "file": method.file_name}
        )
    return {"ranges": entries, "samples": samples, "tensors": len(histograms)}


def ranges_by(
    method: MethodRequest, histograms: Mapping[str, Histogram], calibration_sha256: str, samples: int
) -> Ranges:
    """The ranges that one method makes out of the statistics."""
    return Ranges(
        version=RANGES_VERSION,
        method=method.method,
        percentile=method.percentile,
        calibration_sha256=calibration_sha256,
        samples=samples,
        tensors={
            name: range_of(h, method.method, method.percentile or 100.0) for name, h in histograms.items()
        },
    )


def _check(method: MethodRequest) -> None:
    is_percentile = method.method is Method.PERCENTILE
    if is_percentile and (method.percentile is None or not 50.0 < method.percentile <= 100.0):
        raise RecipeError(
            f"Method percentile takes a percentile above 50 and up to 100, not {method.percentile}.",
            next_step="Usual values are 99.9 to 99.999.",
        )
    if not is_percentile and method.percentile is not None:
        raise RecipeError(f"Method {method.method.value} takes no percentile.", next_step="Leave it out.")
