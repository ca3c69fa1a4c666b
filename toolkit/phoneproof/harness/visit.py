"""One visit of a benchmark in a process of its own, for pairs that memory does not hold together.

Started by the runner as `python -m phoneproof.harness.visit REQUEST.json` (see protocol/work.py).
"""

import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict
from json import loads
from pathlib import Path
from typing import Any, NoReturn

from phoneproof.harness.benchmark import VisitTimes, first_ms, no_garbage_collection, time_visit, warm_up
from phoneproof.harness.children import run_child
from phoneproof.harness.configurations import load_configuration
from phoneproof.protocol.job import BenchmarkCase, read_job
from phoneproof.protocol.pace import Pace
from phoneproof.protocol.sample_files import SampleReader
from phoneproof.protocol.work import ERROR_FILE, RESULT_FILE, Progress, run_worker


class VisitError(Exception):
    """What a runtime raised in the process of a visit."""


class ProcessVisit:
    """Visits of one side, each in a new process. The pace is settled by the first and kept."""

    def __init__(
        self,
        folder: Path,
        case: BenchmarkCase,
        configuration_id: str,
        samples_id: str,
        modules: Mapping[str, str],
    ) -> None:
        self._folder = folder
        self._request = {
            "folder": str(folder),
            "case": case.case_id,
            "configuration": configuration_id,
            "samples": samples_id,
            "runtime_modules": dict(modules),
        }
        self._work = folder / "visits" / f"{case.case_id}-{configuration_id}"
        self.pace: Pace | None = None
        self.first_ms: float | None = None
        self.accelerator_actual: str | None = None
        self.operators: Mapping[str, int] | None = None

    def __call__(self) -> VisitTimes:
        pace = asdict(self.pace) if self.pace else None
        code = run_child("phoneproof.harness.visit", {**self._request, "pace": pace}, self._work)
        if code != 0:
            self._end_as(code)
        result = loads((self._work / RESULT_FILE).read_text(encoding="utf-8"))
        self.pace = Pace(**result["pace"])
        self.first_ms = self.first_ms if self.first_ms is not None else result["first_ms"]
        self.accelerator_actual = result["accelerator_actual"]
        self.operators = result["operators"]
        return VisitTimes(tuple(result["times_ns"]), result["waited_ns"])

    def _end_as(self, code: int) -> NoReturn:
        """Raise what the visit raised, or end as its process did, so that the supervisor sees the cause."""
        error = self._work / ERROR_FILE
        if code > 0 and error.exists():
            raise VisitError(loads(error.read_text(encoding="utf-8"))["what"])
        if code > 0:
            os._exit(code)
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        raise VisitError(f"The visit ended with signal {-code}.")


def visit(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Load, warm up and time one side."""
    job_folder = Path(request["folder"])
    job = read_job((job_folder / "job.json").read_text(encoding="utf-8"))
    case = job.case(request["case"])
    if not isinstance(case, BenchmarkCase):
        raise TypeError(f"{case.case_id} is no benchmark")
    files = job_folder / "files"
    progress.say("load")
    configuration = job.configuration(request["configuration"])
    loaded = load_configuration(configuration, files, request["runtime_modules"])
    invoke = loaded.session.prepare(SampleReader(job.sample_set(request["samples"]), files).read(0))
    first = first_ms(invoke)
    progress.say("warm up")
    settled = warm_up(invoke, case)
    pace = Pace(**request["pace"]) if request["pace"] else settled
    with no_garbage_collection():
        timed = time_visit(invoke, pace)
    return {
        "pace": asdict(pace),
        "first_ms": first,
        "times_ns": timed.times_ns,
        "waited_ns": timed.waited_ns,
        "accelerator_actual": loaded.session.accelerator_actual,
        "operators": loaded.session.operators,
    }


if __name__ == "__main__":
    sys.exit(run_worker(visit))
