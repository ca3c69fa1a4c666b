"""What stands in a .pte file (an ExecuTorch program): inputs, operators, delegates, constants, metadata.

Read by ExecuTorch's own flatbuffer reader; nothing is run. An XNNPACK delegate's graph is read too
(xnnpack_graph.py); other delegates' payloads are theirs.
"""

import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from phoneproof.builds.manifest import WideTensor
from phoneproof.errors import BuildFileError
from phoneproof.protocol.tensors import DTYPE_SIZES
from phoneproof.recipes.table import Precision
from phoneproof.toolchains.inspected import what_is_damaged
from phoneproof.toolchains.result import widest
from phoneproof.toolchains.xnnpack_graph import XNNPACK, read_xnnpack_graph

UNKNOWN: Final = "unknown"
"""Dtype of what a delegate computes whose payload cannot be read."""

_MAGIC: Final = b"ET12"
_FLOATS: Final = frozenset({"float32", "float16", "bfloat16", "float64"})
_DTYPES: Final[Mapping[str, str]] = {
    "BYTE": "uint8",
    "CHAR": "int8",
    "SHORT": "int16",
    "INT": "int32",
    "LONG": "int64",
    "HALF": "float16",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "BOOL": "bool",
    "BFLOAT16": "bfloat16",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
}
_SIZES: Final[Mapping[str, int]] = {**DTYPE_SIZES, "bfloat16": 2}
_REPRESENTATION: Final = ("quantized_decomposed::quantize", "quantized_decomposed::dequantize")
_WIDER_THAN: Final[Mapping[Precision, frozenset[str]]] = {
    Precision.FLOAT32: frozenset({"float64"}),
    Precision.FLOAT16: frozenset({"float32", "float64"}),
    Precision.INT16X8: _FLOATS,
    Precision.INT8: _FLOATS,
}


