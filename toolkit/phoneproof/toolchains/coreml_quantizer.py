"""Where an exported program is quantized for Core ML: CoreMLQuantizer's rules, looking at each node once.

ExecuTorch's quantizer (1.5.1) compares the graph with about 300 patterns, each of which it first exports
with torch: a minute for any model. What differs:

- A tensor that is never negative gets the whole of uint8: its symmetric scheme puts the zero point at 128,
  where an image or a softmax uses half of the steps. Core ML's converter has a form without zero point for 0
  and for 128 alike.
- All operators that only move values keep the scale of what they move, where CoreMLQuantizer knows pooling
  and flatten: less rounding, and nothing for coremltools to miscompile around a reshape (coreml_convert.py).
- The weights of embeddings and transposed convolutions are int8 too, beside activations in float.
"""

from typing import Any, Final

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.observer import MinMaxObserver, PerChannelMinMaxObserver
from torchao.quantization.pt2e.quantizer import (
    QuantizationAnnotation,
    QuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from phoneproof.quantize.ranges import Ranges
from phoneproof.quantize.torch_graph import ACTIVATIONS, SAME_VALUES, is_constant, is_float
from phoneproof.sources.program_operators import aten_name

WEIGHTED: Final = frozenset({"conv1d", "conv2d", "conv3d", "linear"})
STORED: Final = {"embedding": (0, 0), **{f"conv_transpose{axes}d": (1, 1) for axes in (1, 2, 3)}}
"""Operators whose weight alone is int8: which argument it is, and its axis of channels."""

BINARY: Final = frozenset({"add", "add_", "mul", "mul_", "matmul"})
POOLING: Final = frozenset(
    {f"{name}{axes}d" for name in ("max_pool", "avg_pool", "adaptive_avg_pool") for axes in (1, 2, 3)}
    | {"mean"}
)

_LEAST_STEP: Final = 2.0**-20
"""Scales are float16 in the program, where 16 times the least number above zero is exact to 3 %."""


class CoreMlQuantizer(Quantizer):  # type: ignore[misc]
    """Weights in symmetric int8; activations in uint8 per tensor, with a zero point of 0 or 128."""

    def __init__(self, ranges: Ranges, per_channel: bool) -> None:
        self._ranges = ranges
        self._per_channel = per_channel

    def annotate(self, model: GraphModule) -> GraphModule:
        """See Quantizer. Nodes that are annotated already stay as they are."""
        for node in model.graph.nodes:
            kind = aten_name(node)
            if Q_ANNOTATION_KEY in node.meta or not is_float(node):
                continue
            if kind in WEIGHTED:
                self._annotate(node, {node.args[0]: self._spec(node.args[0]), node.args[1]: self._weight(0)})
            elif kind in STORED:
                place, axis = STORED[kind]
                self._store(node, node.args[place], axis)
            elif kind in BINARY:
                floats = [one for one in node.args[:2] if isinstance(one, Node) and is_float(one)]
                if floats:
                    self._annotate(node, {one: self._spec(one) for one in floats})
            elif kind in POOLING | SAME_VALUES:
                _share(node)
        return model

    def _store(self, node: Node, weight: Any, axis: int) -> None:
        if is_constant(weight):
            inputs = {weight: self._weight(axis)}
            node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(input_qspec_map=inputs, _annotated=True)

    def validate(self, model: GraphModule) -> None:
        """See Quantizer."""

    def _annotate(self, node: Node, inputs: dict[Any, Any]) -> None:
        """Quantize what goes in and what comes out, of the activation where one follows at once."""
        only = next(iter(node.users)) if len(node.users) == 1 else None
        fused = only is not None and aten_name(only) in ACTIVATIONS and Q_ANNOTATION_KEY not in only.meta
        output = None if fused else self._spec(node)
        node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(
            input_qspec_map=inputs, output_qspec=output, _annotated=True
        )
        if fused and only is not None:
            only.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(
                output_qspec=self._spec(only), _annotated=True
            )

    def _weight(self, axis: int) -> QuantizationSpec:
        observer = PerChannelMinMaxObserver if self._per_channel else MinMaxObserver
        return QuantizationSpec(
            dtype=torch.int8,
            observer_or_fake_quant_ctr=observer.with_args(eps=_LEAST_STEP),
            quant_min=-127,
            quant_max=127,
            qscheme=torch.per_channel_symmetric if self._per_channel else torch.per_tensor_symmetric,
            ch_axis=axis if self._per_channel else None,
        )

    def _spec(self, node: Node) -> QuantizationSpec:
        reached = self._ranges.tensors.get(node.name)
        is_positive = reached is not None and reached[0] >= 0.0
        scheme = torch.per_tensor_affine if is_positive else torch.per_tensor_symmetric
        return QuantizationSpec(
            dtype=torch.uint8,
            observer_or_fake_quant_ctr=MinMaxObserver.with_args(eps=_LEAST_STEP),
            quant_min=0,
            quant_max=255,
            qscheme=scheme,
        )


def _share(node: Node) -> None:
    """Let what comes out have the scale of what goes in, if that is quantized."""
    before = node.args[0]
    annotation = before.meta.get(Q_ANNOTATION_KEY) if isinstance(before, Node) else None
    if annotation is not None and annotation.output_qspec is not None:
        shared = SharedQuantizationSpec(before)
        node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(
            input_qspec_map={before: shared}, output_qspec=shared, _annotated=True
        )
