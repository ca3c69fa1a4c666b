"""Calibrating, building and running small networks in the tests, through the workers' own entry points."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from phoneproof.builds.manifest import BuildManifest
from phoneproof.protocol.codec import from_dict
from phoneproof.protocol.work import Progress
from phoneproof.quantize.calibration import MethodRequest, ranges_by
from phoneproof.quantize.observe import observe
from phoneproof.quantize.onnx_graph import prepare
from phoneproof.quantize.ranges import write_ranges
from phoneproof.recipes.table import Method
from phoneproof.sources.onnx_model import load_onnx
from phoneproof.toolchains.onnxruntime import build
from tests.models.onnx_networks import images

Sample = Mapping[str, NDArray[Any]]
DIGEST = "c" * 64


@dataclass(frozen=True)
class Built:
    """One build made by the toolchain."""

    folder: Path
    manifest: BuildManifest
    findings: list[dict[str, Any]]

    @property
    def model(self) -> Any:
        return onnx.load_model(str(self.folder / "model.onnx"))

    @property
    def content(self) -> bytes:
        return (self.folder / "model.onnx").read_bytes()


def samples_for(path: Path, count: int, seed: int = 0) -> list[Sample]:
    """Random samples for each input of the model at `path`."""
    inputs = load_onnx(path).inputs
    return [
        {s.name: images(1, s.shape, seed + 31 * i + k)[0] for k, s in enumerate(inputs)} for i in range(count)
    ]


def ranges_file(path: Path, samples: Sequence[Sample], method: Method = Method.MINMAX) -> Path:
    """Calibrate the model at `path` and write the ranges beside it."""
    histograms = observe(prepare(load_onnx(path)), samples, threads=1)
    wanted = MethodRequest(method, 99.99 if method is Method.PERCENTILE else None)
    file = path.with_name(f"{path.stem}-{wanted.file_name}")
    write_ranges(file, ranges_by(wanted, histograms, DIGEST, len(samples)))
    return file


def request_for(path: Path, recipe: str, ranges: Path | None = None, **options: Any) -> dict[str, Any]:
    """A build request, static if `ranges` are given."""
    return {
        "recipe": recipe,
        "source": {"format": "onnx", "path": str(path)},
        "source_sha256": "5" * 64,
        "source_inputs": [],
        "source_outputs": [],
        "out": "out",
        "options": options,
        "ranges": None if ranges is None else str(ranges),
        "samples": None if ranges is None else {"path": "unused"},
        "calibration_sha256": None if ranges is None else DIGEST,
    }


def built(request: Mapping[str, Any], folder: Path) -> Built:
    """Make the build in this process."""
    folder.mkdir(parents=True, exist_ok=True)
    result = build(request, folder, Progress(folder))
    out = folder / request["out"]
    manifest = from_dict(BuildManifest, json.loads((out / result["manifest"]).read_text()))
    return Built(out, manifest, list(result["findings"]))


def outputs_of(model: Any, samples: Sequence[Sample], exact: bool = True) -> list[list[NDArray[Any]]]:
    """The outputs of a model for each sample, in ONNX Runtime; `exact` avoids saturation on x86."""
    options = onnxruntime.SessionOptions()
    if exact:
        options.add_session_config_entry("session.x64quantprecision", "1")
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    content = model if isinstance(model, bytes) else model.SerializeToString()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return [list(session.run(None, dict(sample))) for sample in samples]


def sqnr_db(reference: Sequence[NDArray[Any]], value: Sequence[NDArray[Any]]) -> float:
    """Signal to quantization noise ratio in decibels over all samples of one output; infinite if equal."""
    signal = sum(float(np.sum(np.square(r, dtype=np.float64))) for r in reference)
    noise = sum(
        float(np.sum(np.square(r.astype(np.float64) - v))) for r, v in zip(reference, value, strict=True)
    )
    return float(10 * np.log10(signal / noise)) if noise else float("inf")
