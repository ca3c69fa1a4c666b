"""The aten graph that PT2E calibrates and quantizes, and what a user calls its operators.

`prepare` makes the same graph, with the same node names, in the calibration worker and in the toolchains, so
that a range found by name in one is right in the other.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.fx import GraphModule, Node

from phoneproof.errors import SourceModelError, said
from phoneproof.recipes.selection import refuse_unknown, wish
from phoneproof.recipes.table import RecipeOptions
from phoneproof.sources.program_operators import TorchOperator, aten_name, is_operator, operators_of

"""Names of operators are those of sources/program_operators, given on to what quantizes."""

SAME_VALUES: Final = frozenset(
    {"view", "reshape", "flatten", "permute", "transpose", "t", "squeeze", "unsqueeze", "contiguous"}
    | {"clone", "alias", "detach", "dropout", "dropout_", "view_copy", "permute_copy", "squeeze_copy"}
)
"""Operators whose output holds the values of their first input (dropout: when not training)."""

CLAMPS: Final = frozenset({"relu", "relu_", "relu6", "relu6_", "hardtanh", "hardtanh_"})
"""Operators that clip their input to a constant interval around or from zero."""

ACTIVATIONS: Final = CLAMPS | frozenset(
    {"leaky_relu", "leaky_relu_", "silu", "silu_", "elu", "elu_", "celu", "selu", "mish", "mish_", "gelu"}
    | {"hardswish", "hardswish_", "hardsigmoid", "hardsigmoid_", "sigmoid", "tanh", "log_sigmoid"}
)
"""Operators that quantizers fuse into the one before."""

ARITHMETIC: Final = frozenset(
    {"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"}
    | {"linear", "matmul", "add", "add_", "mul", "mul_"}
)
"""Operators that PT2E quantizers give integer arithmetic and that can take an activation in."""

QUANTIZABLE: Final = (
    ARITHMETIC
    | ACTIVATIONS
    | SAME_VALUES
    | frozenset({"cat", "mean", "slice", "slice_copy", "expand"})
    | {f"{name}{axes}d" for name in ("max_pool", "avg_pool", "adaptive_avg_pool") for axes in (1, 2, 3)}
)
"""Operators around which a quantizer of ours observes: XNNPACKQuantizer and CoreMLQuantizer."""

_BATCH_NORM: Final = torch.ops.aten.batch_norm.default


@dataclass(frozen=True)
class PreparedProgram:
    """graph: what is calibrated and quantized (see prepare).

    operators: of the exported program, by node name. origins: for each operator of `graph`, the names of the
    exported program's nodes that it computes.
    """

    graph: GraphModule
    operators: Mapping[str, TorchOperator]
    origins: Mapping[str, frozenset[str]]


def prepare(program: Any) -> PreparedProgram:
    """Prepare a torch.export.ExportedProgram, which stays as it is. SourceModelError if it has no module.

    Parameters become attributes. Batch norms are folded into the convolution or linear layer before them;
    those that cannot be become a product and a sum (toolchains have no integer batch norm). Each operator
    reads its weights by a node of its own: quantizers leave out the second that shares one.
    """
    try:
        # Guards would be nodes that call no operator; the shapes they check are those of the calibration set.
        graph = program.module(check_guards=False)
    except Exception as error:  # torch's errors have no base class of their own
        raise SourceModelError(
            f"The exported program cannot be taken apart: {said(error)}.",
            next_step="Export the module again with this version of torch.",
        ) from error
    operators = operators_of(graph)
    origins = {name: frozenset({name}) for name in operators}
    foldable = foldable_batch_norms(graph)
    for node in foldable:
        origins[node.all_input_nodes[0].name] |= origins.pop(node.name)
    fold_batch_norms(graph, foldable)
    for node in batch_norms(graph):
        origin = origins.pop(node.name)
        origins |= dict.fromkeys(spread_batch_norm(graph, node), origin)
    separate_weights(graph)
    graph.graph.lint()
    graph.recompile()
    return PreparedProgram(graph, operators, origins)


def is_float(node: Node) -> bool:
    """Whether the node's value is one tensor of floats."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def is_quantizable(node: Node) -> bool:
    """Whether a quantizer may observe what goes into the operator or comes out of it."""
    return is_operator(node) and aten_name(node) in QUANTIZABLE


