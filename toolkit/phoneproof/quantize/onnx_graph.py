"""The graph that is calibrated and quantized: the source model with what ONNX Runtime folds anyway folded.

Batch norms become part of convolutions, constants are computed, identities go. Calibrating and quantizing see
the same graph, so a range's tensor name means one thing. ONNX Runtime's `quant_pre_process` does the same but
logs a failed optimisation and goes on without it; here a failure is an error.
"""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import onnx

from phoneproof.sources.onnx_folding import folded
from phoneproof.sources.onnx_model import OnnxSource
from phoneproof.sources.onnx_versions import within_target


@dataclass(frozen=True)
class PreparedGraph:
    """model: onnx.ModelProto with shapes inferred, every node named uniquely, in a fixed order of parts.

    origins: prepared node's name to the names of the source model's nodes that it computes.
    """

    model: Any
    origins: Mapping[str, frozenset[str]]


def prepare(source: OnnxSource) -> PreparedGraph:
    """The prepared graph of a source model; the same source and versions give the same bytes.

    Raises RecipeError (opset too new) or ToolchainError (conversion or optimisation fails).
    """
    target = within_target(source.model, str(source.path))
    model = folded(target, str(source.path))
    model.ir_version = target.ir_version
    keep_used_domains(model)
    _make_names_unique(model)
    _unshare_vectors(model)
    order_parts(model)
    return PreparedGraph(model=model, origins=origins(source.model, model))


def origins(source: Any, prepared: Any) -> dict[str, frozenset[str]]:
    """Which source nodes each prepared node computes, found by walking back between tensors both models have.

    An optimiser keeps the name of a tensor that it still computes. Prepared nodes joined by a tensor that the
    source lacks (a fusion's own reshape) form a group; the group computes the source nodes that lie between
    the group's outputs and its inputs.
    """
    producer = {output: node for node in source.graph.node for output in node.output if output}
    shared = set(producer) | {value.name for value in source.graph.input}
    result: dict[str, frozenset[str]] = {}
    for group in _groups(list(prepared.graph.node), shared):
        outputs = {name for node in group for name in node.output if name in producer}
        inputs = {name for node in group for name in node.input if name in shared} - outputs
        names = frozenset(_between(outputs, inputs, producer))
        result |= {node.name: names for node in group}
    return result


def _groups(nodes: list[Any], shared: set[str]) -> Iterable[list[Any]]:
    group_of: dict[str, list[Any]] = {}
    groups: list[list[Any]] = []
    for node in nodes:
        inputs = (group_of[name] for name in node.input if name not in shared and name in group_of)
        joined = {id(before): before for before in inputs}
        group = [member for before in joined.values() for member in before] + [node]
        groups = [before for before in groups if id(before) not in joined]
        groups.append(group)
        for member in group:
            group_of |= dict.fromkeys(member.output, group)
    return groups


def _between(outputs: set[str], inputs: set[str], producer: Mapping[str, Any]) -> set[str]:
    names: set[str] = set()
    waiting = list(outputs)
    while waiting:
        node = producer.get(waiting.pop())
        if node is not None and node.name not in names:
            names.add(node.name)
            waiting.extend(name for name in node.input if name and name not in inputs)
    return names


def keep_used_domains(model: Any) -> None:
    """Drop operator sets that no node uses: ONNX Runtime writes all it knows, which others cannot read."""
    used = {node.domain for node in model.graph.node} | {""}
    for node in model.graph.node:
        for attribute in node.attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                used |= {inner.domain for inner in graph.node}
    entries = sorted((e.domain, e.version) for e in model.opset_import if e.domain in used)
    del model.opset_import[:]
    model.opset_import.extend(onnx.helper.make_opsetid(domain, version) for domain, version in entries)


def _make_names_unique(model: Any) -> None:
    taken: set[str] = set()
    for index, node in enumerate(model.graph.node):
        name = node.name or next((output for output in node.output if output), node.op_type)
        node.name = name if name not in taken else f"{name}:{index}"
        taken.add(node.name)


def _unshare_vectors(model: Any) -> None:
    """Give every use of a float vector or scalar its own copy.

    Exporters store equal constants once. The vendor's QOperator form then writes a vector that is both a bias
    and an operand as int32 for both, which no runtime loads. Larger weights stay shared.
    """
    vectors = {
        tensor.name: tensor
        for tensor in model.graph.initializer
        if len(tensor.dims) <= 1 and tensor.data_type == onnx.TensorProto.FLOAT
    }
    taken = {tensor.name for tensor in model.graph.initializer}
    taken |= {name for node in model.graph.node for name in node.output}
    used: set[str] = set()
    for node in model.graph.node:
        for index, name in enumerate(node.input):
            if name not in vectors or name not in used:
                used.add(name)
                continue
            number = next(n for n in itertools.count(2) if f"{name}_{n}" not in taken)
            node.input[index] = f"{name}_{number}"
            taken.add(node.input[index])
            model.graph.initializer.add().CopyFrom(vectors[name])
            model.graph.initializer[-1].name = node.input[index]


def order_parts(model: Any) -> None:
    """Sort what has no order of its own: its order comes out of hash tables and may differ between runs."""
    for part in (model.graph.initializer, model.graph.value_info):
        ordered = sorted(part, key=lambda item: item.name)
        copies = [type(item).FromString(item.SerializeToString(deterministic=True)) for item in ordered]
        del part[:]
        part.extend(copies)
