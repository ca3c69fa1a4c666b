"""What the operators of a converted file are called in the source model, and which of them stay in float.

TFLite's operators have no names. The name of an operator's result lists, separated by `;`, the TensorFlow
operators that were fused into it, each with its name scope; but a result that is an output of the model has
lost them, and is found by walking the source's graph back from that output.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from phoneproof.errors import RecipeError
from phoneproof.recipes.selection import refuse_unknown, wish
from phoneproof.recipes.table import RecipeOptions
from phoneproof.sources.tensorflow_graph import TensorflowSource, output_name, without_calls
from phoneproof.toolchains.tflite_file import (
    REPRESENTATION_TYPES,
    TfliteFile,
    TfliteOperator,
    compute_dtype,
    counted_operators,
)

_SILENT: Final = frozenset({"Const", "Placeholder", "Identity"})


@dataclass(frozen=True)
class NamedOperator:
    """An operator of a converted file.

    tensor: name of its result in the file. origin: the same in every conversion of one source: the name of
    the result, or of the output that it is. names, types: all that it is called, the nearest first; a fused
    operator has those of every part. Layer names and classes for Keras, names and types of TensorFlow's
    operators and name scopes for a SavedModel; TFLite's own type is always among the types. weights: elements
    of its largest constant.
    """

    tensor: str
    origin: str
    type: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    computes: str
    weights: int

    @property
    def name(self) -> str:
        """What reports call it."""
        return self.names[0]


def named_operators(file: TfliteFile, source: TensorflowSource) -> tuple[NamedOperator, ...]:
    """The operators of the main graph that compute something, in the order of the file.

    file: as the converter wrote it, outputs named by `output_name`.
    """
    origins = _Origins(file, source)
    return tuple(origins.named(operator) for operator in counted_operators(file))


def kept_operators(
    operators: Iterable[NamedOperator], source: TensorflowSource, options: RecipeOptions
) -> tuple[NamedOperator, ...]:
    """The float operators that the plan keeps in float.

    A fused operator stays in float if any of its parts is named. RecipeError for a name or type that the
    source does not have, or that nothing computes any more: the vendor's quantizer ignores both.
    """
    found = [operator for operator in operators if operator.computes.startswith("float")]
    names = {name for operator in found for name in operator.names}
    types = {kind for operator in found for kind in operator.types}
    layers = {layer.name for layer in source.layers}
    refuse_unknown(names | layers, types, options)
    for key in ("keep_float_names", "quantize_names"):
        for name in getattr(options, key):
            if name not in names:
                raise RecipeError(
                    f"The layer {name!r} is computed when the model is converted, and does not run.",
                    where=key,
                    next_step="Leave it out.",
                )
    wishes = [(operator, wish(operator.names, operator.types, options)) for operator in found]
    return tuple(one for one, wanted in wishes if (options.keep_float if wanted is None else wanted))


class _Origins:
    """Which parts of the source each operator of the file computes."""

    def __init__(self, file: TfliteFile, source: TensorflowSource) -> None:
        self._source = source
        self._layers = sorted(source.layers, key=lambda layer: -len(layer.scope))
        self._order = {layer.name: index for index, layer in enumerate(source.layers)}
        self._nodes = source.nodes
        self._outputs = dict(self._output_results(file))
        inner = [o for o in counted_operators(file) if o.name not in self._outputs]
        self._claimed = {owner for o in inner for part in _split(o.name) for owner in self._owners(part)}

    def named(self, operator: TfliteOperator) -> NamedOperator:
        parts = self._parts(operator)
        names, types = self._layer_names(parts) if self._source.layers else self._node_names(parts)
        index = self._outputs.get(operator.name)
        return NamedOperator(
            tensor=operator.name,
            origin=operator.name if index is None else output_name(index),
            type=operator.type,
            names=tuple(dict.fromkeys((*names, operator.name))),
            types=tuple(dict.fromkeys((operator.type, *types))),
            computes=compute_dtype(operator),
            weights=max((math.prod(one.shape) for one in operator.inputs if one.is_constant), default=0),
        )

    def _parts(self, operator: TfliteOperator) -> list[str]:
        index = self._outputs.get(operator.name)
        return _split(operator.name) if index is None else self._behind(index)

    def _layer_names(self, parts: list[str]) -> tuple[list[str], list[str]]:
        """Innermost layers in the order of their calls, together first, then what encloses them."""
        inner, outer = [], []
        for part in parts:
            enclosing = [layer for layer in self._layers if _is_in(part, layer.scope)]
            inner += enclosing[:1]
            outer += enclosing[1:]
        inner = sorted(dict.fromkeys(inner), key=lambda layer: self._order[layer.name])
        names = [layer.name for layer in (*inner, *outer)]
        together = ["+".join(dict.fromkeys(layer.name for layer in inner))] if inner else []
        # keras.ops outside of layers have no scope of their own.
        alone = [part for part in parts if not any(_is_in(part, layer.scope) for layer in self._layers)]
        more, types = self._node_names(alone)
        return [*together, *names, *more], [*(layer.kind for layer in (*inner, *outer)), *types]

    def _node_names(self, parts: list[str]) -> tuple[list[str], list[str]]:
        names = [without_calls(part) for part in parts]
        scopes = [scope for name in names for scope in _scopes(name)]
        types = [self._nodes[node] for part in parts for node in self._owners(part) if node in self._nodes]
        return [*names, *scopes], types

    def _owners(self, part: str) -> tuple[str, ...]:
        """What a TensorFlow operator belongs to: its innermost layer's scope, else itself.

        TFLite puts a number behind a name that it has already used.
        """
        for layer in self._layers:
            if _is_in(part, layer.scope):
                return (layer.scope,)
        return (part, part.rstrip("0123456789"))

    @cached_property
    def _ends(self) -> list[Any]:
        """The operator that computes each output of the source."""
        return [_computing(tensor.op) for tensor in self._source.function.outputs]

    def _behind(self, index: int) -> list[str]:
        """Names of the source's operators from output `index` back to what another operator computes."""
        others = {end.name for number, end in enumerate(self._ends) if number != index}
        waiting, parts = [self._ends[index]], []
        seen = set()
        while waiting:
            node = waiting.pop()
            if node.name in seen or node.name in others:
                continue
            seen.add(node.name)
            if node.type not in _SILENT:
                if self._claimed.intersection(self._owners(node.name)):
                    continue
                parts.append(node.name)
            waiting.extend(tensor.op for tensor in node.inputs)
        return parts or [self._ends[index].name]

    @staticmethod
    def _output_results(file: TfliteFile) -> Iterator[tuple[str, int]]:
        """Result of each operator that computes an output, and the output's number in the source."""
        producers = {o.name: o for o in file.operators if o.name}
        numbers = {output_name(index): index for index in range(len(file.outputs))}
        for name, tensor in zip(file.output_names, file.outputs, strict=True):
            operator = producers.get(tensor.name)
            while operator is not None and operator.type in REPRESENTATION_TYPES:
                operator = producers.get(operator.inputs[0].name)
            if operator is not None:
                yield operator.name, numbers[name]


def _computing(node: Any) -> Any:
    while node.type == "Identity":
        node = node.inputs[0].op
    return node


def _split(name: str) -> list[str]:
    return [part for part in name.split(";") if part]


def _is_in(part: str, scope: str) -> bool:
    return part == scope or part.startswith(f"{scope}/")


def _scopes(name: str) -> list[str]:
    """Enclosing name scopes, the innermost first."""
    parts = name.split("/")
    return ["/".join(parts[:length]) for length in range(len(parts) - 1, 0, -1)]
