"""The calibration worker for exported programs: `python -m phoneproof.quantize.calibrate_torch REQUEST.json`.

Request and result as of quantize/calibrate.py; the source is an exported program. Ranges are by node name of
the graph that quantize/torch_graph.prepare makes.
"""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from phoneproof.errors import ProtocolError
from phoneproof.protocol.work import Progress, run_worker
from phoneproof.quantize.calibration import CalibrationRequest, Observed, calibrated
from phoneproof.quantize.observe_torch import observe
from phoneproof.quantize.torch_graph import prepare
from phoneproof.sources.exported_program import load_program
from phoneproof.sources.request import ExportedProgramRequest


def calibrate(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Collect the statistics in one pass and write one ranges file per method into `folder`."""
    return calibrated(request, folder, progress, _prepare)


def _prepare(wanted: CalibrationRequest) -> Observed:
    if not isinstance(wanted.source, ExportedProgramRequest):
        raise ProtocolError("This worker calibrates exported programs.", where="$.source.format")
    source = load_program(wanted.source)
    names = tuple(spec.name for spec in source.inputs)
    return Observed(source.inputs, partial(observe, prepare(source.program), names))


if __name__ == "__main__":
    sys.exit(run_worker(calibrate))
