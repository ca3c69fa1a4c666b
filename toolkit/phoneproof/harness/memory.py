"""Peak memory of a configuration in a process of its own (`python -m phoneproof.harness.memory REQUEST`).

In the runner's process the first build would pay for what the runtime allocates once (13 MB with ONNX
Runtime), and later ones would use memory that earlier ones gave back: the float baseline, which comes first,
would look worse than it is. Here every build starts alike: the runtime imported, no build loaded before.
"""

import sys
from collections.abc import Mapping
from json import loads
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

from phoneproof.harness.attempt import CurrentAttempt
from phoneproof.harness.children import run_child
from phoneproof.harness.configurations import load_configuration
from phoneproof.protocol.job import InferCase, read_job
from phoneproof.protocol.sample_files import SampleReader
from phoneproof.protocol.work import RESULT_FILE, Progress, run_worker
from phoneproof.runtimes.registry import open_runtime


def peak_memory_bytes(attempt: CurrentAttempt, case: InferCase, timeout_s: float) -> int | None:
    """Highest resident memory of loading the case's configuration and running its first sample.

    In bytes, above the process with the runtime imported. None where the kernel does not tell, or where the
    process did not end well in timeout_s: the case itself has run, so that is no fault of the build's.
    """
    work = attempt.folder / "memory" / case.configuration
    request = {
        "folder": str(attempt.folder),
        "configuration": case.configuration,
        "samples": case.samples,
        "sample": case.first,
        "runtime_modules": dict(attempt.runtime_modules),
    }
    try:
        code = run_child("phoneproof.harness.memory", request, work, timeout_s)
        answer = loads((work / RESULT_FILE).read_text(encoding="utf-8")) if code == 0 else {}
    except (TimeoutExpired, OSError, ValueError):
        return None
    found = answer.get("peak_memory_bytes")
    return found if isinstance(found, int) else None


def measure(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Load the configuration, run one sample, and tell the peak."""
    job_folder = Path(request["folder"])
    job = read_job((job_folder / "job.json").read_text(encoding="utf-8"))
    files = job_folder / "files"
    configuration = job.configuration(request["configuration"])
    inputs = SampleReader(job.sample_set(request["samples"]), files).read(request["sample"])
    open_runtime(configuration.runtime, request["runtime_modules"])
    progress.say("load")
    loaded = load_configuration(configuration, files, request["runtime_modules"])
    progress.say("run")
    loaded.session.prepare(inputs)()
    return {"peak_memory_bytes": loaded.memory.read()}


if __name__ == "__main__":
    sys.exit(run_worker(measure))
