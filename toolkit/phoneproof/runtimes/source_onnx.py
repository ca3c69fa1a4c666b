"""The reference of ONNX sources: ONNX Runtime with every graph optimisation off.

What the reference computes is then what the file says.
"""

import onnxruntime as ort

from phoneproof.runtimes.onnxruntime_cpu import OnnxSession, session_options
from phoneproof.runtimes.runtime import LoadRequest, Session


def load(request: LoadRequest) -> Session:
    """A session of the source model."""
    return OnnxSession(request, session_options(request, ort.GraphOptimizationLevel.ORT_DISABLE_ALL))
