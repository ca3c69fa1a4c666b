"""The calibration worker for Keras models and SavedModels.

`python -m phoneproof.quantize.calibrate_tflite REQUEST.json`; request and result as in quantize/calibration.
It runs the float graph that TFLiteConverter quantizes and collects statistics of every tensor that has a
range there, for every method.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from phoneproof.errors import DataError, ProtocolError, ToolchainError, said
from phoneproof.protocol.work import Progress, run_worker
from phoneproof.quantize.calibration import CalibrationRequest, Observed, calibrated, stored_samples
from phoneproof.quantize.statistics import Histogram, Scratch, TensorStatistics
from phoneproof.quantize.tflite_converter import (
    SIGNATURE,
    Sample,
    calibrated_tensors,
    calibration_graph,
    converters,
)
from phoneproof.sources.inspect_tensorflow import load_tensorflow
from phoneproof.sources.request import KerasSourceRequest, SavedModelRequest
from phoneproof.sources.tensorflow_graph import TensorflowSource, input_name


def calibrate(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Collect the statistics in one pass and write one ranges file per method into `folder`."""
    return calibrated(request, folder, progress, _prepare)


def _prepare(wanted: CalibrationRequest) -> Observed:
    if not isinstance(wanted.source, KerasSourceRequest | SavedModelRequest):
        raise ProtocolError("This worker calibrates TensorFlow models.", where="$.source.format")
    source = load_tensorflow(wanted.source)
    first = next(iter(stored_samples(wanted).read(source.inputs)), None)
    if first is None:
        raise DataError(
            "The calibration set has no samples.", where="calibration", next_step="Add samples to the set."
        )
    with converters(source) as make_converter:
        content = calibration_graph(source, first, make_converter)
    return Observed(source.inputs, partial(observe, content, source))


def observe(
    content: bytes,
    source: TensorflowSource,
    samples: Iterable[Sample],
    threads: int,
    seen: Callable[[int], None] = lambda _: None,
) -> dict[str, Histogram]:
    """Histograms of all tensors of the calibration graph that have a range, by name, in the graph's order.

    content: of the flatbuffer. The result does not depend on the order of the samples, of which there is one
    at least. Raises DataError (a value that is not finite, naming tensor and sample) and ToolchainError.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    names = calibrated_tensors(content)
    statistics = {name: TensorStatistics(name) for name in names}
    scratch = Scratch()
    try:
        interpreter = Interpreter(
            model_content=content,
            num_threads=threads,
            experimental_preserve_all_tensors=True,
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
        interpreter.allocate_tensors()
        runner = interpreter.get_signature_runner(SIGNATURE)
        index_of = {detail["name"]: detail["index"] for detail in interpreter.get_tensor_details()}
        for count, sample in enumerate(samples, start=1):
            runner(**{input_name(i): sample[spec.name] for i, spec in enumerate(source.inputs)})
            for name in names:
                statistics[name].add(interpreter.get_tensor(index_of[name]), count - 1, scratch)
            seen(count)
    except (RuntimeError, KeyError) as error:
        raise ToolchainError(
            f"The calibration pass failed in LiteRT: {said(error)}.", where=str(source.path)
        ) from error
    return {name: statistics[name].histogram() for name in names}


if __name__ == "__main__":
    sys.exit(run_worker(calibrate))
