"""The calibration worker: `python -m phoneproof.quantize.calibrate REQUEST.json`.

Request (CalibrationRequest): source model, folder of the stored calibration set, and the methods wanted. One
pass serves them all. Result: `{"ranges": [{method, percentile, file}], "samples", "tensors"}`; the files,
each a ranges.json, lie in the work folder.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phoneproof.data.preprocessing import Layout, Preprocess
from phoneproof.data.store import SampleStore
from phoneproof.errors import RecipeError
from phoneproof.protocol.codec import from_dict
from phoneproof.protocol.work import Progress, run_worker
from phoneproof.quantize.observe import Sample, observe
from phoneproof.quantize.onnx_graph import prepare
from phoneproof.quantize.ranges import RANGES_VERSION, Ranges, range_of, write_ranges
from phoneproof.quantize.statistics import Histogram
from phoneproof.recipes.table import Method
from phoneproof.sources.onnx_model import OnnxSource, load_source
from phoneproof.sources.request import OnnxSourceRequest


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

    preprocess: as `Preprocess.to_dict` writes it; its value map makes stored pixels into the model's input.
    None where values are stored. layout: of the model's image inputs; None takes the preprocessing's.
    threads: of the float pass; None for all cores.
    """

    source: OnnxSourceRequest
    samples: str
    calibration_sha256: str
    methods: tuple[MethodRequest, ...]
    preprocess: Mapping[str, Any] | None = None
    layout: str | None = None
    count: int | None = None
    threads: int | None = None


def calibrate(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Collect the statistics in one pass and write one ranges file per method into `folder`."""
    wanted = from_dict(CalibrationRequest, request)
    for method in wanted.methods:
        _check(method)
    progress.say("prepare")
    source = load_source(wanted.source)
    graph = prepare(source)
    store = SampleStore.open(Path(wanted.samples))
    count = store.count if wanted.count is None else min(wanted.count, store.count)
    histograms = observe(
        graph,
        _stored_samples(store, source, wanted, count),
        wanted.threads or os.cpu_count() or 1,
        lambda done: progress.say("calibrate", done, count),
    )
    progress.say("ranges")
    entries = [
        _write(folder, method, histograms, wanted.calibration_sha256, count) for method in wanted.methods
    ]
    return {"ranges": entries, "samples": count, "tensors": len(histograms)}


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


def _stored_samples(
    store: SampleStore, source: OnnxSource, request: CalibrationRequest, count: int
) -> Iterator[Sample]:
    preprocess = None if request.preprocess is None else Preprocess.from_dict(dict(request.preprocess))
    layout = None if request.layout is None else Layout(request.layout)
    for index in range(count):
        yield store.read_inputs(index, 1, source.inputs, preprocess, layout)


def _write(
    folder: Path, method: MethodRequest, histograms: Mapping[str, Histogram], digest: str, samples: int
) -> dict[str, Any]:
    write_ranges(folder / method.file_name, ranges_by(method, histograms, digest, samples))
    return {"method": method.method.value, "percentile": method.percentile, "file": method.file_name}


if __name__ == "__main__":
    sys.exit(run_worker(calibrate))
