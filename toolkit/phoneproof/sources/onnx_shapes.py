"""Fixing the dynamic axes of an ONNX model, and describing its inputs and outputs."""

from collections.abc import Iterator
from typing import Any

import onnx

from phoneproof.errors import SourceModelError
from phoneproof.protocol.tensors import DTYPE_SIZES, TensorSpec
from phoneproof.sources.axes import PLAN_KEY, fixed_length, refuse_rank, refuse_unknown_inputs
from phoneproof.sources.onnx_folding import folded


def fixed(model: Any, shapes: dict[str, tuple[int, ...]], place: str) -> Any:
    """The model with every axis of every input fixed and all shapes inferred from that.

    shapes: input name to shape, batch included. Raises SourceModelError as `load_onnx` says.
    """
    refuse_unknown_inputs(shapes, [value.name for value in model.graph.input], place)
    bound: dict[str, int] = {}
    for value in model.graph.input:
        _fix_input(value, shapes.get(value.name), bound, place)
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for axis in value.type.tensor_type.shape.dim:
            if axis.dim_param in bound and axis.HasField("dim_param"):
                axis.dim_value = bound[axis.dim_param]
    _forget_dynamic_values(model)
    try:
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        raise SourceModelError(
            "The shapes of the model's tensors contradict each other.",
            where=place,
            next_step=f"Check {PLAN_KEY}, or export the model with fixed shapes.",
            cause=str(error).strip()[:400],
        ) from error
    if not all(_is_fixed(value) for value in model.graph.output):
        _fix_outputs(model, place)
    return model


def declared(model: Any) -> Iterator[tuple[str, tuple[int | None, ...]]]:
    """Name and shape of each input as the file has it, None for an open length; those of known rank."""
    for value in model.graph.input:
        tensor = value.type.tensor_type
        if value.type.HasField("tensor_type") and tensor.HasField("shape"):
            axes = tensor.shape.dim
            yield (
                value.name,
                tuple(a.dim_value if a.HasField("dim_value") and a.dim_value > 0 else None for a in axes),
            )


def _fix_outputs(model: Any, place: str) -> None:
    """Give the outputs the shapes that they have once constants are computed.

    Exporters compute the arguments of Pad, Reshape or Resize out of other shapes, by more operators than
    ONNX's own inference follows; folding makes constants of them.
    """
    known = {value.name: value for value in folded(model, place).graph.output}
    for value in model.graph.output:
        if not _is_fixed(value) and _is_fixed(known[value.name]):
            value.CopyFrom(known[value.name])


def _is_fixed(value: Any) -> bool:
    tensor = value.type.tensor_type
    return tensor.HasField("shape") and all(axis.HasField("dim_value") for axis in tensor.shape.dim)


def specs(model: Any, place: str) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """The inputs and outputs of a model with inferred shapes. SourceModelError where one stays unknown."""
    inputs = tuple(_spec(value, "input", place) for value in model.graph.input)
    outputs = tuple(_spec(value, "output", place) for value in model.graph.output)
    if not inputs or not outputs:
        raise SourceModelError(
            "The model has no input or no output.", where=place, next_step="Export the model again."
        )
    return inputs, outputs


def _fix_input(value: Any, wanted: tuple[int, ...] | None, bound: dict[str, int], place: str) -> None:
    where = f"{place}: input {value.name!r}"
    if value.type.WhichOneof("value") != "tensor_type":
        raise SourceModelError(
            "The input is not a tensor.", where=where, next_step="Export the model with tensor inputs only."
        )
    tensor = value.type.tensor_type
    if not tensor.HasField("shape") and wanted is not None:
        for _ in wanted:
            tensor.shape.dim.add()
    axes = tensor.shape.dim
    if not tensor.HasField("shape"):
        raise SourceModelError(
            "The model does not say how many axes the input has.",
            where=where,
            next_step=f"Set its whole shape, batch included, in {PLAN_KEY}.",
        )
    refuse_rank(wanted, len(axes), where)
    for index, axis in enumerate(axes):
        _fix_axis(index, axis, None if wanted is None else wanted[index], bound, where)


def _fix_axis(index: int, axis: Any, wanted: int | None, bound: dict[str, int], where: str) -> None:
    label = axis.dim_param or "unnamed"
    known = axis.dim_value if axis.HasField("dim_value") else bound.get(axis.dim_param)
    length = fixed_length(index, label, known, wanted, where)
    if axis.HasField("dim_param") and axis.dim_param:
        bound[axis.dim_param] = length
    axis.dim_value = length


def _forget_dynamic_values(model: Any) -> None:
    """Inner shapes that the exporter left dynamic are inferred anew; stale names would stand in the way."""
    keep = [
        value
        for value in model.graph.value_info
        if all(axis.HasField("dim_value") for axis in value.type.tensor_type.shape.dim)
    ]
    del model.graph.value_info[:]
    model.graph.value_info.extend(keep)
    for value in model.graph.output:
        for axis in value.type.tensor_type.shape.dim:
            if axis.HasField("dim_param"):
                axis.ClearField("dim_param")


def _spec(value: Any, role: str, place: str) -> TensorSpec:
    where = f"{place}: {role} {value.name!r}"
    tensor = value.type.tensor_type
    axes = tensor.shape.dim
    if not _is_fixed(value):
        raise SourceModelError(
            f"The shape of the {role} depends on the data.",
            where=where,
            next_step="Export the model without the part that filters its results; filter outside the model.",
        )
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name if tensor.elem_type else "unknown"
    if dtype not in DTYPE_SIZES:
        raise SourceModelError(
            f"The {role} has dtype {dtype}, which no runtime here takes.",
            where=where,
            next_step=f"Export the model with one of {', '.join(DTYPE_SIZES)}.",
        )
    return TensorSpec(name=value.name, dtype=dtype, shape=tuple(axis.dim_value for axis in axes))
