"""The signature worker: `python -m phoneproof.sources.signature REQUEST.json`, for a first plan.

Request: {path}; result: {inputs, outputs}, each {name, dtype, shape}, null where the model leaves a length
open. Unlike the inspection it fixes no axis, since no plan says yet how. The format is told by the ending of
the name, as recipes/source_headers does; what reads a format is imported for that format only.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phoneproof.protocol.work import Progress, run_worker


def signature(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Inputs and outputs of the model.

    SourceModelError for a file that is not of the format of its name, or has a batch above 1.
    """
    path = Path(request["path"])
    progress.say("read")
    if path.suffix == ".pt2":
        from phoneproof.sources.signature_torch import signature_torch

        return signature_torch(path)
    if path.suffix == ".keras" or path.is_dir():
        from phoneproof.sources.inspect_tensorflow import signature_tensorflow

        return signature_tensorflow(path)
    from phoneproof.sources.signature_onnx import signature_onnx

    return signature_onnx(path)


if __name__ == "__main__":
    sys.exit(run_worker(signature))
