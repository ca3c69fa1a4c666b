"""Counting a build's operators by the dtype they compute in, and saying why some are left in float."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import onnx

from phoneproof.builds.manifest import FloatOperator, FloatReason
from phoneproof.quantize.onnx_graph import PreparedGraph
from phoneproof.recipes.table import Mode, Recipe, Representation
from phoneproof.toolchains.onnx_exclusions import Exclusions
from phoneproof.toolchains.onnx_quantizers import DYNAMIC_TYPES, QDQ_TYPES, QOPERATOR_TYPES

QUANTIZATION_TYPES: Final = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})
"""Operators that change the representation and compute nothing of the model; not counted."""

MOVING_TYPES: Final = frozenset(
    {"Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Slice", "Split", "Gather"}
    | {"Concat", "Pad", "Expand", "Tile", "DepthToSpace", "SpaceToDepth", "GatherElements", "GatherND"}
)

_ONE_DATA_INPUT: Final = frozenset({"Resize", "Clip", "Pad", "Slice", "Tile", "Expand", "TopK"})
"""Operators whose inputs after the first are settings (scales, bounds), float or not."""

_INT8_FORMS: Final = frozenset({"QGemm", "QAttention", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul"})

_FLOATS: Final = frozenset(
    {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE, onnx.TensorProto.BFLOAT16}
)


def count_float_build(model: Any) -> dict[str, int]:
    """Number of operators by dtype in a model that is not quantized. Constants are not operators."""
    types = _types(model)
    counts = Counter(_dtype(node, types) for node in model.graph.node if node.op_type != "Constant")
    return dict(sorted(counts.items()))


@dataclass(frozen=True)
class Operators:
    """What the operators of a quantized build compute in.

    counts: number by dtype. left: those in float. kept_in_int8: names that the plan keeps in float, but
    which lie between quantized neighbours and have no weights, so that a runtime computes them in int8.
    """

    counts: Mapping[str, int]
    left: tuple[FloatOperator, ...]
    kept_in_int8: tuple[str, ...]


def count_quantized_build(
    model: Any, prepared: PreparedGraph, excluded: Exclusions, recipe: Recipe
) -> Operators:
    """Operators by dtype of a quantized model, and each one left in float with its reason.

    An operator is int8 if it is a quantized form (QLinear…, …Integer), works on int8 tensors, or, in the QDQ
    form, has all float inputs dequantized and all float outputs quantized: a runtime then computes in int8.
    What quantization itself adds (quantize, dequantize, and the casts and multiplications by scales around
    integer operators) is not counted.
    """
    flow = _Flow.of(model)
    known = {node.name for node in prepared.model.graph.node}
    static_types = QDQ_TYPES if recipe.representation is Representation.QDQ else QOPERATOR_TYPES
    quantizable = DYNAMIC_TYPES if recipe.mode is Mode.DYNAMIC else static_types
    counts: Counter[str] = Counter()
    left: list[FloatOperator] = []
    kept_in_int8: list[str] = []
    for node in model.graph.node:
        name = _prepared_name(node, known)
        if node.op_type in QUANTIZATION_TYPES or name is None:
            continue
        dtype = flow.dtype(node, recipe.representation)
        counts[dtype] += 1
        if dtype.startswith("float"):
            reason = _reason(name, node, excluded, quantizable, flow.is_fed_by_int8(node))
            left.append(FloatOperator(name=name, type=node.op_type, reason=reason))
        elif name in excluded.kept:
            kept_in_int8.append(name)
    return Operators(dict(sorted(counts.items())), tuple(left), tuple(kept_in_int8))


@dataclass(frozen=True)
class FoundOperator:
    """An operator of a model whose making is not known. dtype: that it computes in."""

    name: str
    type: str
    dtype: str


def found_operators(model: Any) -> tuple[FoundOperator, ...]:
    """The operators of any model, with the dtype that each computes in, as count_quantized_build counts them.

    Not counted is what quantization added: quantize, dequantize, and behind integer forms the casts, the
    multiplications by scales and the additions of biases; nor what only constants go into. An operator
    without a name is called by its first output.
    """
    flow = _Flow.of(model)
    constants = {tensor.name for tensor in model.graph.initializer}
    scaled: set[str] = set()  # what an integer form gives, up to its bias
    found = []
    for node in model.graph.node:
        given = {name for name in node.input if name}
        if given <= constants:
            constants.update(node.output)
        elif node.op_type == "DynamicQuantizeLinear" or _is_rescaling(node, scaled, constants):
            scaled.update(node.output)
        elif node.op_type == "Add" and scaled & given and given <= scaled | constants:
            continue
        elif node.op_type not in QUANTIZATION_TYPES:
            if node.op_type.endswith("Integer"):
                scaled.update(node.output)
            name = node.name or next((output for output in node.output if output), node.op_type)
            found.append(FoundOperator(name, node.op_type, flow.dtype(node, Representation.QDQ)))
    return tuple(found)


def _is_rescaling(node: Any, scaled: set[str], constants: set[str]) -> bool:
    given = set(node.input)
    return node.op_type in ("Cast", "Mul") and bool(scaled & given) and given <= scaled | constants


@dataclass(frozen=True)
class _Flow:
    """How values pass through a quantized model. outer: names of its outputs."""

    types: Mapping[str, int]
    dequantized: frozenset[str]
    readers: Mapping[str, tuple[str, ...]]
    outer: frozenset[str]

    @classmethod
    def of(cls, model: Any) -> "_Flow":
        readers: dict[str, tuple[str, ...]] = {}
        for node in model.graph.node:
            for name in node.input:
                readers[name] = (*readers.get(name, ()), node.op_type)
        dequantized = frozenset(n.output[0] for n in model.graph.node if n.op_type == "DequantizeLinear")
        return cls(_types(model), dequantized, readers, frozenset(o.name for o in model.graph.output))

    def dtype(self, node: Any, representation: Representation) -> str:
        """Dtype that the operator computes in; int8 stands for signed and unsigned."""
        is_form = node.op_type.startswith("QLinear") or node.op_type.endswith("Integer")
        if is_form or node.op_type in _INT8_FORMS:
            return "int8"
        dtype = _dtype(node, self.types)
        if dtype == "uint8":
            return "int8"
        is_pair = representation is Representation.QDQ and dtype.startswith("float")
        return "int8" if is_pair and self.is_fed_by_int8(node) and self._feeds_int8(node) else dtype

    def is_fed_by_int8(self, node: Any) -> bool:
        """Whether all float inputs, of which there is one at least, are dequantized int8 values."""
        data = node.input[:1] if node.op_type in _ONE_DATA_INPUT else node.input
        floats = {name for name in data if self.types.get(name) in _FLOATS}
        return bool(floats) and floats <= self.dequantized

    def _feeds_int8(self, node: Any) -> bool:
        return all(
            name not in self.outer and set(self.readers.get(name, ())) == {"QuantizeLinear"}
            for name in node.output
            if self.types.get(name) in _FLOATS
        )


def _prepared_name(node: Any, known: set[str]) -> str | None:
    """The prepared operator that this node computes; None for what quantization added."""
    for ending in ("", "_quant", "_MatMul", "_MatMul_quant"):
        name = node.name.removesuffix(ending) if node.name.endswith(ending) else None
        if name in known:
            return str(name)
    return None


def _reason(
    name: str, node: Any, excluded: Exclusions, known_types: frozenset[str], inputs_ready: bool
) -> FloatReason:
    if name in excluded.kept:
        return "kept_by_plan"
    if name in excluded.unsafe:
        return "unsafe_to_quantize"
    if node.op_type in MOVING_TYPES:
        return "data_movement"
    if node.op_type not in known_types:
        return "not_quantizable"
    return "outputs_not_quantized" if inputs_ready else "inputs_not_quantized"


def _dtype(node: Any, types: Mapping[str, int]) -> str:
    """Dtype of the first float among inputs and outputs; without one, of the first input, else output."""
    found = [types[name] for name in (*node.input, *node.output) if name in types]
    kind = next((t for t in found if t in _FLOATS), found[0] if found else onnx.TensorProto.FLOAT)
    return str(onnx.helper.tensor_dtype_to_np_dtype(kind).name)


def _types(model: Any) -> dict[str, int]:
    inferred = onnx.shape_inference.infer_shapes(model)
    graph = inferred.graph
    types = {v.name: v.type.tensor_type.elem_type for v in (*graph.value_info, *graph.input, *graph.output)}
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    # Inference does not know com.microsoft's forms; their outputs are what the zero point's type says.
    for node in graph.node:
        for name in node.output:
            if name not in types and name.endswith("_quantized"):
                types[name] = onnx.TensorProto.UINT8
    return {name: kind for name, kind in types.items() if kind}
