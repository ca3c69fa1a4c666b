"""The reference: the source model itself, run as it came, on the host.

An ONNX source runs in ONNX Runtime with every graph optimisation off, so that what the reference computes is
what the file says.
"""

import onnxruntime as ort

from phoneproof.errors import RuntimeUnavailableError
from phoneproof.runtimes.onnxruntime_cpu import OnnxSession, session_options
from phoneproof.runtimes.runtime import LoadRequest, Runtime, Session


def runtime() -> Runtime:
    """The reference for ONNX sources."""
    return Runtime("source", ort.__version__, load)


def load(request: LoadRequest) -> Session:
    """A session of the source model; the reference runs on the CPU only."""
    if request.accelerator != "cpu":
        raise RuntimeUnavailableError(f"The reference runs on the CPU, not on {request.accelerator!r}.")
    return OnnxSession(request, session_options(request, ort.GraphOptimizationLevel.ORT_DISABLE_ALL))
