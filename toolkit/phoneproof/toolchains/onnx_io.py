"""Inputs and outputs in int8: the outer quantize and dequantize operators move out of the model."""

from typing import Any

import onnx

from phoneproof.errors import RecipeError
from phoneproof.protocol.tensors import TensorSpec


def with_int8_io(
    model: Any, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]
) -> tuple[Any, Any]:
    """Remove the outer operators of `model` in place; the specs of inputs and outputs afterwards.

    Each float input or output becomes int8 under its own name, with scale and zero_point in its spec; others
    (token ids and the like) stay. Raises RecipeError where a float one is not directly quantized.
    """
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    new_inputs = tuple(_int8_input(model, spec, constants) for spec in inputs)
    new_outputs = tuple(_int8_output(model, spec, constants) for spec in outputs)
    _drop_unused_weights(model)
    return new_inputs, new_outputs


def _int8_input(model: Any, spec: TensorSpec, constants: dict[str, Any]) -> TensorSpec:
    if not spec.dtype.startswith("float"):
        return spec
    readers = [node for node in model.graph.node if spec.name in node.input]
    if not readers or any(node.op_type != "QuantizeLinear" for node in readers):
        raise _refusal("input", spec.name)
    if len({tuple(node.input[1:]) for node in readers}) != 1:
        raise _refusal("input", spec.name)
    scale, zero_point = _parameters(readers[0], constants, "input", spec.name)
    for reader in readers:
        _rename(model, reader.output[0], spec.name)
        model.graph.node.remove(reader)
    return _retyped(model.graph.input, spec, scale, zero_point)


def _int8_output(model: Any, spec: TensorSpec, constants: dict[str, Any]) -> TensorSpec:
    if not spec.dtype.startswith("float"):
        return spec
    producer = next((node for node in model.graph.node if spec.name in node.output), None)
    if producer is None or producer.op_type != "DequantizeLinear":
        raise _refusal("output", spec.name)
    stored = producer.input[0]
    outer = {value.name for value in (*model.graph.input, *model.graph.output)}
    if stored in outer or stored in constants:
        raise _refusal("output", spec.name)
    scale, zero_point = _parameters(producer, constants, "output", spec.name)
    if any(spec.name in node.input for node in model.graph.node):
        inner = f"{spec.name}_dequantized"
        producer.output[0] = inner
        for node in model.graph.node:
            _replace(node.input, spec.name, inner)
    else:
        model.graph.node.remove(producer)
    _rename(model, stored, spec.name)
    return _retyped(model.graph.output, spec, scale, zero_point)


def _parameters(node: Any, constants: dict[str, Any], role: str, name: str) -> tuple[float, int]:
    scale, zero_point = constants.get(node.input[1]), constants.get(node.input[2])
    if scale is None or zero_point is None or scale.size != 1 or zero_point.dtype.name != "int8":
        raise _refusal(role, name)
    return float(scale.reshape(())), int(zero_point.reshape(()))


def _refusal(role: str, name: str) -> RecipeError:
    return RecipeError(
        f"The {role} {name!r} cannot be int8: the operator beside it is not quantized to int8.",
        where="io",
        next_step='Use io = "float32", or do not keep that operator in float.',
    )


def _retyped(values: Any, spec: TensorSpec, scale: float, zero_point: int) -> TensorSpec:
    value = next(value for value in values if value.name == spec.name)
    value.type.tensor_type.elem_type = onnx.TensorProto.INT8
    return TensorSpec(spec.name, "int8", spec.shape, scale, zero_point)


def _rename(model: Any, old: str, new: str) -> None:
    for node in model.graph.node:
        _replace(node.input, old, new)
        _replace(node.output, old, new)
    for value in list(model.graph.value_info):
        if value.name in (old, new):
            model.graph.value_info.remove(value)


def _replace(names: Any, old: str, new: str) -> None:
    for index, name in enumerate(names):
        if name == old:
            names[index] = new


def _drop_unused_weights(model: Any) -> None:
    used = {name for node in model.graph.node for name in node.input}
    used |= {value.name for value in model.graph.output}
    for tensor in list(model.graph.initializer):
        if tensor.name not in used:
            model.graph.initializer.remove(tensor)
