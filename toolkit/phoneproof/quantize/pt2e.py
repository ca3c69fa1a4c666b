"""PT2E quantization of a prepared program with ranges that are known already.

Any torchao or ExecuTorch Quantizer says what is observed; what the observers would have seen comes out of a
Ranges, by node name, so that every calibration method works and no data is run here.
"""

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import FakeQuantizeBase, MinMaxObserver, PlaceholderObserver
from torchao.quantization.pt2e.observer import FixedQParamsObserver
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, Quantizer
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from phoneproof.errors import PhoneproofError, ToolchainError, said
from phoneproof.quantize.ranges import Ranges
from phoneproof.quantize.torch_graph import (
    CLAMPS,
    PreparedProgram,
    constant_value,
    hidden,
    is_constant,
    is_float,
)
from phoneproof.sources.program_operators import aten_name, is_operator

_SCALARS_MADE_FLOAT: Final = frozenset({"add", "mul"})
"""Operators whose integer scalars XNNPACKQuantizer turns into floats."""

_WEIGHTED: Final = frozenset({"linear", *(f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3))})
"""Operators whose second input a quantizer takes for a weight, whatever it is."""


@dataclass(frozen=True)
class Quantized:
    """graph: the program with quantize and dequantize operators around what computes in integers.

    integer: names of operators that the quantizer gave integers. unsafe: of those that could be quantized,
    but would lose an operand (see unsafe_nodes). computed_weights: of those whose weight depends on the
    inputs, which has no range per channel.
    """

    graph: GraphModule
    integer: frozenset[str]
    unsafe: frozenset[str]
    computed_weights: frozenset[str]


def quantized(
    prepared: PreparedProgram, quantizer: Quantizer, ranges: Ranges | None, kept: frozenset[str]
) -> Quantized:
    """Quantize the prepared program, whose graph is used up.

    ranges: by node name; None for a quantizer that leaves activations to run time. kept: names of nodes that
    stay in float whatever the quantizer would do. ToolchainError if the quantizer fails, or observes a tensor
    that has no range: nothing is made up.
    """
    computed = frozenset(node.name for node in prepared.graph.graph.nodes if _has_computed_weight(node))
    unsafe = frozenset() if ranges is None else unsafe_nodes(prepared.graph, ranges)
    known = _KnownRanges(quantizer, ranges, kept | unsafe | computed)
    try:
        graph = convert_pt2e(prepare_pt2e(prepared.graph, known))
    except PhoneproofError:
        raise
    except Exception as error:  # torchao's and the quantizers' errors have no base class of their own
        raise ToolchainError(
            f"PT2E quantization failed: {said(error)}.",
            next_step="Leave the operator it names in float with keep_float_names, or report it to torchao.",
        ) from error
    return Quantized(graph, known.integer, unsafe - kept, computed - kept)


def unsafe_nodes(graph: GraphModule, ranges: Ranges) -> frozenset[str]:
    """Additions that would lose an operand: all its values lie within half a step of the other's scale.

    An attention mask is such a thing: its minus 3e38, or minus 1e9, make steps beside which scores vanish.
    """
    return frozenset(node.name for node in graph.graph.nodes if _loses_an_operand(graph, node, ranges))


def _loses_an_operand(graph: GraphModule, node: Node, ranges: Ranges) -> bool:
    if not is_operator(node) or aten_name(node) not in {"add", "add_"}:
        return False
    spans = []
    for operand in node.args[:2]:
        if not isinstance(operand, Node) or not is_float(operand):
            return False
        if operand.name in ranges.tensors:
            low, high = ranges.tensors[operand.name]
        elif is_constant(operand):
            low, high = _extremes(constant_value(graph, operand))
        else:
            return False
        spans.append(high - low)
    return 0.0 < min(spans) < max(spans) / 255 / 2


def _has_computed_weight(node: Node) -> bool:
    if not is_operator(node) or aten_name(node) not in _WEIGHTED:
        return False
    return any(isinstance(one, Node) and not is_constant(one) for one in node.args[1:3])


class _KnownRanges(Quantizer):  # type: ignore[misc]
    """A vendor's quantizer, given the ranges, and kept from what it would get wrong."""

    def __init__(self, vendor: Quantizer, ranges: Ranges | None, kept: frozenset[str]) -> None:
        self._vendor = vendor
        self._ranges = ranges
        self._kept = kept
        self.integer: frozenset[str] = frozenset()

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """The vendor's transformation, with integer arithmetic hidden from it.

        XNNPACKQuantizer turns the scalars of every add and mul into floats (xnnpack_quantizer_utils.py of
        executorch 1.5.1); an index reckoned with them becomes a float, and the graph fails or is wrong.
        """
        integer = [n for n in model.graph.nodes if aten_name(n) in _SCALARS_MADE_FLOAT and not is_float(n)]
        with hidden(integer):
            transformed: GraphModule = self._vendor.transform_for_annotation(model)
        return transformed

    def annotate(self, model: GraphModule) -> GraphModule:
        """The vendor's annotation, after marking what stays in float as annotated with nothing.

        Filters are not enough: XNNPACKQuantizer's annotators of cat and of shared observers ask no filter.
        """
        for node in model.graph.nodes:
            if node.name in self._kept:
                node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(_annotated=True)
        annotated: GraphModule = self._vendor.annotate(model)
        self.integer = frozenset(n.name for n in annotated.graph.nodes if is_operator(n) and _is_observed(n))
        return annotated

    def validate(self, model: GraphModule) -> None:
        """See Quantizer."""
        self._vendor.validate(model)

    def prepare_obs_or_fq_callback(
        self, model: GraphModule, edge_or_node_to_obs_or_fq: dict[Any, Any]
    ) -> None:
        """Put the known ranges into the observers before they go into the graph."""
        self._vendor.prepare_obs_or_fq_callback(model, edge_or_node_to_obs_or_fq)
        fill(model, edge_or_node_to_obs_or_fq, self._ranges)


