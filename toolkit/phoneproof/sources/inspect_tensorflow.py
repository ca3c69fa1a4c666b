"""What a Keras model or a SavedModel is: for the inspection worker and for a first plan."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phoneproof.builds.model_files import model_files
from phoneproof.builds.source_facts import OperatorNames, SourceFacts
from phoneproof.errors import SourceModelError
from phoneproof.protocol.work import Progress
from phoneproof.sources.anatomy_tensorflow import anatomy_tensorflow
from phoneproof.sources.axes import refuse_batch
from phoneproof.sources.keras_model import load_keras, open_keras
from phoneproof.sources.request import KerasSourceRequest, SavedModelRequest
from phoneproof.sources.savedmodel import load_savedmodel, open_savedmodel
from phoneproof.sources.tensorflow_graph import OpenTensor, TensorflowSource, names_and_types


def load_tensorflow(request: KerasSourceRequest | SavedModelRequest) -> TensorflowSource:
    """The source model that `request` names. SourceModelError as its loader."""
    if isinstance(request, KerasSourceRequest):
        return load_keras(request)
    return load_savedmodel(request)


def inspect_tensorflow(
    request: KerasSourceRequest | SavedModelRequest, folder: Path, progress: Progress
) -> SourceFacts:
    """Read and check the source model. SourceModelError as its loader, and for a batch above 1.

    operators: of the frozen graph, by TensorFlow's type.
    """
    progress.say("inspect")
    source = load_tensorflow(request)
    refuse_batch(((tensor.name, tensor.shape) for tensor in source.inputs), request.path, request.shapes)
    files = model_files(source.path)
    return SourceFacts(
        sha256=source.sha256,
        size_bytes=sum(file.size_bytes for file in files),
        files=files,
        inputs=source.inputs,
        outputs=source.outputs,
        operators=dict(sorted(Counter(source.nodes.values()).items())),
        parameters=source.parameters,
        open_inputs=source.open_inputs,
        anatomy=anatomy_tensorflow(source),
        called=OperatorNames.of(*names_and_types(source)),
    )


def signature_tensorflow(path: Path) -> Mapping[str, Any]:
    """Inputs and outputs of the model at `path`, each {name, dtype, shape}, null for an open length.

    SourceModelError as its loader, for a batch above 1 and for a tensor of unknown rank.
    """
    model = open_savedmodel(path) if path.is_dir() else open_keras(path)
    inputs = [_described(tensor, path) for tensor in model.inputs]
    return {"inputs": inputs, "outputs": [_described(tensor, path) for tensor in model.outputs]}


def _described(tensor: OpenTensor, path: Path) -> dict[str, Any]:
    if tensor.shape is None:
        raise SourceModelError(
            f"{tensor.name!r} is no tensor of known rank.",
            where=str(path),
            next_step="Export the model with tensors of known rank as its inputs and outputs.",
        )
    return {"name": tensor.name, "dtype": tensor.dtype, "shape": list(tensor.shape)}
