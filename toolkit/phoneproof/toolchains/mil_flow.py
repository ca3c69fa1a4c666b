"""How values pass through a MIL program, and in which dtype its operators therefore compute.

A quantized ML program holds pairs of quantize and dequantize around operators that are written in float; the
device computes an operator in int8 where all its activations come out of dequantize and go into quantize.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

ACTIVATIONS: Final = frozenset(
    {"relu", "relu6", "clip", "leaky_relu", "prelu", "sigmoid", "sigmoid_hard", "tanh", "silu", "gelu", "elu"}
)
"""Operators that are fused into the one before them, so that no quantize stands between the two."""

REPRESENTATION: Final = frozenset({"cast", "quantize", "dequantize"})
"""Operators that change the representation and compute nothing of the model; not counted."""

_FLOATS: Final = frozenset({"fp16", "fp32", "fp64"})


@dataclass(frozen=True)
class MilValue:
    """dtype: MIL's name of it. shape: None for a length that is known only when the program runs."""

    dtype: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True)
class MilOperator:
    """One operator. name: of its first output. dtype: numpy's name of what it computes in."""

    name: str
    type: str
    dtype: str


@dataclass(frozen=True)
class _Node:
    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class MilFlow:
    """values: type of each value. constants: of const operators, and what constexpr operators hold.

    nodes: all that compute at run time. outer: names of the program's outputs.
    """

    values: Mapping[str, MilValue]
    constants: Mapping[str, MilValue]
    nodes: tuple[_Node, ...]
    producers: Mapping[str, _Node]
    readers: Mapping[str, tuple[_Node, ...]]
    outer: frozenset[str]

    @classmethod
    def of(cls, block: Any, dtypes: Mapping[int, str]) -> "MilFlow":
        """The flow of a MIL.proto Block. dtypes: MIL's name of each type by its number."""
        values: dict[str, MilValue] = {}
        constants: dict[str, MilValue] = {}
        nodes: list[_Node] = []
        _collect(block, dtypes, values, constants, nodes)
        readers: dict[str, list[_Node]] = {}
        for node in nodes:
            for name in node.inputs:
                readers.setdefault(name, []).append(node)
        producers = {name: node for node in nodes for name in node.outputs}
        frozen = {name: tuple(found) for name, found in readers.items()}
        return cls(values, constants, tuple(nodes), producers, frozen, frozenset(block.outputs))

    def operators(self) -> tuple[MilOperator, ...]:
        """The operators that compute something of the model, with the dtype that each computes in."""
        return tuple(
            MilOperator(node.outputs[0] if node.outputs else "", node.type, self._dtype(node))
            for node in self.nodes
            if node.type not in REPRESENTATION
        )

    def _dtype(self, node: _Node) -> str:
        flowing = [
            self.values[name].dtype for name in (*self._data(node), *node.outputs) if name in self.values
        ]
        dtype = next((one for one in flowing if one in _FLOATS), flowing[0] if flowing else "none")
        if dtype not in _FLOATS:
            return dtype
        if self._is_fed_by_int8(node) and self._feeds_int8(node):
            return "int8"
        return f"float{dtype[2:]}"

    def _data(self, node: _Node) -> Iterator[str]:
        """Inputs that are computed at run time."""
        return (name for name in node.inputs if name in self.producers or name not in self.constants)

    def _float_data(self, node: _Node) -> list[str]:
        return [
            name for name in self._data(node) if name in self.values and self.values[name].dtype in _FLOATS
        ]

    def _is_fed_by_int8(self, node: _Node, through: bool = True) -> bool:
        found = self._float_data(node)
        return bool(found) and all(self._comes_from_int8(name, node, through) for name in found)

    def _comes_from_int8(self, name: str, node: _Node, through: bool) -> bool:
        producer = self.producers.get(name)
        if producer is None:
            return False
        if producer.type == "dequantize":
            return True
        fused = through and node.type in ACTIVATIONS and producer.type not in ACTIVATIONS
        return (
            fused and len(self.readers.get(name, ())) == 1 and self._is_fed_by_int8(producer, through=False)
        )

    def _feeds_int8(self, node: _Node, through: bool = True) -> bool:
        return all(self._goes_to_int8(name, node, through) for name in node.outputs)

    def _goes_to_int8(self, name: str, node: _Node, through: bool) -> bool:
        readers = self.readers.get(name, ())
        if name in self.outer or not readers:
            return False
        if all(reader.type == "quantize" for reader in readers):
            return True
        fused = through and len(readers) == 1 and readers[0].type in ACTIVATIONS
        return fused and node.type not in ACTIVATIONS and self._feeds_int8(readers[0], through=False)


def _collect(
    block: Any,
    dtypes: Mapping[int, str],
    values: dict[str, MilValue],
    constants: dict[str, MilValue],
    nodes: list[_Node],
) -> None:
    for operation in block.operations:
        outputs = tuple(output.name for output in operation.outputs)
        values |= {output.name: value_type(output.type, dtypes) for output in operation.outputs}
        if operation.type == "const":
            constants |= {name: values[name] for name in outputs}
        elif operation.type.startswith("constexpr_"):
            # Its result is wide, but what the file holds are the parameters.
            constants |= {
                f"{outputs[0]}: {key}": value_type(value.type, dtypes)
                for key, value in _held_values(operation)
                if key != "name"
            }
            constants |= {name: MilValue("none", ()) for name in outputs}
        else:
            nodes.append(_Node(operation.type, tuple(_references(operation)), outputs))
        for inner in operation.blocks:
            _collect(inner, dtypes, values, constants, nodes)


def _references(operation: Any) -> Iterator[str]:
    for argument in operation.inputs.values():
        for binding in argument.arguments:
            if binding.WhichOneof("binding") == "name":
                yield binding.name


def _held_values(operation: Any) -> Iterator[tuple[str, Any]]:
    """Values inside the operation: attributes (iOS 16's form) and inputs that are bound to a value."""
    yield from operation.attributes.items()
    for key, argument in operation.inputs.items():
        for binding in argument.arguments:
            if binding.WhichOneof("binding") == "value":
                yield key, binding.value


def value_type(proto: Any, dtypes: Mapping[int, str]) -> MilValue:
    """The type of a MIL.proto ValueType; dtype is `none` for lists, states and the like."""
    if proto.WhichOneof("type") != "tensorType":
        return MilValue("none", ())
    tensor = proto.tensorType
    shape = tuple(
        int(d.constant.size) if d.WhichOneof("dimension") == "constant" else None for d in tensor.dimensions
    )
    return MilValue(dtypes.get(tensor.dataType, "none"), shape)
