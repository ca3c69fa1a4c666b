"""The signature worker: `python -m phoneproof.sources.signature REQUEST.json`, for a first plan.

Request: {path}; result: {inputs, outputs}, each {name, dtype, shape}, null where the model leaves a length
open. Unlike the inspection it fixes no axis, since no plan says yet how.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from phoneproof.errors import SourceModelError
from phoneproof.protocol.work import Progress, run_worker
from phoneproof.sources.axes import refuse_batch
from phoneproof.sources.onnx_model import parse_onnx
from phoneproof.sources.onnx_versions import refuse_newer_opset


def signature(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Inputs and outputs of the model.

    SourceModelError for no ONNX model or a batch above 1, RecipeError for a newer opset.
    """
    path = Path(request["path"])
    progress.say("read")
    model = parse_onnx(path)
    refuse_newer_opset(model, str(path))
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [_tensor(v, path) for v in model.graph.input if v.name not in weights]
    refuse_batch(((one["name"], one["shape"]) for one in inputs), str(path))
    return {
        "inputs": inputs,
        "outputs": [_tensor(v, path) for v in model.graph.output],
    }


def _tensor(value: Any, path: Path) -> dict[str, Any]:
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not tensor.HasField("shape"):
        raise SourceModelError(
            f"{value.name!r} is no tensor of known rank.",
            where=str(path),
            next_step="Export the model with tensors of known rank as its inputs and outputs.",
        )
    shape = [
        int(d.dim_value) if d.HasField("dim_value") and d.dim_value > 0 else None for d in tensor.shape.dim
    ]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return {"name": value.name, "dtype": str(dtype), "shape": shape}


if __name__ == "__main__":
    sys.exit(run_worker(signature))
