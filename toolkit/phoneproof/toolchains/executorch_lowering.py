"""ExecuTorch's exporter: the XNNPACK quantizer, and from an exported program to the bytes of a .pte."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from executorch.backends.xnnpack.partition.graphs import bilinear_2d, sdpa
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch.exir import to_edge_transform_and_lower

from phoneproof.errors import ToolchainError, said
from phoneproof.sources.program_operators import aten_name


def xnnpack_quantizer(per_channel: bool, dynamic: bool) -> XNNPACKQuantizer:
    """XNNPACK's quantizer: int8 weights, symmetric; int8 activations, affine, static or dynamic.

    Without the patterns for quantization-aware training: batch norms are folded before, they cost 5 s, and
    they leave a convolution without a scale for its output where its batch norm could not be folded.
    """
    quantizer = XNNPACKQuantizer()
    quantizer.SUPPORTED_PATTERNS = [one for one in quantizer.SUPPORTED_PATTERNS if not one.is_qat]
    return quantizer.set_global(
        get_symmetric_quantization_config(is_per_channel=per_channel, is_dynamic=dynamic)
    )


def lowered(program: Any, embedded: Mapping[str, str], place: str) -> bytes:
    """The .pte of the program, delegated to XNNPACK where that takes operators. ToolchainError if it fails.

    embedded: text by key; each becomes a method that gives the text.
    """
    try:
        with _needed_patterns(program):
            edge = to_edge_transform_and_lower(
                program, partitioner=[XnnpackPartitioner()], constant_methods=dict(sorted(embedded.items()))
            )
        return bytes(edge.to_executorch().buffer)
    except Exception as error:  # ExecuTorch's errors have no base class of their own
        raise ToolchainError(
            f"ExecuTorch cannot lower the program: {type(error).__name__}: {said(error)}.",
            where=place,
            next_step="The log names the operator: change it in the model, or report it to ExecuTorch.",
        ) from error


@contextmanager
def _needed_patterns(program: Any) -> Iterator[None]:
    """Spare XNNPACK's passes the patterns that cannot match: exporting them takes two thirds of the lowering.

    Attention has a softmax in it and bilinear resizing an index (or their own operators): a program that has
    neither cannot match (_passes/convert_to_sdpa.py, convert_to_upsample_bilinear2d.py of executorch 1.5.1).
    """
    names = {aten_name(node) for node in program.graph.nodes}
    has_softmax = any("softmax" in name or "attention" in name for name in names)
    has_index = any("index" in name or "upsample" in name for name in names)
    sdpa_graphs, bilinear_graphs = sdpa.get_graphs, bilinear_2d.get_graphs_dict
    try:
        if not has_softmax:
            sdpa.get_graphs = list
        if not has_index:
            bilinear_2d.get_graphs_dict = dict
        yield
    finally:
        sdpa.get_graphs, bilinear_2d.get_graphs_dict = sdpa_graphs, bilinear_graphs
