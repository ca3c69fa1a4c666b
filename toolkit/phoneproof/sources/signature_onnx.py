"""Inputs and outputs of an ONNX model as it is, before a plan fixes any axis."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from phoneproof.errors import SourceModelError
from phoneproof.sources.onnx_model import parse_onnx
from phoneproof.sources.onnx_versions import refuse_newer_opset


def signature_onnx(path: Path) -> Mapping[str, Any]:
    """See sources/signature. SourceModelError for no ONNX model, RecipeError for a newer opset."""
    model = parse_onnx(path)
    refuse_newer_opset(model, str(path))
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [_tensor(v, path) for v in model.graph.input if v.name not in weights]
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