@dataclass(frozen=True)
class PteTensor:
    """An input, an output or a constant. dtype: numpy's name, where numpy has the type.

    shape: of a dynamic one the greatest. size_bytes: of its values.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_dynamic: bool
    size_bytes: int


@dataclass(frozen=True)
class PteOperator:
    """One operator in the order of execution.

    type: ATen's or the kernel library's name (`aten::cumsum.out`), or the delegate's name of it.
    dtype: that it computes in, UNKNOWN in a delegate that cannot be read. delegate: who runs it, None for the
    portable kernels. is_representation: it quantizes or dequantizes and computes nothing of the model.
    """

    name: str
    type: str
    dtype: str
    delegate: str | None
    is_representation: bool = False


@dataclass(frozen=True)
class PteFile:
    """A program's method `forward`, or its only one with inputs.

    delegates: number of delegated parts by the delegate's name. metadata: what the methods without inputs
    give (constant methods): text and numbers by method name.
    """

    path: Path
    method: str
    inputs: tuple[PteTensor, ...]
    outputs: tuple[PteTensor, ...]
    operators: tuple[PteOperator, ...]
    delegates: Mapping[str, int]
    constants: tuple[PteTensor, ...]
    metadata: Mapping[str, str | int | float | bool]


def read_pte(path: Path) -> PteFile:
    """The program at `path`. BuildFileError if it is no .pte file, is damaged, or has no such method."""
    content = path.read_bytes()
    if content[4:8] != _MAGIC:
        raise BuildFileError(
            "The file is not an ExecuTorch program of this version, or is truncated.",
            where=str(path),
            next_step="Export the program again with a current ExecuTorch.",
        )
    try:
        from executorch.exir._serialize._program import deserialize_pte_binary

        return _read(path, deserialize_pte_binary(content).program)
    except BuildFileError:
        raise
    except (
        *(struct.error, IndexError, ValueError, TypeError, AttributeError, KeyError, OverflowError),
        *(AssertionError, RuntimeError),
    ) as error:  # what ExecuTorch's reader raises on damaged files: it checks few things itself
        raise BuildFileError(
            f"The ExecuTorch program is damaged: {what_is_damaged(error)}.",
            where=str(path),
            next_step="Copy or export it again, and check that the copy is complete.",
        ) from error


def counted_operators(file: PteFile) -> Iterator[PteOperator]:
    """The operators that compute something of the model: all but quantize and dequantize."""
    return (one for one in file.operators if not one.is_representation)


def operator_counts(file: PteFile) -> dict[str, int]:
    """Number of operators by the dtype they compute in, in delegates and outside."""
    return dict(sorted(Counter(one.dtype for one in counted_operators(file)).items()))


def float_operators(file: PteFile) -> tuple[PteOperator, ...]:
    """The operators that compute in float, in the order of execution."""
    return tuple(one for one in counted_operators(file) if one.dtype in _FLOATS)


def not_delegated(file: PteFile) -> dict[str, int]:
    """Number of operators by type that the portable kernels run, quantize and dequantize included."""
    return dict(sorted(Counter(one.type for one in file.operators if one.delegate is None).items()))


def precision_of(file: PteFile) -> Precision:
    """The precision that the program is for, by what its operators compute in."""
    counts = operator_counts(file)
    if "int8" in counts:
        return Precision.INT8
    return Precision.FLOAT16 if "float16" in counts and "float32" not in counts else Precision.FLOAT32


def wide_tensors(file: PteFile, precision: Precision) -> tuple[WideTensor, ...]:
    """Constants in a wider float type than `precision` is for."""
    return widest(
        WideTensor(t.name, t.dtype, t.size_bytes) for t in file.constants if t.dtype in _WIDER_THAN[precision]
    )


def _read(path: Path, program: Any) -> PteFile:
    plan = _method(path, program)
    graphs = [_delegate(delegate, program) for delegate in plan.delegates]
    operators = list(_operators(plan, graphs))
    constants = {t.name: t for t in _plan_constants(plan)}
    for number, (name, graph) in enumerate(graphs):
        for one in graph.constants if graph is not None else ():
            label = f"{name} {number}: {one.name}"
            constants[label] = PteTensor(label, one.dtype, (), False, one.size_bytes)
    return PteFile(
        path=path,
        method=plan.name,
        inputs=tuple(_outer(plan, index, "input", n) for n, index in enumerate(plan.inputs)),
        outputs=tuple(_outer(plan, index, "output", n) for n, index in enumerate(plan.outputs)),
        operators=tuple(operators),
        delegates=dict(sorted(Counter(name for name, _ in graphs).items())),
        constants=tuple(constants.values()),
        metadata=_metadata(program),
    )


def _method(path: Path, program: Any) -> Any:
    plans = {plan.name: plan for plan in program.execution_plan if plan.inputs}
    if "forward" in plans:
        return plans["forward"]
    if len(plans) != 1:
        raise BuildFileError(
            f"The program has no method forward and {len(plans)} others with inputs.",
            where=str(path),
            next_step="Export the module that is to be judged as the method forward.",
        )
    return next(iter(plans.values()))


def _delegate(delegate: Any, program: Any) -> tuple[str, Any]:
    """(its name, its graph or None). A payload in a segment was put back into the program by the reader."""
    if delegate.id != XNNPACK:
        return delegate.id, None
    payload = program.backend_delegate_data[delegate.processed.index].data
    return delegate.id, read_xnnpack_graph(bytes(payload))


def _operators(plan: Any, graphs: list[tuple[str, Any]]) -> Iterator[PteOperator]:
    for chain in plan.chains:
        for number, instruction in enumerate(chain.instructions):
            call = instruction.instr_args
            if hasattr(call, "op_index"):
                yield _kernel(plan, call, number)
            elif hasattr(call, "delegate_index"):
                name, graph = graphs[call.delegate_index]
                yield from _delegated(name, graph, call.delegate_index)


def _kernel(plan: Any, call: Any, number: int) -> PteOperator:
    operator = plan.operators[call.op_index]
    kind = f"{operator.name}.{operator.overload}" if operator.overload else operator.name
    tensors = [plan.values[index].val for index in call.args]
    dtypes = [_dtype(value) for value in tensors if hasattr(value, "scalar_type")]
    dtype = next((d for d in dtypes if d in _FLOATS), dtypes[0] if dtypes else "none")
    return PteOperator(f"{kind} {number}", kind, dtype, None, kind.startswith(_REPRESENTATION))


def _delegated(name: str, graph: Any, number: int) -> Iterator[PteOperator]:
    if graph is None:
        yield PteOperator(f"{name} {number}", name, UNKNOWN, name)
        return
    for index, one in enumerate(graph.operators):
        yield PteOperator(f"{name} {number}: {one.type} {index}", one.type, one.dtype, name)


def _outer(plan: Any, index: int, role: str, number: int) -> PteTensor:
    value = plan.values[index].val
    if not hasattr(value, "scalar_type"):
        raise ValueError(f"{role} {number} is {type(value).__name__}, not a tensor")
    return _tensor(f"{role}_{number}", value)


def _plan_constants(plan: Any) -> Iterator[PteTensor]:
    for index, entry in enumerate(plan.values):
        value = entry.val
        if hasattr(value, "scalar_type") and value.data_buffer_idx > 0 and value.allocation_info is None:
            info = value.extra_tensor_info
            yield _tensor((info and info.fully_qualified_name) or f"constant {index}", value)


def _tensor(name: str, value: Any) -> PteTensor:
    dtype, size = _dtype(value), 1
    for length in value.sizes:
        size *= length
    return PteTensor(name, dtype, tuple(value.sizes), int(value.shape_dynamism) != 0, size * _SIZES[dtype])


def _dtype(value: Any) -> str:
    name = value.scalar_type.name
    if name not in _DTYPES:
        raise ValueError(f"a tensor has the dtype {name}, which no build has")
    return _DTYPES[name]


def _metadata(program: Any) -> dict[str, str | int | float | bool]:
    found: dict[str, str | int | float | bool] = {}
    for plan in program.execution_plan:
        if plan.inputs or len(plan.outputs) != 1:
            continue
        value = plan.values[plan.outputs[0]].val
        for field in ("string_val", "int_val", "double_val", "bool_val"):
            if hasattr(value, field):
                found[plan.name] = getattr(value, field)
    return found
