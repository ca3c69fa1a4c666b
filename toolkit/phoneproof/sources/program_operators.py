"""What a plan can call the operators of an exported program."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch.fx import GraphModule, Node


@dataclass(frozen=True)
class TorchOperator:
    """One operator of the exported program.

    node: its name in the graph. aten: its type there, without namespace and overload, as conv2d.
    modules: paths of the modules that it is part of, the innermost first, as features.0.conv, features.0,
    features. classes: the names of their classes, as Conv2d, Sequential. The model itself is left out.
    """

    node: str
    aten: str
    modules: tuple[str, ...]
    classes: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All that a plan can name it by, the nearest first."""
        return (self.node, *self.modules)

    @property
    def types(self) -> tuple[str, ...]:
        """All types that a plan can name it by, the nearest first."""
        return (self.aten, *self.classes)


def operators_of(graph: GraphModule) -> Mapping[str, TorchOperator]:
    """The operators of ExportedProgram.module(), by the names of their nodes."""
    return {node.name: _operator(node) for node in graph.graph.nodes if is_operator(node)}


def is_operator(node: Node) -> bool:
    """Whether the node computes something: neither a constant nor a placeholder."""
    return node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)


def aten_name(node: Node) -> str:
    """The operator's type without namespace and overload: conv2d; empty for a node that is no operator."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return ""
    return node.target._schema.name.rpartition("::")[2]


def _operator(node: Node) -> TorchOperator:
    stack = [(str(path), kind) for path, kind in node.meta.get("nn_module_stack", {}).values()]
    # A module that is called a second time is written as path@1.
    inner = [(path.partition("@")[0], kind) for path, kind in reversed(stack) if path]
    classes = (kind.__qualname__ if isinstance(kind, type) else str(kind) for _, kind in inner)
    return TorchOperator(
        node.name,
        aten_name(node),
        tuple(path for path, _ in inner),
        tuple(name.rpartition(".")[2] for name in classes),
    )