def is_constant(node: Node) -> bool:
    """Whether the node's value does not depend on the model's inputs."""
    if node.op == "get_attr":
        return True
    return is_operator(node) and all(is_constant(before) for before in node.all_input_nodes)


def constant_value(graph: GraphModule, node: Node) -> Any:
    """The value of a constant node: a tensor, or what its operator gives."""
    if node.op == "get_attr":
        value: Any = graph
        for part in str(node.target).split("."):
            value = getattr(value, part)
        return value.detach() if isinstance(value, torch.Tensor) else value
    operator: Any = node.target
    arguments, keywords = torch.fx.map_arg((node.args, node.kwargs), lambda one: constant_value(graph, one))
    with torch.no_grad():
        return operator(*arguments, **keywords)


def kept_by_plan(prepared: PreparedProgram, options: RecipeOptions) -> frozenset[str]:
    """Names of the prepared graph's nodes that the plan keeps in float.

    Operators that a quantizer fuses (batch norm and activation into the operator before) stay together: one
    of them named to stay in float keeps all of them there. RecipeError for a name or a type that the program
    does not have.
    """
    every = prepared.operators.values()
    refuse_unknown(
        {name for one in every for name in one.names}, {kind for one in every for kind in one.types}, options
    )
    kept: set[str] = set()
    for group in _fused_groups(prepared.graph):
        origins = [prepared.operators[name] for node in group for name in prepared.origins.get(node, ())]
        wishes = [wish(one.names, one.types, options) for one in origins]
        default = options.keep_float and False not in wishes
        if True in wishes or default:
            kept.update(group)
    return frozenset(kept)


def batch_norms(graph: GraphModule) -> list[Node]:
    """The batch norms of the graph."""
    return [node for node in graph.graph.nodes if node.target == _BATCH_NORM]


def foldable_batch_norms(graph: GraphModule) -> list[Node]:
    """Batch norms that can be folded into the operator before without changing anything else.

    torchao folds more (utils.py of 0.18): if something else uses the convolution's output, or another call
    its weights (one module called twice), that gets the scaled values too, without a word.
    """
    reads = Counter(str(node.target) for node in graph.graph.nodes if node.op == "get_attr")
    return [node for node in batch_norms(graph) if _is_foldable(node, reads)]


def fold_batch_norms(graph: GraphModule, foldable: Iterable[Node]) -> None:
    """Fold these batch norms, in place, and no others."""
    from torchao.quantization.pt2e.utils import _fuse_conv_bn_, _fuse_linear_bn_

    with hidden(set(batch_norms(graph)) - set(foldable)):
        _fuse_conv_bn_(graph)
        _fuse_linear_bn_(graph)


def spread_batch_norm(graph: GraphModule, norm: Node) -> tuple[str, str]:
    """Write a batch norm as a product and a sum with constants, in place; the names of these two.

    XNNPACK's delegate makes a depthwise convolution of it, which between quantized tensors has float weights
    and integer scales, and does not load (decompose_batch_norm.py of executorch 1.5.1).
    """
    before, *parameters = norm.args[:5]
    known: list[Any] = [
        constant_value(graph, one).double() if isinstance(one, Node) else None for one in parameters
    ]
    weight, bias, mean, variance = known
    like: Any = norm.meta["val"]
    factor: Any = torch.rsqrt(variance + norm.args[7]) * (1.0 if weight is None else weight)
    offset: Any = -mean * factor + (0.0 if bias is None else bias)
    shape = (1, -1, *(1,) * (like.ndim - 2))
    with graph.graph.inserting_before(norm):
        product = _with_constant(graph, norm, torch.ops.aten.mul.Tensor, before, factor.reshape(shape))
        total = _with_constant(graph, norm, torch.ops.aten.add.Tensor, product, offset.reshape(shape))
    norm.replace_all_uses_with(total)
    graph.graph.erase_node(norm)
    return product.name, total.name


