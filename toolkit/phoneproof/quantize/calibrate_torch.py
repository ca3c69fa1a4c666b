"""The calibration worker for exported programs: `python -m phoneproof.quantize.calibrate_torch REQUEST.json`.

Request and result as of quantize/calibrate.py; the source is an exported program. Ranges are by node name of
the graph that quantize/torch_graph.prepare makes.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phoneproof.errors import ProtocolError
from phoneproof.protocol.work import Progress, run_worker
from phoneproof.quantize.calibration import read_calibration, stored_samples, write_all
from phoneproof.quantize.observe_torch import observe
from phoneproof.quantize.torch_graph import prepare
from phoneproof.sources.exported_program import load_program
from phoneproof.sources.request import ExportedProgramRequest


def calibrate(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Collect the statistics in one pass and write one ranges file per method into `folder`."""
    wanted = read_calibration(request)
    if not isinstance(wanted.source, ExportedProgramRequest):
        raise ProtocolError("This worker calibrates exported programs.", where="$.source.format")
    progress.say("prepare")
    source = load_program(wanted.source)
    samples = stored_samples(wanted)
    histograms = observe(
        prepare(source.program),
        tuple(spec.name for spec in source.inputs),
        samples.read(source.inputs),
        wanted.threads or os.cpu_count() or 1,
        lambda done: progress.say("calibrate", done, samples.count),
    )
    progress.say("ranges")
    return write_all(folder, wanted, histograms, samples.count)


if __name__ == "__main__":
    sys.exit(run_worker(calibrate))
