"""What stands in a .mlpackage folder: an ML program's inputs, operators and constants, as it was written.

Only coremltools' protobuf classes are used (without TensorFlow, see runtimes/mil/vendor.py); nothing is run,
and no weights are read: their types and shapes stand in the program.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

from phoneproof.builds.manifest import WideTensor
from phoneproof.errors import BuildFileError
from phoneproof.recipes.mlpackage_folder import COPY_AGAIN
from phoneproof.recipes.table import Precision
from phoneproof.runtimes.mil.types import PROTO_DTYPES, SUB_BYTE_BITS
from phoneproof.toolchains.mil_flow import MilFlow, MilOperator, MilValue
from phoneproof.toolchains.result import widest

_DEPLOYMENT_TARGETS: Final[Mapping[int, str]] = {6: "iOS15", 7: "iOS16", 8: "iOS17", 9: "iOS18", 10: "iOS26"}
"""Least system for each version of the specification (coremltools 9, coremltools/__init__.py)."""

_BITS: Final[Mapping[str, int]] = {
    "bool": 8, "fp16": 16, "fp32": 32, "fp64": 64, "int8": 8, "int16": 16, "int32": 32, "int64": 64,
    "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64, **SUB_BYTE_BITS,
}  # fmt: skip
_WIDER_THAN: Final[Mapping[Precision, frozenset[str]]] = {
    Precision.FLOAT32: frozenset({"float64"}),
    Precision.FLOAT16: frozenset({"float32", "float64"}),
    Precision.INT16X8: frozenset({"float16", "float32", "float64"}),
    Precision.INT8: frozenset({"float16", "float32", "float64"}),
}


@dataclass(frozen=True)
class MlFeature:
    """An input or output. shape: the usual one, None where the program tells it only when it runs.

    flexible: axes whose length may change; of an input with enumerated shapes, those that differ.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] | None
    flexible: tuple[int, ...] = ()


@dataclass(frozen=True)
class MlConstant:
    """A constant of the program. dtype: that it is stored in. size_bytes: of its values."""

    name: str
    dtype: str
    size_bytes: int


@dataclass(frozen=True)
class MlpackageFile:
    """An ML program of one function. operators: in the order of the program, blocks inside others too."""

    path: Path
    inputs: tuple[MlFeature, ...]
    outputs: tuple[MlFeature, ...]
    operators: tuple[MilOperator, ...]
    constants: tuple[MlConstant, ...]
    deployment_target: str | None
    metadata: Mapping[str, str]


def read_mlpackage(path: Path) -> MlpackageFile:
    """The package at `path`, a folder.

    BuildFileError if it is damaged or holds something else than an ML program of tensors with one function.
    """
    from phoneproof.runtimes.mil.specification import read_specification

    _, spec = read_specification(path, BuildFileError, BuildFileError)
    return _read(path, spec)


def operator_counts(file: MlpackageFile) -> dict[str, int]:
    """Number of operators by the dtype they compute in; casts, quantize and dequantize are not counted."""
    return dict(sorted(Counter(one.dtype for one in file.operators).items()))


def float_operators(file: MlpackageFile) -> tuple[MilOperator, ...]:
    """The operators that compute in float, in the order of the program."""
    return tuple(one for one in file.operators if one.dtype.startswith("float"))


def precision_of(file: MlpackageFile) -> Precision:
    """The precision that the program is for, by what its operators compute in and how it stores weights."""
    if any(one.dtype == "int8" for one in file.operators) or _has_small_weights(file):
        return Precision.INT8
    dtypes = operator_counts(file)
    return Precision.FLOAT16 if "float16" in dtypes and "float32" not in dtypes else Precision.FLOAT32


def wide_tensors(file: MlpackageFile, precision: Precision) -> tuple[WideTensor, ...]:
    """Constants in a wider float type than `precision` is for."""
    return widest(
        WideTensor(one.name, one.dtype, one.size_bytes)
        for one in file.constants
        if one.dtype in _WIDER_THAN[precision]
    )


def _has_small_weights(file: MlpackageFile) -> bool:
    """Whether most bytes of its constants are of 8 bits or less."""
    small = sum(one.size_bytes for one in file.constants if one.dtype in ("int8", "uint8", *SUB_BYTE_BITS))
    return 2 * small > sum(one.size_bytes for one in file.constants)


def _read(path: Path, spec: Any) -> MlpackageFile:
    description, program = spec.description, spec.mlProgram
    if len(program.functions) != 1 or description.state:
        what = f"{len(program.functions)} functions" if len(program.functions) != 1 else "states"
        raise BuildFileError(
            f"The ML program has {what}.",
            where=str(path),
            next_step="Save a program of one function without states.",
        )
    (function,) = program.functions.values()
    block = function.block_specializations.get(function.opset)
    if block is None:
        raise BuildFileError(
            f"The ML program has no block for its own opset {function.opset!r}.",
            where=str(path),
            next_step=COPY_AGAIN,
        )
    flow = MilFlow.of(block, PROTO_DTYPES)
    return MlpackageFile(
        path=path,
        inputs=tuple(_feature(one, "input", path, None) for one in description.input),
        outputs=tuple(_feature(one, "output", path, flow.values.get(one.name)) for one in description.output),
        operators=flow.operators(),
        constants=tuple(_constants(flow)),
        deployment_target=_DEPLOYMENT_TARGETS.get(spec.specificationVersion),
        metadata=dict(sorted(description.metadata.userDefined.items())),
    )


def _feature(proto: Any, role: str, path: Path, value: MilValue | None) -> MlFeature:
    from phoneproof.runtimes.mil.specification import feature_dtype

    dtype = feature_dtype(proto, role, path, BuildFileError)
    array = proto.type.multiArrayType
    shape: tuple[int, ...] | None = tuple(int(length) for length in array.shape)
    if role == "output" and value is not None:  # coremltools describes an ML program's outputs without shapes
        shape = None if None in value.shape else tuple(length or 0 for length in value.shape)
    return MlFeature(proto.name, dtype, shape, _flexible(array))


def _flexible(array: Any) -> tuple[int, ...]:
    kind = array.WhichOneof("ShapeFlexibility")
    if kind == "shapeRange":
        ranges = [(r.lowerBound, r.upperBound) for r in array.shapeRange.sizeRanges]
        return tuple(axis for axis, (least, most) in enumerate(ranges) if least != most)
    if kind == "enumeratedShapes":
        axes = zip(*(tuple(one.shape) for one in array.enumeratedShapes.shapes), strict=False)
        return tuple(axis for axis, lengths in enumerate(axes) if len(set(lengths)) > 1)
    return ()


def _constants(flow: MilFlow) -> Iterator[MlConstant]:
    for name, value in flow.constants.items():
        if value.dtype in _BITS:
            elements = prod(length or 0 for length in value.shape)
            yield MlConstant(name, _numpy_name(value.dtype), (elements * _BITS[value.dtype] + 7) // 8)


def _numpy_name(dtype: str) -> str:
    return f"float{dtype[2:]}" if dtype.startswith("fp") else dtype
