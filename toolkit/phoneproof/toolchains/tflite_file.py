"""What stands in a .tflite file: tensors, operators, signature and metadata, read out of its flatbuffer.

Only ai_edge_litert's generated schema is used; nothing of TensorFlow is imported and nothing is run.
"""

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from phoneproof.builds.manifest import WideTensor
from phoneproof.errors import BuildFileError
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.table import Precision
from phoneproof.toolchains.inspected import what_is_damaged
from phoneproof.toolchains.result import widest

REPRESENTATION_TYPES: Final = frozenset({"QUANTIZE", "DEQUANTIZE"})
"""Operators that change the representation and compute nothing of the model; not counted."""

MOVING_TYPES: Final = frozenset(
    {"RESHAPE", "TRANSPOSE", "SQUEEZE", "EXPAND_DIMS", "SLICE", "STRIDED_SLICE", "SPLIT", "SPLIT_V", "PACK"}
    | {"UNPACK", "CONCATENATION", "PAD", "PADV2", "MIRROR_PAD", "TILE", "GATHER", "GATHER_ND", "BROADCAST_TO"}
    | {"DEPTH_TO_SPACE", "SPACE_TO_DEPTH", "BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND", "REVERSE_V2"}
)
"""Operators that move values and compute none."""

_MAGIC: Final = b"TFL3"
_FLOATS: Final = ("float32", "float16", "bfloat16", "float64")
_SMALL_INTEGERS: Final = frozenset({"int8", "uint8", "int4", "uint4", "int2"})
_WIDER_THAN: Final[Mapping[Precision, frozenset[str]]] = {
    Precision.FLOAT32: frozenset({"float64"}),
    Precision.FLOAT16: frozenset({"float32", "float64"}),
    Precision.INT16X8: frozenset(_FLOATS),
    Precision.INT8: frozenset(_FLOATS),
}
_RUNTIME_METADATA: Final = "min_runtime_version"


