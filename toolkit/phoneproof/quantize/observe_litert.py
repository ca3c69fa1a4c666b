"""What values the tensors of a float .tflite file take over a calibration set."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phoneproof.errors import DataError, ToolchainError, said
from phoneproof.quantize.statistics import Histogram, Scratch, TensorStatistics

Sample = Mapping[str, NDArray[Any]]


def observe_litert(
    path: Path,
    inputs: Sequence[str],
    samples: Iterable[Sample],
    threads: int,
    seen: Callable[[int], None] = lambda _: None,
) -> dict[str, Histogram]:
    """Histograms of all float tensors that the file computes, inputs too, by tensor name.

    inputs: of the source, in the order of the file's signature inputs' names, which are the same. The result
    does not depend on the order of the samples. Raises DataError (no sample; a value that is not finite,
    naming tensor and sample) and ToolchainError.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    try:
        interpreter = Interpreter(
            model_path=str(path),
            num_threads=threads,
            experimental_preserve_all_tensors=True,
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
        interpreter.allocate_tensors()
        (signature,) = interpreter.get_signature_list()
        runner = interpreter.get_signature_runner(signature)
        dtypes = {name: detail["dtype"] for name, detail in runner.get_input_details().items()}
        computed = _computed_floats(interpreter)
        statistics = {name: TensorStatistics(name) for name in computed}
        scratch, count = Scratch(), 0
        for count, sample in enumerate(samples, start=1):
            runner(**{name: sample[name].astype(dtypes[name], copy=False) for name in inputs})
            for name, index in computed.items():
                statistics[name].add(interpreter.get_tensor(index), count - 1, scratch)
            seen(count)
    except (RuntimeError, KeyError, ValueError) as error:
        raise ToolchainError(
            f"The calibration pass failed in LiteRT: {said(error)}.", where=str(path)
        ) from error
    if not count:
        raise DataError(
            "The calibration set has no samples.", where="calibration", next_step="Add samples to the set."
        )
    return {name: one.histogram() for name, one in statistics.items()}


def _computed_floats(interpreter: Any) -> dict[str, int]:
    """Index by name of the float tensors that inputs or operators of the main graph fill."""
    operators = interpreter._get_ops_details()
    filled = {int(index) for operator in operators for index in operator["outputs"]}
    filled |= {int(detail["index"]) for detail in interpreter.get_input_details()}
    return {
        detail["name"]: int(detail["index"])
        for detail in interpreter.get_tensor_details()
        if detail["index"] in filled and detail["dtype"] is np.float32
    }
