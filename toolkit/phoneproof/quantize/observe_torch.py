"""One pass of the calibration set through a prepared program, collecting statistics of its tensors."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import Interpreter, Node

from phoneproof.errors import DataError, PhoneproofError, ToolchainError, said
from phoneproof.quantize.statistics import Derivation, Histogram, Scratch, TensorStatistics
from phoneproof.quantize.torch_graph import (
    CLAMPS,
    SAME_VALUES,
    PreparedProgram,
    is_constant,
    is_float,
    is_quantizable,
)
from phoneproof.sources.program_operators import aten_name

Sample = Mapping[str, NDArray[Any]]
"""One sample: input name to an array of the input's dtype and shape, batch of 1 included."""


def observe(
    prepared: PreparedProgram,
    inputs: tuple[str, ...],
    samples: Iterable[Sample],
    threads: int,
    seen: Callable[[int], None] = lambda _: None,
) -> dict[str, Histogram]:
    """Histograms over all samples of every float tensor that a quantizer may observe, by node name.

    inputs: names in the samples, in the order of the program. seen: called with the number of samples done.
    Memory does not grow with the samples: each tensor is counted when it is computed, and dropped after its
    last use. Raises DataError (no sample; a value that is not finite, naming tensor and sample) and
    ToolchainError.
    """
    wanted = observed_nodes(prepared)
    derived = derivations(wanted)
    statistics = {node.name: TensorStatistics(node.name) for node in wanted if node.name not in derived}
    counter = _Counter(prepared, statistics)
    torch.set_num_threads(threads)
    count = 0
    for count, sample in enumerate(samples, start=1):
        counter.run_sample(count - 1, [sample[name] for name in inputs])
        seen(count)
    if not count:
        raise DataError(
            "The calibration set has no samples.", where="calibration", next_step="Add samples to the set."
        )
    for node in wanted:
        if node.name in derived:
            rule = derived[node.name]
            statistics[node.name] = statistics[rule.source].clipped(node.name, rule.low, rule.high)
    return {node.name: statistics[node.name].histogram() for node in wanted if statistics[node.name].total}


def observed_nodes(prepared: PreparedProgram) -> list[Node]:
    """Nodes whose value depends on the inputs and that go into or come out of an operator of QUANTIZABLE.

    The others are left out: what a softmax takes may rightly hold minus infinity.
    """
    found: list[Node] = []
    for node in prepared.graph.graph.nodes:
        if node.op not in ("placeholder", "call_function") or not is_float(node) or is_constant(node):
            continue
        if is_quantizable(node) or any(is_quantizable(user) for user in node.users):
            found.append(node)
    return found


def derivations(nodes: Iterable[Node]) -> dict[str, Derivation]:
    """Tensors that need no look of their own: moved values, and what a clip around zero leaves."""
    held = {node.name for node in nodes}
    derived: dict[str, Derivation] = {}
    for node in nodes:
        before = node.args[0] if node.args else None
        if not isinstance(before, Node) or before.name not in held:
            continue
        bounds = _bounds(node)
        if bounds is not None and bounds[0] <= 0.0 <= bounds[1]:
            derived[node.name] = Derivation(before.name, *bounds)
    return derived


def _bounds(node: Node) -> tuple[float, float] | None:
    """(low, high) that the operator clips its input to; None if it does not just that."""
    name = aten_name(node)
    if name in SAME_VALUES:
        return -math.inf, math.inf
    if name not in CLAMPS:
        return None
    if name.startswith("relu6"):
        return 0.0, 6.0
    if name.startswith("relu"):
        return 0.0, math.inf
    low, high = (*node.args[1:], *(-1.0, 1.0)[len(node.args) - 1 :])[:2]
    return float(str(low)), float(str(high))


class _Counter(Interpreter):
    """Runs the program node by node and counts the values of the tensors in `statistics`."""

    def __init__(self, prepared: PreparedProgram, statistics: Mapping[str, TensorStatistics]) -> None:
        super().__init__(prepared.graph)
        self._statistics = statistics
        self._scratch = Scratch()
        self._sample = 0

    def run_sample(self, number: int, values: Iterable[NDArray[Any]]) -> None:
        """Run one sample; `number` counts from zero."""
        self._sample = number
        # Samples may be read-only views of the store, which torch does not take.
        tensors = [torch.from_numpy(np.array(value)) for value in values]
        try:
            with torch.inference_mode():
                self.run(*tensors, enable_io_processing=False)
        except PhoneproofError:
            raise
        except Exception as error:  # torch's errors have no base class of their own
            raise ToolchainError(
                f"The exported program cannot be run for calibration: {said(error)}.",
                where=f"calibration sample {number}",
                next_step="Check that the exported program runs on this input in torch.",
            ) from error

    def run_node(self, n: Node) -> Any:
        """See Interpreter. Values are counted before an operator that works in place can change them."""
        value = super().run_node(n)
        statistics = self._statistics.get(n.name)
        if statistics is not None:
            statistics.add(value.float().numpy(), self._sample, self._scratch)
        return value
