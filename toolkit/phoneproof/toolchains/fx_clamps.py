"""Clamps (ReLU6, Hardtanh, clamp) in the graphs of torch's FX graph mode, which QNNPACK computes wrongly.

QNNPACK's clamp writes values in the order of its input, channels last behind a convolution, into a tensor
that it makes contiguous: every value lands in another place, without a word (torch 2.13, ATen's
native/quantized/cpu/qclamp.cpp; its neighbours relu, sigmoid, tanh and hardswish were mended in torch 1.7,
pytorch/pytorch#46077). MobileNetV2, whose every block has two, then keeps 20 dB of its logits instead of 33.

FX graph mode also gives the operator before a clamp the range of what the clamp cuts off. Here it gets the
range behind the clamp, as in TFLite and XNNPACK: the steps are finer, and the operator's own saturation
clamps.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.ao.quantization.observer import ObserverBase
from torch.fx import GraphModule, Node

_UNSEEN: Final = "unseen_before_clamp"
_LIMITS: Final[Mapping[str, tuple[float | None, float | None]]] = {
    "relu6": (0.0, 6.0),
    "hardtanh": (-1.0, 1.0),
    "hardtanh_": (-1.0, 1.0),
    "clamp": (None, None),
    "clamp_": (None, None),
}
"""Limits of the functions and methods that clamp, where the call gives no others."""


@dataclass(frozen=True)
class _Affine:
    """What the 256 levels of a quantized tensor stand for."""

    scale: float
    zero_point: int

    def is_within(self, low: float, high: float) -> bool:
        """Whether no level is more than half a step beyond the limits."""
        least, most = (self.scale * (level - self.zero_point) for level in (0, 255))
        return least >= low - self.scale / 2 and most <= high + self.scale / 2


@contextmanager
def ranges_behind_clamps(prepared: GraphModule) -> Iterator[None]:
    """Calibrate inside: an operator whose only reader is a clamp gets the range of what the clamp gives."""
    prepared.add_submodule(_UNSEEN, torch.nn.Identity())
    moved = list(_observed_twice(prepared))
    for before, _ in moved:
        before.target = _UNSEEN
    prepared.recompile()
    yield
    for before, behind in moved:
        before.target = behind.target
    prepared.delete_submodule(_UNSEEN)
    prepared.recompile()


def mend_clamps(converted: GraphModule, inputs: Any) -> None:
    """Make each clamp of a quantized tensor right, in place.

    One that its input's levels cannot exceed is taken out; the others get their input in contiguous order.
    inputs: as the module takes them, to see which tensors are quantized.
    """
    affine = _affine(converted, inputs)
    for node in list(converted.graph.nodes):
        limits = _limits(converted, node)
        given = node.args[0] if limits is not None else None
        if limits is None or not isinstance(given, Node) or given.name not in affine:
            continue
        if affine[given.name].is_within(*limits):
            node.replace_all_uses_with(given)
            converted.graph.erase_node(node)
            continue
        if _is_in_place(converted, node):
            for reader in [one for one in given.users if one > node]:
                reader.replace_input_with(given, node)
        with converted.graph.inserting_before(node):
            ordered = converted.graph.call_method("contiguous", (given,))
        node.update_arg(0, ordered)
    converted.delete_all_unused_submodules()
    converted.recompile()


def _observed_twice(prepared: GraphModule) -> Iterator[tuple[Node, Node]]:
    """Observers before and behind each clamp whose input nothing else reads."""
    for node in prepared.graph.nodes:
        before = node.args[0] if _limits(prepared, node) else None
        behind = next(iter(node.users), None)
        if (
            isinstance(before, Node)
            and behind is not None
            and len(node.users) == len(before.users) == 1
            and _is_observer(prepared, before)
            and _is_observer(prepared, behind)
            # Nothing else may read what the observer before looks at: it would get that range as well.
            and len(before.all_input_nodes[0].users) == 1
        ):
            yield before, behind


def _is_observer(graph: GraphModule, node: Node) -> bool:
    return node.op == "call_module" and isinstance(graph.get_submodule(str(node.target)), ObserverBase)


def _limits(graph: GraphModule, node: Node) -> tuple[float, float] | None:
    """Least and greatest value that a clamp lets pass; None for other nodes and for clamps of one side."""
    if node.op == "call_module":
        module = graph.get_submodule(str(node.target))
        if isinstance(module, torch.nn.Hardtanh):  # ReLU6 too
            return float(module.min_val), float(module.max_val)
        return None
    name = str(getattr(node.target, "__name__", node.target))
    if node.op not in {"call_function", "call_method"} or name not in _LIMITS:
        return None
    given = node.args[1:3] if name != "relu6" else ()  # whose second is `inplace`
    least, most = _LIMITS[name]
    low = given[0] if given else node.kwargs.get("min_val", node.kwargs.get("min", least))
    high = given[1] if len(given) > 1 else node.kwargs.get("max_val", node.kwargs.get("max", most))
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        return None
    return float(low), float(high)


def _is_in_place(graph: GraphModule, node: Node) -> bool:
    """Whether those that read the clamp's input after it read what it gave."""
    if node.op == "call_module":
        return bool(getattr(graph.get_submodule(str(node.target)), "inplace", False))
    name = str(getattr(node.target, "__name__", node.target))
    place = {"relu6": 1, "hardtanh": 3}.get(name)
    given = place is not None and len(node.args) > place and node.args[place] is True
    return name.endswith("_") or given or node.kwargs.get("inplace") is True


def _affine(graph: GraphModule, inputs: Any) -> Mapping[str, _Affine]:
    """The levels of each quantized tensor, by node name."""
    found: dict[str, _Affine] = {}

    class Recorder(torch.fx.Interpreter):
        def run_node(self, n: Node) -> Any:
            value = super().run_node(n)
            if isinstance(value, torch.Tensor) and value.is_quantized:
                found[n.name] = _Affine(value.q_scale(), value.q_zero_point())
            return value

    with torch.no_grad():
        Recorder(graph).run(*inputs)
    return found
