"""A TensorFlow source model as one frozen function: axes fixed, variables made constants, names kept."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from phoneproof.errors import SourceModelError, said
from phoneproof.protocol.tensors import DTYPE_SIZES, TensorSpec
from phoneproof.sources.agreement import Arrays, Network
from phoneproof.sources.axes import PLAN_KEY, fixed_length, open_inputs, refuse_rank, refuse_unknown_inputs
from phoneproof.sources.tensorflow_vendor import tensorflow

_REACHES_OUT: Final = frozenset(
    {"ReadFile", "WriteFile", "MatchingFiles", "PyFunc", "PyFuncStateless", "EagerPyFunc", "PrintV2"}
    | {"WholeFileReaderV2", "TextLineReaderV2", "TFRecordReaderV2", "FixedLengthRecordReaderV2"}
    | {"SaveV2", "RestoreV2", "MergeV2Checkpoints"}
)
"""Operators that touch files or run Python; a model that is only numbers in, numbers out has none."""


@dataclass(frozen=True)
class OpenTensor:
    """An input or output before its axes are fixed: None for an open length, or for an unknown rank."""

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True)
class Layer:
    """A part of the source model that computed the operators of one name scope of the graph."""

    scope: str
    name: str
    kind: str


@dataclass(frozen=True)
class OpenModel:
    """A model that was read. call: a list of tensors in the order of `inputs` to one in that of `outputs`.

    recorded: runs its argument and gives the layers that were called meanwhile; empty where there are none.
    owner: what holds the variables, which must live as long as `call`.
    """

    path: Path
    sha256: str
    inputs: tuple[OpenTensor, ...]
    outputs: tuple[OpenTensor, ...]
    call: Callable[[Sequence[Any]], Sequence[Any]]
    recorded: Callable[[Callable[[], Any]], tuple[Any, tuple[Layer, ...]]]
    owner: Any


@dataclass(frozen=True)
class TensorflowSource:
    """A source model ready for use.

    function: a ConcreteFunction without variables; it takes tensors in the order of `inputs` and gives a list
    in that of `outputs`. layers: of a Keras model, in the order of the calls; empty for a SavedModel.
    parameters: elements of all float constants. open_inputs: of axes.open_inputs; inputs of unknown rank are
    not among them.
    """

    path: Path
    sha256: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    function: Any
    layers: tuple[Layer, ...]
    parameters: int
    open_inputs: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)

    @property
    def nodes(self) -> Mapping[str, str]:
        """Type of each operator of the graph, by its name; constants and the like left out."""
        operations = self.function.graph.get_operations()
        return {one.name: one.type for one in operations if one.type not in _NO_OPERATORS}


_CALLS: Final = re.compile(r"^(?:(?:Func|input|(?:Stateful)?PartitionedCall(?:_\d+)?)/)+")

_NO_OPERATORS: Final = frozenset({"Const", "Placeholder", "Identity", "IdentityN", "NoOp", "ReadVariableOp"})


def frozen(model: OpenModel, shapes: Mapping[str, tuple[int, ...]]) -> TensorflowSource:
    """The model with every axis fixed: the first is 1 where it is open, others as `shapes` says.

    SourceModelError: an axis that stays open, a name that no input has, outputs whose shape depends on the
    data, a dtype that no runtime takes, a graph that touches files, keeps state or cannot be traced.
    """
    place = str(model.path)
    refuse_unknown_inputs(shapes, [tensor.name for tensor in model.inputs], place)
    inputs = tuple(_fixed(tensor, shapes.get(tensor.name), place) for tensor in model.inputs)
    function, layers = trace(model, inputs)
    outputs = tuple(
        _output(tensor.name, value, place)
        for tensor, value in zip(model.outputs, function.outputs, strict=True)
    )
    parameters = _parameters(function)
    left_open = open_inputs((one.name, one.shape) for one in model.inputs if one.shape is not None)
    return TensorflowSource(
        model.path, model.sha256, inputs, outputs, function, layers, parameters, left_open
    )


def trace(model: OpenModel, inputs: Sequence[TensorSpec]) -> tuple[Any, tuple[Layer, ...]]:
    """The frozen function for inputs of these shapes, and the layers it came from.

    The variables become constants here, before any converter sees them: TFLiteConverter turns a Keras 3
    model's variables that it does not know into uninitialised ones, and the build then answers NaN.
    """
    tf = tensorflow()
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    specs = [
        tf.TensorSpec(spec.shape, spec.dtype, name=input_name(index)) for index, spec in enumerate(inputs)
    ]

    def call(*tensors: Any) -> list[Any]:
        return [tf.identity(tensor) for tensor in model.call(tensors)]

    traced = tf.function(call, autograph=False)
    try:
        concrete, layers = model.recorded(lambda: traced.get_concrete_function(*specs))
        _refuse_reaching_out(concrete.graph, model.path)
        function = convert_variables_to_constants_v2(concrete)
    except SourceModelError:
        raise
    except Exception as error:  # TensorFlow and layers raise whatever they like
        raise SourceModelError(
            f"TensorFlow cannot trace the model with these shapes: {said(error, 400)}.",
            where=str(model.path),
            next_step=f"Check {PLAN_KEY}, and that the model runs on one input of these shapes.",
        ) from error
    _refuse_state(function, model.path)
    return function, layers


def source_network(source: TensorflowSource) -> Network:
    """The source as a function of arrays in the order of its inputs."""
    tf = tensorflow()

    def run(arrays: Arrays) -> Arrays:
        try:
            values = source.function(*(tf.constant(array) for array in arrays))
        except tf.errors.OpError as error:
            raise ValueError(str(error)[:200]) from error
        return [np.asarray(value) for value in values]

    return run


def without_calls(name: str) -> str:
    """Name of an operator without the function calls that it was inlined from."""
    return _CALLS.sub("", name)


def input_name(index: int) -> str:
    """Name of an input inside graphs and signatures: fit for TensorFlow whatever the source calls it, and
    sorted as the inputs are, since signatures are sorted by name."""
    return f"input_{index:03d}"


def output_name(index: int) -> str:
    """As input_name."""
    return f"output_{index:03d}"


def _fixed(tensor: OpenTensor, wanted: tuple[int, ...] | None, place: str) -> TensorSpec:
    where = f"{place}: input {tensor.name!r}"
    dtype = _known(tensor.dtype, where)
    if tensor.shape is None:
        if wanted is None:
            raise SourceModelError(
                "The model does not say how many axes the input has.",
                where=where,
                next_step=f"Set its whole shape, batch included, in {PLAN_KEY}.",
            )
        return TensorSpec(tensor.name, dtype, tuple(wanted))
    refuse_rank(wanted, len(tensor.shape), where)
    lengths = [None] * len(tensor.shape) if wanted is None else list(wanted)
    shape = tuple(
        fixed_length(index, "unnamed", known, length, where)
        for index, (known, length) in enumerate(zip(tensor.shape, lengths, strict=True))
    )
    return TensorSpec(tensor.name, dtype, shape)


def _output(name: str, value: Any, place: str) -> TensorSpec:
    where = f"{place}: output {name!r}"
    if not value.shape.is_fully_defined():
        raise SourceModelError(
            "The shape of the output depends on the data.",
            where=where,
            next_step="Export the model without the part that filters its results; filter outside the model.",
        )
    return TensorSpec(name, _known(value.dtype.name, where), tuple(int(length) for length in value.shape))


def _known(dtype: str, where: str) -> str:
    if dtype not in DTYPE_SIZES:
        raise SourceModelError(
            f"The tensor has dtype {dtype}, which no runtime here takes.",
            where=where,
            next_step=f"Export the model with one of {', '.join(DTYPE_SIZES)}.",
        )
    return dtype


def _parameters(function: Any) -> int:
    sizes = (
        int(one.outputs[0].shape.num_elements() or 0)
        for one in function.graph.get_operations()
        if one.type == "Const" and one.outputs[0].dtype.is_floating and one.outputs[0].shape.rank
    )
    return sum(sizes)


def _operation_types(graph: Any) -> set[str]:
    """Of the graph and of the functions that it calls, however deep.

    A function that nothing calls does not count: a SavedModel brings those that save and restore it.
    """
    definition = graph.as_graph_def()
    library = {function.signature.name: function.node_def for function in definition.library.function}
    types: set[str] = set()
    waiting = [definition.node]
    while waiting:
        nodes = waiting.pop()
        types.update(node.op for node in nodes)
        waiting.extend(library.pop(name) for name in _called(nodes) if name in library)
    return types


def _called(nodes: Any) -> set[str]:
    """Names of what might be functions: types of operators, and attributes that are functions."""
    attributes = [attribute for node in nodes for attribute in node.attr.values()]
    single = {attribute.func.name for attribute in attributes if attribute.HasField("func")}
    listed = {one.name for attribute in attributes for one in attribute.list.func}
    return single | listed | {node.op for node in nodes}


def _refuse_reaching_out(graph: Any, path: Path) -> None:
    found = sorted(_operation_types(graph) & _REACHES_OUT)
    if found:
        raise SourceModelError(
            f"The model touches files or runs Python: {', '.join(found)}.",
            where=str(path),
            next_step="Export the model without these operators; read its inputs outside the model.",
        )


def _refuse_state(function: Any, path: Path) -> None:
    left = sorted(
        {one.type for one in function.graph.get_operations() if one.outputs and _is_handle(one.outputs[0])}
    )
    if left:
        raise SourceModelError(
            f"The model keeps state or looks up tables: {', '.join(left)}.",
            where=str(path),
            next_step="Make its state an input and an output, and look tables up outside the model.",
        )


def _is_handle(value: Any) -> bool:
    return bool(value.dtype.name == "resource")


def scopes(name: str) -> Sequence[str]:
    """The name of an operator and the scopes around it, the innermost first."""
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def names_and_types(source: TensorflowSource) -> tuple[set[str], set[str]]:
    """All that a plan can call the operators: layers and their classes, operators, their scopes and types."""
    names = {layer.name for layer in source.layers}
    for node in source.nodes:
        names.update(scopes(without_calls(node)))
    return names, {layer.kind for layer in source.layers} | set(source.nodes.values())
