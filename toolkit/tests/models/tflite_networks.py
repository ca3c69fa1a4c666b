"""Small .tflite files, written by the schema: TensorFlow is not needed for them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import flatbuffers
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray


def sums(
    path: Path, kinds: Sequence[str], length: int = 4, open_axis: bool = False, named: bool = True
) -> Path:
    """`left` and `right`, each float32 (1, length), added, then one operator of each of `kinds` in turn.

    kinds: builtin operators with one input and no options, or custom ones (lower case, or Flex…).
    named: with a signature; else only the tensors have names, `t_left` and so on.
    """
    model = schema.ModelT()
    model.version, model.description = 3, "test"
    model.buffers = [schema.BufferT()]
    model.operatorCodes = [_code(kind) for kind in ("ADD", *kinds)]
    graph = schema.SubGraphT()
    names = ["t_left", "t_right", *(f"t_{index}" for index in range(len(kinds))), "t_result"]
    graph.tensors = [_tensor(name, length, open_axis) for name in names]
    graph.inputs, graph.outputs = [0, 1], [len(names) - 1]
    graph.operators = [_operator(0, [0, 1], 2)]
    graph.operators += [_operator(i + 1, [i + 2], i + 3) for i in range(len(kinds))]
    model.subgraphs = [graph]
    if named:
        model.signatureDefs = [_signature()]
        model.signatureDefs[0].outputs[0].tensorIndex = len(names) - 1
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    return path


def holding(constants: Sequence[NDArray[Any]]) -> bytes:
    """A file of constants and no operators."""
    model, graph = schema.ModelT(), schema.SubGraphT()
    model.version, model.buffers, graph.tensors = 3, [schema.BufferT()], []
    for index, values in enumerate(constants):
        buffer, tensor = schema.BufferT(), schema.TensorT()
        buffer.data = list(values.tobytes())
        model.buffers.append(buffer)
        tensor.name, tensor.buffer = f"constant_{index}".encode(), index + 1
        tensor.shape = list(values.shape)
        tensor.type = getattr(schema.TensorType, values.dtype.name.upper())
        graph.tensors.append(tensor)
    graph.inputs, graph.outputs, graph.operators = [], [], []
    model.subgraphs = [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _code(kind: str) -> Any:
    code = schema.OperatorCodeT()
    builtin = getattr(schema.BuiltinOperator, kind, None) if kind.isupper() else None
    code.builtinCode = schema.BuiltinOperator.CUSTOM if builtin is None else builtin
    code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    code.customCode = kind.encode() if builtin is None else None
    code.version = 1
    return code


def _tensor(name: str, length: int, open_axis: bool) -> Any:
    tensor = schema.TensorT()
    tensor.name, tensor.type, tensor.buffer = name.encode(), schema.TensorType.FLOAT32, 0
    tensor.shape = [1, 1 if open_axis else length]
    tensor.shapeSignature = [1, -1] if open_axis else None
    return tensor


def _operator(code: int, inputs: list[int], output: int) -> Any:
    operator = schema.OperatorT()
    operator.opcodeIndex, operator.inputs, operator.outputs = code, inputs, [output]
    if code == 0:
        operator.builtinOptionsType, operator.builtinOptions = (
            schema.BuiltinOptions.AddOptions,
            schema.AddOptionsT(),
        )
    return operator


def _signature() -> Any:
    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = b"serving_default", 0
    signature.inputs = [_map(b"left", 0), _map(b"right", 1)]
    signature.outputs = [_map(b"result", 2)]
    return signature


def _map(name: bytes, index: int) -> Any:
    entry = schema.TensorMapT()
    entry.name, entry.tensorIndex = name, index
    return entry