def separate_weights(graph: GraphModule) -> None:
    """Give each operator a node of its own for each constant that it shares, in place, and a bias of its own.

    XNNPACK's delegate stores a shared bias once, in the scale of the operator that comes first, and the other
    adds it in that scale, too, without a word (25 dB instead of equality on two calls of one convolution).
    """
    for node in [one for one in graph.graph.nodes if one.op == "get_attr" and len(one.users) > 1]:
        for number, user in enumerate([one for one in node.users if aten_name(one) in ARITHMETIC][1:], 1):
            target = str(node.target)
            if node in user.args[2:3]:
                target = f"_{node.name}_{number}"
                graph.register_buffer(target, constant_value(graph, node).clone())
            with graph.graph.inserting_before(node):
                own = graph.graph.get_attr(target)
            own.meta.update(node.meta)
            user.replace_input_with(node, own)


@contextmanager
def hidden(nodes: Iterable[Node]) -> Iterator[None]:
    """Hide these operators from a vendor's pass: meanwhile they call a function that no pass knows."""
    targets = {node: node.target for node in nodes}
    for node in targets:
        node.target = _hidden
    try:
        yield
    finally:
        for node, target in targets.items():
            node.target = target
        for graph in {node.graph for node in targets}:
            if graph.owning_module is not None:
                graph.owning_module.recompile()


def _hidden(*_: Any, **__: Any) -> None:
    raise RuntimeError("a hidden operator was run")


def _with_constant(graph: GraphModule, norm: Node, operator: Any, before: Any, constant: Any) -> Node:
    """An operator with a constant as its second operand, in the place and of the type of `norm`."""
    like = norm.meta["val"]
    name = f"{norm.name}_{operator._schema.name.rpartition('::')[2]}"
    graph.register_buffer(f"_{name}", constant.to(like.dtype))
    read = graph.graph.get_attr(f"_{name}")
    read.meta["val"] = like.fake_mode.from_tensor(getattr(graph, f"_{name}"), static_shapes=True)
    node = graph.graph.create_node("call_function", operator, (before, read), name=name)
    node.meta.update(norm.meta)
    return node


def _is_foldable(norm: Node, reads: Mapping[str, int]) -> bool:
    before = norm.args[0]
    if not isinstance(before, Node) or aten_name(before) not in ARITHMETIC or len(before.users) != 1:
        return False
    constants = [one for one in before.args[1:3] if isinstance(one, Node)]
    if any(one.op != "get_attr" or len(one.users) != 1 or reads[str(one.target)] != 1 for one in constants):
        return False
    if aten_name(before).startswith("conv"):
        return True
    value = before.args[0].meta.get("val") if isinstance(before.args[0], Node) else None
    # A linear layer works on the last axis and a batch norm on the second: the same one of two axes only.
    return aten_name(before) == "linear" and isinstance(value, torch.Tensor) and value.ndim == 2


def _fused_groups(graph: GraphModule) -> list[tuple[str, ...]]:
    """The operators in groups: an arithmetic operator with the activation that alone uses its output."""
    groups: list[tuple[str, ...]] = []
    taken: set[Node] = set()
    for node in graph.graph.nodes:
        if not is_operator(node) or node in taken:
            continue
        group = [node]
        users = list(node.users)
        if aten_name(node) in ARITHMETIC and len(users) == 1 and aten_name(users[0]) in ACTIVATIONS:
            group += users
            taken.update(users)
        groups.append(tuple(one.name for one in group))
    return groups
