"""The calibration worker for ONNX models: `python -m phoneproof.quantize.calibrate REQUEST.json`.

Request (quantize/calibration.CalibrationRequest): source model, folder of the stored calibration set, and the
methods wanted. One pass serves them all. Result: `{"ranges": [{method, percentile, file}], "samples",
"tensors"}`; the files, each a ranges.json, lie in the work folder.
"""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from phoneproof.errors import ProtocolError
from phoneproof.protocol.work import Progress, run_worker
from phoneproof.quantize.calibration import CalibrationRequest, Observed, calibrated
from phoneproof.quantize.observe import observe
from phoneproof.quantize.onnx_graph import prepare
from phoneproof.sources.onnx_model import load_source
from phoneproof.sources.request import OnnxSourceRequest


def calibrate(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Collect the statistics in one pass and write one ranges file per method into `folder`."""
    return calibrated(request, folder, progress, _prepare)


def _prepare(wanted: CalibrationRequest) -> Observed:
    if not isinstance(wanted.source, OnnxSourceRequest):
        raise ProtocolError("This worker calibrates ONNX models.", where="$.source.format")
    source = load_source(wanted.source)
    return Observed(source.inputs, partial(observe, prepare(source)))


if __name__ == "__main__":
    sys.exit(run_worker(calibrate))
