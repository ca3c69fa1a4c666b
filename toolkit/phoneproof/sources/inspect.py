"""The inspection worker: `python -m phoneproof.sources.inspect REQUEST.json` says what a source model is.

Request: a SourceRequest. Result: SourceFacts as JSON. Of a Python function it leaves the exported program,
`model.pt2`, in the work folder. What reads a format is imported for that format only.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phoneproof.builds.source_facts import SourceFacts
from phoneproof.protocol.codec import from_dict, to_dict
from phoneproof.protocol.work import Progress, run_worker
from phoneproof.sources.request import (
    ExportedProgramRequest,
    OnnxSourceRequest,
    PytorchSourceRequest,
    SourceRequest,
)


def inspect(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Read and check the source model. SourceModelError as the loader of its format."""
    wanted: SourceRequest = from_dict(SourceRequest, request)  # type: ignore[arg-type]
    answer: Mapping[str, Any] = to_dict(_facts(wanted, folder, progress))
    return answer


def _facts(wanted: SourceRequest, folder: Path, progress: Progress) -> SourceFacts:
    if isinstance(wanted, OnnxSourceRequest):
        from phoneproof.sources.inspect_onnx import inspect_onnx

        return inspect_onnx(wanted, progress)
    if isinstance(wanted, PytorchSourceRequest):
        from phoneproof.sources.inspect_torch import inspect_pytorch

        return inspect_pytorch(wanted, folder, progress)
    if isinstance(wanted, ExportedProgramRequest):
        from phoneproof.sources.inspect_torch import inspect_exported_program

        return inspect_exported_program(wanted, progress)
    from phoneproof.sources.inspect_tensorflow import inspect_tensorflow

    return inspect_tensorflow(wanted, folder, progress)


if __name__ == "__main__":
    sys.exit(run_worker(inspect))