@dataclass(frozen=True)
class TfliteTensor:
    """One tensor of a subgraph.

    dtype: numpy's name where numpy has the type (int4, bfloat16, string and so on elsewhere).
    shape: as stored, 1 for a length that is open. signature: the same with -1 for an open length.
    scales, zero_points: one value per tensor, or one per index of `axis`; empty where not quantized.
    buffer: number of the constant's buffer, None for a value that is computed. size_bytes: of that buffer.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int
    buffer: int | None
    size_bytes: int

    @property
    def is_constant(self) -> bool:
        """Whether the file holds its values."""
        return self.buffer is not None


@dataclass(frozen=True)
class TfliteOperator:
    """One operator. name: of its first output (operators have no names of their own in this format).

    type: the builtin operator's name, or the custom operator's. inputs leave out the optional ones.
    """

    name: str
    type: str
    is_custom: bool
    inputs: tuple[TfliteTensor, ...]
    outputs: tuple[TfliteTensor, ...]


@dataclass(frozen=True)
class TfliteFile:
    """A file. inputs, outputs: of the main subgraph, in the order in which the interpreter takes them.

    input_names, output_names: as the only signature of the main subgraph calls them, else the tensors' own.
    operators: of all subgraphs. metadata: the bytes of each named entry.
    """

    path: Path
    description: str
    inputs: tuple[TfliteTensor, ...]
    outputs: tuple[TfliteTensor, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    operators: tuple[TfliteOperator, ...]
    constants: tuple[TfliteTensor, ...]
    metadata: Mapping[str, bytes]

    @property
    def runtime_version(self) -> str | None:
        """The least TensorFlow Lite version that has all operators, as the converter wrote it."""
        text = self.metadata.get(_RUNTIME_METADATA, b"").split(b"\0")[0].decode("ascii", errors="replace")
        return text.strip() or None


def read_tflite(path: Path) -> TfliteFile:
    """The file at `path`. BuildFileError if it is no .tflite file, or is damaged."""
    content = path.read_bytes()
    if content[4:8] != _MAGIC:
        raise BuildFileError(
            "The file is not a TFLite model, or is truncated.",
            where=str(path),
            next_step="Copy or convert the model again.",
        )
    try:
        return _read(path, content)
    except (struct.error, IndexError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise BuildFileError(
            f"The TFLite file is damaged: {what_is_damaged(error)}.",
            where=str(path),
            next_step="Copy or convert the model again, and check that the copy is complete.",
        ) from error


def compute_dtype(operator: TfliteOperator) -> str:
    """The dtype that an operator computes in: int8 stands for signed and unsigned.

    With weights in 8 bits or less and float activations (dynamic range quantization) the kernels quantize
    the activations and multiply in int8. An operator with int16 activations is int16 whatever its weights.
    """
    flowing = [t.dtype for t in (*operator.inputs, *operator.outputs) if not t.is_constant]
    for dtype in _FLOATS:
        if dtype in flowing:
            hybrid = any(t.is_constant and t.scales and t.dtype in _SMALL_INTEGERS for t in operator.inputs)
            return "int8" if hybrid else dtype
    quantized = {t.dtype for t in (*operator.inputs, *operator.outputs) if not t.is_constant and t.scales}
    if "int16" in quantized:
        return "int16"
    if quantized & _SMALL_INTEGERS:
        return "int8"
    return flowing[0] if flowing else "none"


def counted_operators(file: TfliteFile) -> Iterator[TfliteOperator]:
    """The operators that compute something of the model: all but quantize and dequantize."""
    return (one for one in file.operators if one.is_custom or one.type not in REPRESENTATION_TYPES)


def operator_counts(file: TfliteFile) -> dict[str, int]:
    """Number of operators by the dtype they compute in."""
    return dict(sorted(Counter(compute_dtype(one) for one in counted_operators(file)).items()))


def float_operators(file: TfliteFile) -> tuple[TfliteOperator, ...]:
    """The operators that compute in float, in the order of the file."""
    return tuple(one for one in counted_operators(file) if compute_dtype(one) in _FLOATS)


def precision_of(file: TfliteFile) -> Precision:
    """The precision that the file is for, by what its operators compute in and its weights are stored in."""
    counts = operator_counts(file)
    if "int16" in counts:
        return Precision.INT16X8
    if "int8" in counts:
        return Precision.INT8
    stored = {tensor.dtype for tensor in file.constants}
    return Precision.FLOAT16 if "float16" in stored else Precision.FLOAT32


def wide_tensors(file: TfliteFile, precision: Precision) -> tuple[WideTensor, ...]:
    """Constants in a wider float type than `precision` is for; one that several tensors share counts once."""
    by_buffer = {t.buffer: t for t in reversed(file.constants) if t.dtype in _WIDER_THAN[precision]}
    return widest(WideTensor(t.name, t.dtype, t.size_bytes) for t in by_buffer.values())


def tensor_specs(names: Sequence[str], tensors: Sequence[TfliteTensor]) -> tuple[TensorSpec, ...]:
    """Inputs or outputs by these names; those with one scale have it and its zero point."""
    return tuple(_tensor_spec(*one) for one in zip(names, tensors, strict=True))


def _tensor_spec(name: str, tensor: TfliteTensor) -> TensorSpec:
    if len(tensor.scales) != 1:
        return TensorSpec(name, tensor.dtype, tensor.shape)
    return TensorSpec(name, tensor.dtype, tensor.shape, tensor.scales[0], (tensor.zero_points or (0,))[0])


def _read(path: Path, content: bytes) -> TfliteFile:
    from ai_edge_litert import schema_py_generated as schema

    model: Any = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    if not model.subgraphs:
        raise ValueError("it has no subgraph")
    types = {value: name for name, value in vars(schema.BuiltinOperator).items() if name.isupper()}
    dtypes = {value: name.lower() for name, value in vars(schema.TensorType).items() if name.isupper()}
    sizes = [_buffer_size(buffer, len(content)) for buffer in model.buffers]
    graphs = [[_tensor(t, dtypes, sizes) for t in _listed(graph.tensors)] for graph in model.subgraphs]
    operators = tuple(
        _operator(operator, model.operatorCodes, tensors, types)
        for graph, tensors in zip(model.subgraphs, graphs, strict=True)
        for operator in _listed(graph.operators)
    )
    main, tensors = model.subgraphs[0], graphs[0]
    inputs, outputs = _listed(main.inputs), _listed(main.outputs)
    input_names, output_names = _names(model, inputs, outputs, tensors)
    return TfliteFile(
        path=path,
        description=_text(model.description),
        inputs=tuple(tensors[index] for index in inputs),
        outputs=tuple(tensors[index] for index in outputs),
        input_names=input_names,
        output_names=output_names,
        operators=operators,
        constants=tuple(t for graph in graphs for t in graph if t.is_constant),
        metadata={
            _text(entry.name): bytes(_listed(model.buffers[entry.buffer].data))
            for entry in _listed(model.metadata)
        },
    )


def _names(
    model: Any, inputs: list[int], outputs: list[int], tensors: list[TfliteTensor]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    own = tuple(tensors[i].name for i in inputs), tuple(tensors[i].name for i in outputs)
    found = [one for one in _listed(model.signatureDefs) if one.subgraphIndex == 0]
    if len(found) != 1:
        return own
    named_inputs = {entry.tensorIndex: _text(entry.name) for entry in _listed(found[0].inputs)}
    named_outputs = {entry.tensorIndex: _text(entry.name) for entry in _listed(found[0].outputs)}
    if set(named_inputs) != set(inputs) or set(named_outputs) != set(outputs):
        return own
    return tuple(named_inputs[i] for i in inputs), tuple(named_outputs[i] for i in outputs)


def _buffer_size(buffer: Any, file_size: int) -> int:
    """Bytes of a buffer; those of models above 2 GiB lie behind the flatbuffer, at an offset above 1."""
    if buffer.offset > 1:
        if buffer.offset + buffer.size > file_size:
            raise ValueError("the file ends before its weights do")
        return int(buffer.size)
    return len(_listed(buffer.data))


def _tensor(tensor: Any, dtypes: Mapping[int, str], sizes: list[int]) -> TfliteTensor:
    shape = tuple(int(length) for length in _listed(tensor.shape))
    signature = tuple(int(length) for length in _listed(tensor.shapeSignature)) or shape
    quantization = tensor.quantization
    size = sizes[tensor.buffer]
    return TfliteTensor(
        name=_text(tensor.name),
        dtype=dtypes[tensor.type],
        shape=shape,
        signature=signature,
        scales=tuple(float(s) for s in _listed(quantization and quantization.scale)),
        zero_points=tuple(int(z) for z in _listed(quantization and quantization.zeroPoint)),
        axis=int(quantization.quantizedDimension) if quantization else 0,
        buffer=int(tensor.buffer) if size else None,
        size_bytes=size,
    )


def _operator(
    operator: Any, codes: list[Any], tensors: list[TfliteTensor], types: Mapping[int, str]
) -> TfliteOperator:
    code = codes[operator.opcodeIndex]
    # Old files hold the code in a byte, where 127 says that the wider field counts.
    kind = types[max(code.builtinCode, code.deprecatedBuiltinCode)]
    is_custom = kind == "CUSTOM"
    outputs = tuple(tensors[index] for index in _listed(operator.outputs) if index >= 0)
    return TfliteOperator(
        name=outputs[0].name if outputs else "",
        type=_text(code.customCode) if is_custom else kind,
        is_custom=is_custom,
        inputs=tuple(tensors[index] for index in _listed(operator.inputs) if index >= 0),
        outputs=outputs,
    )


def _listed(values: Any) -> list[Any]:
    return [] if values is None else list(values)


def _text(value: Any) -> str:
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value or "")
