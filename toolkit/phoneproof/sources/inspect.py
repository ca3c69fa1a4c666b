"""The inspection worker: `python -m phoneproof.sources.inspect REQUEST.json` says what a source model is.

Request: an OnnxSourceRequest. Result: SourceFacts as JSON.
"""

import hashlib
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phoneproof.builds.source_facts import SourceFacts
from phoneproof.protocol.codec import from_dict, to_dict
from phoneproof.protocol.job import FileRef
from phoneproof.protocol.work import Progress, run_worker
from phoneproof.sources.axes import refuse_batch
from phoneproof.sources.onnx_model import external_files, load_source
from phoneproof.sources.onnx_versions import opset_of, refuse_newer_opset
from phoneproof.sources.request import OnnxSourceRequest


def inspect(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Read and check the source model. Raises what `load_source` and the `refuse_` functions raise."""
    wanted = from_dict(OnnxSourceRequest, request)
    progress.say("inspect")
    source = load_source(wanted)
    refuse_newer_opset(source.model, wanted.path)
    refuse_batch(((tensor.name, tensor.shape) for tensor in source.inputs), wanted.path)
    graph = source.model.graph
    files = tuple(_reference(path, source.path.parent.resolve()) for path in external_files(source.path))
    facts = SourceFacts(
        sha256=source.sha256,
        size_bytes=sum(file.size_bytes for file in files),
        files=files,
        inputs=source.inputs,
        outputs=source.outputs,
        operators=dict(sorted(Counter(node.op_type for node in graph.node).items())),
        parameters=sum(_elements(tensor.dims) for tensor in graph.initializer),
        opset=opset_of(source.model),
        ir=source.model.ir_version,
    )
    answer: Mapping[str, Any] = to_dict(facts)
    return answer


def _reference(path: Path, folder: Path) -> FileRef:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name
    return FileRef(name, digest, path.stat().st_size)


def _elements(dims: Any) -> int:
    count = 1
    for length in dims:
        count *= int(length)
    return count


if __name__ == "__main__":
    sys.exit(run_worker(inspect))
