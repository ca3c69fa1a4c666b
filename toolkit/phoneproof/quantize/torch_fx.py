"""The torch.fx graph that FX graph mode quantizes, and what a plan calls its operators."""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.fx import GraphModule, Node

from phoneproof.errors import ToolchainError, said
from phoneproof.recipes.selection import refuse_unknown, wish
from phoneproof.recipes.table import RecipeOptions

_COMPUTING: Final = frozenset({"call_module", "call_function", "call_method"})
_FIRST: Final = re.compile(r"(Conv|ConvTranspose)[123]d|Linear|add|conv[123]d|linear")
_NORMS: Final = re.compile(r"BatchNorm[123]d")
_CLAMPS: Final = re.compile(r"ReLU|ReLU6|Hardtanh|relu_?|relu6|hardtanh_?")


@dataclass(frozen=True)
class FxOperator:
    """One operator: names and types by which a plan can call it, the nearest first.

    name: the path of the module that it calls, as features.0.conv, else its node's name, as add_1.
    type: the module's class or the function's name, as Conv2d or cat.
    """

    name: str
    type: str
    names: tuple[str, ...]
    types: tuple[str, ...]


class InFloat(torch.nn.Module):
    """A function or method call that quantization knows nothing of, and so leaves as it is."""

    def __init__(self, target: Any, is_method: bool) -> None:
        super().__init__()
        self.target = target
        self.is_method = is_method

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The call itself."""
        if self.is_method:
            return getattr(args[0], self.target)(*args[1:], **kwargs)
        return self.target(*args, **kwargs)


def traced(module: torch.nn.Module, inputs: int, place: str) -> GraphModule:
    """The module as a graph of `inputs` inputs whose calls of torch's own modules stay calls.

    Further parameters of forward have their defaults. ToolchainError if torch.fx cannot trace the module.
    """
    from torch.ao.quantization.fx.tracer import QuantizationTracer

    further = list(inspect.signature(module.forward).parameters.values())[inputs:]
    defaults = {one.name: one.default for one in further if one.default is not one.empty}
    try:
        graph = QuantizationTracer([], []).trace(module, concrete_args=defaults or None)
        for placeholder in [node for node in graph.nodes if node.op == "placeholder"][inputs:]:
            _erase(placeholder)  # and the assertions that it has the value it was traced with
        graph.lint()
        return GraphModule(module, graph)
    except Exception as error:  # whatever the user's forward does with a proxy
        raise ToolchainError(
            f"torch.fx cannot trace the module: {type(error).__name__}: {said(error)}.",
            where=place,
            next_step="Use executorch-int8, which quantizes the exported program; or remove conditions and "
            "loops over values from forward.",
        ) from error


def _erase(node: Node) -> None:
    for user in list(node.users):
        _erase(user)
    node.graph.erase_node(node)


def operators_of(graph: GraphModule) -> dict[str, FxOperator]:
    """The operators of a traced graph by node name."""
    return {node.name: operator_of(graph, node) for node in graph.graph.nodes if node.op in _COMPUTING}


def operator_of(graph: GraphModule, node: Node) -> FxOperator:
    """What one operator is called."""
    kind = type_of(graph, node)
    stack = list((node.meta.get("nn_module_stack") or {}).values())[::-1]
    paths = tuple(str(path) for path, _ in stack)
    classes = tuple(getattr(one, "__name__", str(one)) for _, one in stack)
    name = str(node.target) if node.op == "call_module" else node.name
    names = tuple(dict.fromkeys((name, node.name, *paths)))
    return FxOperator(name, kind, names, tuple(dict.fromkeys((kind, functional_name(kind), *classes))))


def type_of(graph: GraphModule, node: Node) -> str:
    """Class name of the module that is called, or name of the function or method."""
    if node.op == "call_module":
        return type(graph.get_submodule(str(node.target))).__name__
    return str(getattr(node.target, "__name__", node.target))


def functional_name(kind: str) -> str:
    """The name that aten has for what a class of torch.nn does: Conv2d → conv2d, LeakyReLU → leaky_relu."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.replace("LU", "lu")).lower()
    return re.sub(r"^(batch_norm|instance_norm)[123]d$", r"\1", words)


def kept_by_plan(graph: GraphModule, options: RecipeOptions) -> frozenset[str]:
    """Nodes that the plan keeps in float.

    What quantization fuses (a batch norm and an activation into the operator before) stays together: one of
    them named keeps all. RecipeError for a name or a type that the module does not have.
    """
    operators = operators_of(graph)
    refuse_unknown(
        {name for one in operators.values() for name in one.names},
        {kind for one in operators.values() for kind in one.types},
        options,
    )
    kept: set[str] = set()
    for group in fused_groups(graph):
        wishes = [wish(operators[name].names, operators[name].types, options) for name in group]
        if True in wishes or (options.keep_float and False not in wishes):
            kept.update(group)
    return frozenset(kept)


def fused_groups(graph: GraphModule) -> Iterator[tuple[str, ...]]:
    """Every operator once, with those that are fused into it."""
    taken: set[str] = set()
    for node in graph.graph.nodes:
        if node.op not in _COMPUTING or node.name in taken:
            continue
        group = [node]
        if _FIRST.fullmatch(type_of(graph, node)):
            for pattern in (_NORMS, _CLAMPS):
                after = _only_user(group[-1])
                if after is not None and pattern.fullmatch(type_of(graph, after)):
                    group.append(after)
        taken.update(one.name for one in group)
        yield tuple(one.name for one in group)


def hide_calls(graph: GraphModule, kept: frozenset[str]) -> dict[str, str]:
    """Make the calls of functions and methods among `kept` calls of InFloat, in place.

    Result: path of each InFloat to the name of the node that it took the place of. FX quantization can leave
    out a function only by its running number in a module, which counts otherwise than its trace does.
    """
    paths = {}
    for node in list(graph.graph.nodes):
        if node.name not in kept or node.op not in {"call_function", "call_method"}:
            continue
        path = f"in_float_{node.name}"
        graph.add_submodule(path, InFloat(node.target, node.op == "call_method"))
        with graph.graph.inserting_before(node):
            new = graph.graph.call_module(path, node.args, node.kwargs)
        new.meta = dict(node.meta)
        node.replace_all_uses_with(new)
        graph.graph.erase_node(node)
        paths[path] = node.name
    graph.recompile()
    return paths


def kept_modules(graph: GraphModule, kept: frozenset[str]) -> frozenset[str]:
    """Paths of the modules that nodes among `kept` call."""
    return frozenset(str(n.target) for n in graph.graph.nodes if n.name in kept and n.op == "call_module")


def dtypes(graph: GraphModule, inputs: Any) -> Mapping[str, str]:
    """Dtype of what each operator gives, by node name; operators that give no tensor are left out."""
    found: dict[str, str] = {}

    class Recorder(torch.fx.Interpreter):
        def run_node(self, n: Node) -> Any:
            value = super().run_node(n)
            if isinstance(value, torch.Tensor):
                found[n.name] = str(value.dtype).removeprefix("torch.")
            return value

    with torch.no_grad():
        Recorder(graph).run(*inputs)
    return found


def _only_user(node: Node) -> Node | None:
    users = list(node.users)
    return users[0] if len(users) == 1 and users[0].op in _COMPUTING else None
