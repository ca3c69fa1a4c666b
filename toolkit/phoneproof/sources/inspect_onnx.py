"""What an ONNX source model is."""

from collections import Counter
from typing import Any

from phoneproof.builds.source_facts import OperatorNames, SourceFacts
from phoneproof.protocol.work import Progress
from phoneproof.sources.anatomy_onnx import anatomy_onnx
from phoneproof.sources.axes import refuse_batch
from phoneproof.sources.onnx_model import external_files, load_source
from phoneproof.sources.onnx_versions import opset_of, refuse_newer_opset
from phoneproof.sources.request import OnnxSourceRequest
from phoneproof.sources.source_files import file_reference


def inspect_onnx(request: OnnxSourceRequest, progress: Progress) -> SourceFacts:
    """Read and check the source model. Raises what `load_source` and the `refuse_` functions raise."""
    progress.say("inspect")
    source = load_source(request)
    refuse_newer_opset(source.model, request.path)
    refuse_batch(((tensor.name, tensor.shape) for tensor in source.inputs), request.path, request.shapes)
    graph = source.model.graph
    folder = source.path.parent.resolve()
    files = tuple(file_reference(path, folder) for path in external_files(source.path))
    return SourceFacts(
        sha256=source.sha256,
        size_bytes=sum(file.size_bytes for file in files),
        files=files,
        inputs=source.inputs,
        outputs=source.outputs,
        operators=dict(sorted(Counter(node.op_type for node in graph.node).items())),
        parameters=sum(_elements(tensor.dims) for tensor in graph.initializer),
        opset=opset_of(source.model),
        ir=source.model.ir_version,
        open_inputs=source.open_inputs,
        anatomy=anatomy_onnx(source.model),
        called=OperatorNames.of((n.name for n in graph.node), (n.op_type for n in graph.node)),
    )


def _elements(dims: Any) -> int:
    count = 1
    for length in dims:
        count *= int(length)
    return count
