"""An ML program as it was written, without the converter's own reader and without any of its passes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from phoneproof.errors import RuntimeUnavailableError, StorageError, UnsupportedOperatorError
from phoneproof.runtimes.mil.types import PROTO_DTYPES, SUB_BYTE_BITS, Array, TensorType, held, unpacked
from phoneproof.runtimes.mil.types import stored_dtype as stored
from phoneproof.runtimes.mil.weights import WeightFiles

VARIADIC: Final = frozenset({"values", "ref_tensors", "begins", "ends", "end_masks", "loop_vars"})
"""Parameters that take a tuple of tensors, also where the tuple has one."""

Constant = Array | str


@dataclass(frozen=True)
class Reference:
    """The value of that name, computed before."""

    name: str


Binding = Reference | Constant


@dataclass(frozen=True)
class Output:
    """One result of an operation."""

    name: str
    type: TensorType


@dataclass(frozen=True)
class Operation:
    """One operation. parameters: by MIL's name; a tuple for those of VARIADIC. constant: of a const."""

    type: str
    name: str
    parameters: Mapping[str, Binding | tuple[Binding, ...]]
    outputs: tuple[Output, ...]
    blocks: tuple["Block", ...] = ()
    constant: Constant | None = None

    def references(self) -> Iterator[str]:
        """Names of the values that it reads itself, those read in its blocks not among them."""
        for bound in self.parameters.values():
            for one in bound if isinstance(bound, tuple) else (bound,):
                if isinstance(one, Reference):
                    yield one.name