def _is_observed(node: Node) -> bool:
    annotation = node.meta.get(Q_ANNOTATION_KEY)
    if annotation is None:
        return False
    specs = (annotation.output_qspec, *annotation.input_qspec_map.values())
    return any(spec is not None for spec in specs)


def fill(model: GraphModule, observers: dict[Any, Any], ranges: Ranges | None) -> None:
    """Give every observer of the map what it would have seen; activations' ones are replaced.

    observers: by node (its output) or pair (node, user). One observer may serve several, which then share a
    scale: cat, pooling and reshaping, and a tensor with several users. It gets a range that holds all theirs.
    """
    groups: dict[int, list[Any]] = {}
    for place, observer in observers.items():
        if observer is not None:
            groups.setdefault(id(observer), []).append(place)
    replaced: dict[int, Any] = {}
    for places in groups.values():
        observer = observers[places[0]]
        if isinstance(observer, FixedQParamsObserver | PlaceholderObserver) or hasattr(
            observer, "obs_or_fqs"
        ):
            continue
        tensors = list({place[0] if isinstance(place, tuple) else place: None for place in places})
        replaced[id(observer)] = _filled(model, observer, tensors, ranges)
    for place, observer in observers.items():
        observers[place] = replaced.get(id(observer), observer)
        # The scale of a bias is derived from other observers.
        if hasattr(observer, "obs_or_fqs"):
            observer.obs_or_fqs = [replaced.get(id(one), one) for one in observer.obs_or_fqs]


def _filled(model: GraphModule, observer: Any, tensors: list[Node], ranges: Ranges | None) -> Any:
    inner = observer.activation_post_process if isinstance(observer, FakeQuantizeBase) else observer
    if all(is_constant(tensor) for tensor in tensors) and not _is_histogram(inner):
        for tensor in tensors:  # weights: the observer looks at them itself, per channel where it is made so
            inner(constant_value(model, tensor))
        return inner
    if not _is_per_tensor(inner):
        names = ", ".join(tensor.name for tensor in tensors)
        raise ToolchainError(
            f"The quantizer wants {names} quantized per channel, though it is no constant.",
            next_step="Leave the operator that uses it in float with keep_float_names.",
        )
    low, high = 0.0, 0.0
    for tensor in _unclipped(tensors):
        reached = _reached(model, tensor, ranges)
        low, high = min(low, reached[0]), max(high, reached[1])
    known = MinMaxObserver(
        dtype=inner.dtype,
        qscheme=inner.qscheme,
        quant_min=inner.quant_min,
        quant_max=inner.quant_max,
        eps=float(inner.eps),
    )
    known.min_val, known.max_val = torch.tensor(low), torch.tensor(high)
    return known


def _unclipped(tensors: list[Node]) -> list[Node]:
    """The tensors without those that only a clip of the same group uses.

    Quantizing saturates, which is the same clip: so a convolution before a ReLU6 gets the ReLU6's range, and
    not its own, wider one.
    """
    members = set(tensors)
    return [
        t
        for t in tensors
        if not t.users or any(u not in members or aten_name(u) not in CLAMPS for u in t.users)
    ]


def _reached(model: GraphModule, tensor: Node, ranges: Ranges | None) -> tuple[float, float]:
    if is_constant(tensor):
        return _extremes(constant_value(model, tensor))
    found = None if ranges is None else ranges.tensors.get(tensor.name)
    if found is None:
        raise ToolchainError(
            f"The calibration has no range for {tensor.name!r}, which the quantizer observes.",
            next_step="Calibrate again with this version; or leave the operators around it in float with "
            "keep_float_names.",
            tensor=tensor.name,
        )
    return found


def _extremes(value: Any) -> tuple[float, float]:
    return min(0.0, float(value.min())), max(0.0, float(value.max()))


def _is_per_tensor(observer: Any) -> bool:
    return observer.qscheme in (torch.per_tensor_affine, torch.per_tensor_symmetric)


def _is_histogram(observer: Any) -> bool:
    return type(observer).__name__ == "HistogramObserver"
