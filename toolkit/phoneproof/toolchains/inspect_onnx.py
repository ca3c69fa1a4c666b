"""Inspects a .onnx file that was made elsewhere."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import onnx

from phoneproof.builds.manifest import FloatOperator, WideTensor
from phoneproof.errors import BuildFileError, SourceModelError, said
from phoneproof.protocol.tensors import DTYPE_SIZES, TensorSpec
from phoneproof.recipes.table import Precision
from phoneproof.sources.onnx_model import parse_onnx, tensors_of
from phoneproof.sources.onnx_versions import floor_of
from phoneproof.toolchains.build_names import OPEN
from phoneproof.toolchains.inspected import Inspected
from phoneproof.toolchains.onnx_operators import found_operators
from phoneproof.toolchains.result import widest

_WIDER_THAN: Final[Mapping[Precision, frozenset[str]]] = {
    Precision.FLOAT32: frozenset({"float64"}),
    Precision.FLOAT16: frozenset({"float32", "float64"}),
    Precision.INT16X8: frozenset({"float16", "float32", "float64"}),
    Precision.INT8: frozenset({"float16", "float32", "float64"}),
}


def inspect_onnx(path: Path) -> Inspected:
    """The facts of the model. BuildFileError if it is damaged, or has its weights in other files."""
    model = _checked(path)
    found = found_operators(model)
    counts: dict[str, int] = {}
    for one in found:
        counts[one.dtype] = counts.get(one.dtype, 0) + 1
    precision = _precision(counts)
    left = [one for one in found if precision is Precision.INT8 and one.dtype.startswith("float")]
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    return Inspected(
        inputs=tuple(_spec(path, value, _reader_scale(model, value.name)) for value in inputs),
        outputs=tuple(_spec(path, one, _writer_scale(model, one.name)) for one in model.graph.output),
        precision=precision,
        operators=dict(sorted(counts.items())),
        float_operators=tuple(FloatOperator(one.name, one.type, "as_made") for one in left),
        floor=floor_of(model),
        wide_tensors=_wide_tensors(model, precision),
        open_outputs=frozenset(
            one.name for one in model.graph.output if not one.type.tensor_type.HasField("shape")
        ),
    )


def _checked(path: Path) -> Any:
    try:
        model = parse_onnx(path)
        _refuse_external(model, path)
        onnx.checker.check_model(model)
    except SourceModelError as error:
        raise BuildFileError(error.what, where=error.where, next_step=error.next_step) from error
    except (onnx.checker.ValidationError, ValueError) as error:
        raise BuildFileError(
            f"The ONNX checker refuses the build: {said(error)}.",
            where=str(path),
            next_step="Convert the model again.",
        ) from error
    return model


def _refuse_external(model: Any, path: Path) -> None:
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in tensors_of(model.graph)):
        raise BuildFileError(
            "The build has its weights in other files.",
            where=str(path),
            next_step="Save it as one file (onnx.save_model with save_as_external_data=False).",
        )


def _precision(counts: Mapping[str, int]) -> Precision:
    if "int8" in counts:
        return Precision.INT8
    return Precision.FLOAT16 if "float16" in counts and "float32" not in counts else Precision.FLOAT32


def _spec(path: Path, value: Any, scale: tuple[float, int] | None) -> TensorSpec:
    tensor = value.type.tensor_type
    kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name if tensor.elem_type else "none"
    if not value.type.HasField("tensor_type") or kind not in DTYPE_SIZES:
        raise BuildFileError(
            f"{value.name!r} is no tensor of numbers.",
            where=str(path),
            next_step="Convert the model with tensors of numbers as its inputs and outputs.",
        )
    shape = tuple(
        int(axis.dim_value) if axis.HasField("dim_value") and axis.dim_value > 0 else OPEN
        for axis in tensor.shape.dim
    )
    if scale is None or kind not in ("int8", "uint8"):
        return TensorSpec(value.name, kind, shape)
    return TensorSpec(value.name, kind, shape, *scale)


def _reader_scale(model: Any, name: str) -> tuple[float, int] | None:
    """Scale and zero point of an input, where all that read it dequantize it alike."""
    readers = [node for node in model.graph.node if name in node.input]
    if not readers or any(node.op_type != "DequantizeLinear" for node in readers):
        return None
    found = {_parameters(model, node) for node in readers}
    return found.pop() if len(found) == 1 else None


def _writer_scale(model: Any, name: str) -> tuple[float, int] | None:
    writer = next((node for node in model.graph.node if name in node.output), None)
    return _parameters(model, writer) if writer is not None and writer.op_type == "QuantizeLinear" else None


def _parameters(model: Any, node: Any) -> tuple[float, int] | None:
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    scale = constants.get(node.input[1])
    zero = constants.get(node.input[2]) if len(node.input) > 2 else None
    if scale is None or onnx.numpy_helper.to_array(scale).size != 1:
        return None
    point = 0 if zero is None else int(onnx.numpy_helper.to_array(zero).reshape(()))
    return float(onnx.numpy_helper.to_array(scale).reshape(())), point


def _wide_tensors(model: Any, precision: Precision) -> tuple[WideTensor, ...]:
    return widest(
        WideTensor(tensor.name, dtype, onnx.numpy_helper.to_array(tensor).nbytes)
        for tensor in model.graph.initializer
        if (dtype := onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).name) in _WIDER_THAN[precision]
    )
