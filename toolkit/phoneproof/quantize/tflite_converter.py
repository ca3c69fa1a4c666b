"""TFLiteConverter on a source model that is already frozen, and its calibration graph.

Calibration and quantization are two workers, and ranges go from one to the other by the names of tensors. So
both make the calibration graph here, in the same way, out of the same source.
"""

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from phoneproof.errors import PhoneproofError, ToolchainError
from phoneproof.sources.tensorflow_graph import TensorflowSource, input_name, output_name
from phoneproof.sources.tensorflow_vendor import tensorflow

Sample = Mapping[str, NDArray[Any]]
"""One sample: the source's input name to an array of the input's dtype and shape, batch of 1 included."""

SIGNATURE: Final = "serving_default"

_FOREIGN: Final = re.compile(r"(?:Flex|Custom) ops: ([^\n]+)")


@contextmanager
def converters(source: TensorflowSource) -> Iterator[Callable[[], Any]]:
    """Makes new TFLiteConverters for the source, each for one conversion.

    They read a SavedModel, so that the result has a signature; its names are input_name and output_name.
    """
    tf = tensorflow()
    names = [input_name(index) for index in range(len(source.inputs))]
    specs = {
        name: tf.TensorSpec(spec.shape, spec.dtype, name=name)
        for name, spec in zip(names, source.inputs, strict=True)
    }

    def serve(**tensors: Any) -> dict[str, Any]:
        values = source.function(*(tensors[name] for name in names))
        return {output_name(index): value for index, value in enumerate(values)}

    with tempfile.TemporaryDirectory(prefix="phoneproof-") as folder:
        signature = tf.function(serve, autograph=False).get_concrete_function(**specs)
        tf.saved_model.save(tf.Module(), folder, signatures={SIGNATURE: signature})
        yield lambda: tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=[SIGNATURE])


def converted(convert: Callable[[], bytes], source: TensorflowSource) -> bytes:
    """What `convert` gives. ToolchainError in our words for what the vendor's converter raises."""
    try:
        return bytes(convert())
    except (PhoneproofError, MemoryError):
        raise
    except Exception as error:  # ConverterError, RuntimeError, ValueError and what passes raise inside
        raise _translated(error, str(source.path)) from error


def calibration_graph(source: TensorflowSource, sample: Sample, make_converter: Callable[[], Any]) -> bytes:
    """The float flatbuffer that TFLiteConverter quantizes. Each tensor that needs a range has one.

    These ranges, from `sample`, only mark the tensors: the vendor's calibrator takes the sum for the tensor
    that an addition overwrites in place, as at the end of a residual block (TensorFlow 2.21: 1.18 for a
    depthwise convolution that reaches 0.32).
    """
    tf = tensorflow()
    converter = make_converter()
    fed = {input_name(index): sample[spec.name] for index, spec in enumerate(source.inputs)}
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: iter([fed])
    converter._experimental_calibrate_only = True
    return converted(converter.convert, source)


def with_ranges(content: bytes, ranges: Mapping[str, tuple[float, float]], place: Path) -> bytes:
    """The calibration graph with these ranges in place of those it has.

    ToolchainError for a tensor that has a range but none is given for: the vendor's calibrator looks inside
    operators (LSTM) where the calibration pass cannot.
    """
    from tensorflow.lite.tools import flatbuffer_utils

    model = flatbuffer_utils.convert_bytearray_to_object(bytearray(content))
    missing = []
    for tensor in (tensor for graph in model.subgraphs for tensor in graph.tensors):
        if not _is_calibrated(tensor):
            continue
        name = tensor.name.decode("utf-8")
        if name not in ranges:
            missing.append(name)
            continue
        tensor.quantization.min, tensor.quantization.max = ([limit] for limit in ranges[name])
    if missing:
        raise ToolchainError(
            f"The calibration pass cannot see inside an operator: {', '.join(missing[:3])}.",
            where=str(place),
            next_step="Use tflite-int8-dynamic, or layers that are made of simpler operators.",
        )
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))


def calibrated_tensors(content: bytes) -> tuple[str, ...]:
    """Names of the tensors of the main graph that have a range, in the order of the file."""
    from tensorflow.lite.tools import flatbuffer_utils

    model = flatbuffer_utils.convert_bytearray_to_object(bytearray(content))
    return tuple(
        tensor.name.decode("utf-8") for tensor in model.subgraphs[0].tensors if _is_calibrated(tensor)
    )


def without_ranges(content: bytes) -> bytes:
    """The calibration graph as a float model."""
    from tensorflow.lite.tools import flatbuffer_utils

    model = flatbuffer_utils.convert_bytearray_to_object(bytearray(content))
    for tensor in (tensor for graph in model.subgraphs for tensor in graph.tensors):
        if _is_calibrated(tensor):
            tensor.quantization = None
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))


def _is_calibrated(tensor: Any) -> bool:
    found = tensor.quantization
    return found is not None and found.min is not None and len(found.min) == 1


def _translated(error: Exception, place: str) -> ToolchainError:
    text = str(error)
    foreign = _FOREIGN.search(text)
    if foreign:
        return ToolchainError(
            f"TFLite has no builtin operator for: {foreign.group(1)[:300]}.",
            where=place,
            next_step="Write these operators otherwise, or leave that part out of the model.",
        )
    first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    return ToolchainError(
        f"TensorFlow's converter failed: {first[:400].rstrip('. ')}.",
        where=place,
        next_step="The whole text is in the toolchain's log.",
    )