@dataclass(frozen=True)
class Block:
    """Operations in the order in which they run."""

    inputs: tuple[Output, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[str, ...]

    def all_operations(self) -> Iterator[Operation]:
        """Its operations and those of the blocks inside them."""
        for operation in self.operations:
            yield operation
            for block in operation.blocks:
                yield from block.all_operations()


def read_program(program: Any, weights: WeightFiles, known: Mapping[str, frozenset[str]]) -> Block:
    """The only function of a MIL.proto Program; its inputs are the block's.

    known: parameters by type of operator. UnsupportedOperatorError if the program has others.
    RuntimeUnavailableError if it has several functions, or values of a kind that is not interpreted here.
    StorageError if a constant cannot be read.
    """
    if len(program.functions) != 1:
        raise RuntimeUnavailableError(
            f"The ML program has {len(program.functions)} functions; mil_interpreter runs a program of one.",
            where=str(weights.package),
            next_step="Save each function as a package of its own.",
            functions=tuple(sorted(program.functions)),
        )
    (function,) = program.functions.values()
    specialization = function.block_specializations.get(function.opset)
    if specialization is None:
        raise StorageError(
            f"The ML program has no block for its own opset {function.opset!r}.", where=str(weights.package)
        )
    _check_known(specialization, known, str(weights.package))
    block = _block(specialization, weights)
    return Block(tuple(_output(i) for i in function.inputs), block.operations, block.outputs)


def _check_known(block: Any, known: Mapping[str, frozenset[str]], where: str) -> None:
    unknown = tuple(_unknown(block, known))
    if unknown:
        raise UnsupportedOperatorError(
            f"mil_interpreter does not know {len(unknown)} of the build's operators: {', '.join(unknown[:5])}"
            f"{', ...' if len(unknown) > 5 else ''}.",
            where=where,
            next_step="Judge this build on an Apple device.",
            operators=unknown,
        )


def _unknown(block: Any, known: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """Each operator that is not known, as "type (name)"; "type.parameter (name)" where only that is not."""
    for operation in block.operations:
        name = _name(operation)
        if operation.type not in known:
            yield f"{operation.type} ({name})"
            continue
        given = {*operation.inputs, *operation.attributes} - {"name", "val"}
        for parameter in sorted(given - known[operation.type]):
            yield f"{operation.type}.{parameter} ({name})"
        for inner in operation.blocks:
            yield from _unknown(inner, known)


def _block(proto: Any, weights: WeightFiles) -> Block:
    inputs = tuple(_output(i) for i in proto.inputs)
    operations = tuple(_operation(o, weights) for o in proto.operations)
    return Block(inputs, operations, tuple(proto.outputs))


def _operation(proto: Any, weights: WeightFiles) -> Operation:
    outputs = tuple(_output(o) for o in proto.outputs)
    attributes = {key: value for key, value in proto.attributes.items() if key not in ("name", "val")}
    constant = None
    if proto.type == "const":
        constant = _value(proto.attributes["val"], weights)
    # The iOS 16 forms of constexpr_* keep their parameters as attributes, the later ones as inputs.
    parameters: dict[str, Binding | tuple[Binding, ...]] = {
        key: _value(value, weights) for key, value in attributes.items()
    }
    for key, argument in proto.inputs.items():
        bound = tuple(_binding(b, weights) for b in argument.arguments)
        parameters[key] = bound if key in VARIADIC or len(bound) != 1 else bound[0]
    blocks = tuple(_block(b, weights) for b in proto.blocks)
    return Operation(proto.type, _name(proto), parameters, outputs, blocks, constant)


def _name(operation: Any) -> str:
    """The operation's own name; its first output's where it has none."""
    if "name" in operation.attributes:
        return str(operation.attributes["name"].immediateValue.tensor.strings.values[0])
    return str(operation.outputs[0].name) if operation.outputs else "without a name"


def _binding(proto: Any, weights: WeightFiles) -> Binding:
    if proto.WhichOneof("binding") == "name":
        return Reference(proto.name)
    return _value(proto.value, weights)


def _output(proto: Any) -> Output:
    return Output(proto.name, tensor_type(proto.type, proto.name))


def tensor_type(proto: Any, place: str) -> TensorType:
    """The type of a ValueType message. RuntimeUnavailableError for lists, states, dictionaries and so on."""
    kind = proto.WhichOneof("type")
    if kind != "tensorType":
        raise RuntimeUnavailableError(
            f"The value {place!r} is a {kind}; mil_interpreter runs programs of tensors only.", where=place
        )
    dtype = PROTO_DTYPES.get(proto.tensorType.dataType)
    if dtype is None:
        raise RuntimeUnavailableError(
            f"The value {place!r} has MIL data type {proto.tensorType.dataType}, which mil_interpreter "
            "does not know.",
            where=place,
        )
    shape = tuple(
        int(d.constant.size) if d.WhichOneof("dimension") == "constant" else None
        for d in proto.tensorType.dimensions
    )
    return TensorType(dtype, shape)


def _value(proto: Any, weights: WeightFiles) -> Constant:
    type_ = tensor_type(proto.type, "constant")
    shape = tuple(length or 0 for length in type_.shape)
    if proto.WhichOneof("value") == "blobFileValue":
        blob = proto.blobFileValue
        return weights.read(blob.fileName, blob.offset, type_.dtype, shape)
    tensor = proto.immediateValue.tensor
    field = tensor.WhichOneof("value")
    values = getattr(tensor, field).values
    if type_.dtype == "string":
        if shape != ():
            return np.array(list(values), dtype=object).reshape(shape)
        return str(values[0])
    try:
        return _immediate(field, values, type_.dtype, shape)
    except ValueError as error:
        raise StorageError(
            f"A constant of {type_.dtype} {list(shape)} cannot be read: {error}.", where=str(weights.package)
        ) from error


def _immediate(field: str, values: Any, dtype: str, shape: tuple[int, ...]) -> Array:
    if field != "bytes":
        return held(np.array(list(values)), dtype).reshape(shape)
    if dtype in SUB_BYTE_BITS:
        packed = np.frombuffer(values, np.uint8)
        count = int(np.prod(shape, dtype=np.int64))
        return unpacked(packed, SUB_BYTE_BITS[dtype], count, dtype == "int4").reshape(shape)
    return held(np.frombuffer(values, stored(dtype)), dtype).reshape(shape)
