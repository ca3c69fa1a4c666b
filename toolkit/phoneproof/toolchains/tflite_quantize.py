"""Each TFLite recipe as a conversion of a frozen TensorFlow source, by TensorFlow's own converter.

Full integer quantization goes through the vendor's quantizer, which reads ranges out of the calibration
graph: there we put those of our own calibration, for every method, so that two methods differ in their ranges
and in nothing else. LiteRT's separate quantizer, 0.11.0, refuses the lookup of an embedding ("Ranks of scales
(3) and zps (3) must be the same as the tensor rank (2)") and leaves operators in float that this one has in
int8. It serves for int16x8, where TensorFlow's takes no ranges but its own and no integer inputs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from phoneproof.errors import DataError, ProtocolError
from phoneproof.quantize.ranges import Ranges
from phoneproof.quantize.tflite_converter import (
    Sample,
    calibration_graph,
    converted,
    converters,
    with_ranges,
    without_ranges,
)
from phoneproof.recipes.table import Mode, Precision, Recipe, RecipeOptions
from phoneproof.sources.tensorflow_graph import TensorflowSource
from phoneproof.sources.tensorflow_vendor import tensorflow
from phoneproof.toolchains.tflite_file import read_tflite
from phoneproof.toolchains.tflite_names import NamedOperator, kept_operators, named_operators
from phoneproof.toolchains.tflite_rewrite import with_float_weights


@dataclass(frozen=True)
class Conversion:
    """What a build is made of. ranges, and one sample of the calibration set: None for a recipe without.

    work: folder for files in between.
    """

    source: TensorflowSource
    recipe: Recipe
    options: RecipeOptions
    ranges: Ranges | None
    sample: Sample | None
    work: Path


@dataclass(frozen=True)
class Quantized:
    """A converted file. kept: the operators that the plan keeps in float.

    plain: of a float16 build, the float32 conversion of the same source.
    """

    content: bytes
    kept: tuple[NamedOperator, ...] = ()
    plain: bytes | None = None


def convert(wanted: Conversion) -> Quantized:
    """The file of the recipe, its inputs and outputs named by input_name and output_name.

    Raises RecipeError (an unknown name to keep in float), DataError (no samples), ProtocolError (no ranges)
    and ToolchainError.
    """
    with converters(wanted.source) as make:
        if wanted.recipe.mode is Mode.NONE:
            return _float(wanted, make)
        if wanted.recipe.mode is Mode.DYNAMIC:
            return _dynamic(wanted, make)
        if wanted.recipe.precision is Precision.INT16X8:
            return Quantized(_int16(wanted, make))
        return _int8(wanted, make)


def _float(wanted: Conversion, make: Callable[[], Any]) -> Quantized:
    tf = tensorflow()
    plain = converted(make().convert, wanted.source)
    if wanted.recipe.precision is not Precision.FLOAT16:
        return Quantized(plain)
    converter = make()
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.target_spec.supported_types = [tf.float16]
    return Quantized(converted(converter.convert, wanted.source), plain=plain)


def _dynamic(wanted: Conversion, make: Callable[[], Any]) -> Quantized:
    tf = tensorflow()
    plain = converted(make().convert, wanted.source)
    kept = _kept(plain, wanted)
    converter = make()
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter._experimental_disable_per_channel = not wanted.options.per_channel
    content = converted(converter.convert, wanted.source)
    if kept:
        content = with_float_weights(content, plain, frozenset(one.tensor for one in kept))
    return Quantized(content, kept)


def _int8(wanted: Conversion, make: Callable[[], Any]) -> Quantized:
    from tensorflow.lite.python.convert import mlir_quantize

    tf = tensorflow()
    graph = _calibrated(wanted, make)
    kept = _kept(graph, wanted)

    def quantize() -> Any:
        return mlir_quantize(
            graph,
            disable_per_channel=not wanted.options.per_channel,
            disable_per_channel_for_dense_layers=not wanted.options.per_channel_dense,
            input_data_type=tf.int8,
            output_data_type=tf.int8,
            denylisted_nodes=[one.tensor for one in kept],
        )

    return Quantized(converted(quantize, wanted.source), kept)


def _int16(wanted: Conversion, make: Callable[[], Any]) -> bytes:
    from litert_quantizer import quantizer, recipe

    graph = without_ranges(_calibrated(wanted, make))
    calibration = {
        name: {"min": np.array([low], np.float32), "max": np.array([high], np.float32)}
        for name, (low, high) in _ranges(wanted).tensors.items()
    }

    def quantize() -> Any:
        made = quantizer.Quantizer(bytearray(graph), recipe.static_wi8_ai16())
        for place in ("INPUT", "OUTPUT"):
            made.update_quantization_recipe(".*", place, algorithm_key=quantizer.AlgorithmName.NO_QUANTIZE)
        return made.quantize(calibration).quantized_model

    return converted(quantize, wanted.source)


def _calibrated(wanted: Conversion, make: Callable[[], Any]) -> bytes:
    """The calibration graph with the ranges that the build is to have."""
    ranges = _ranges(wanted)
    if wanted.sample is None:
        raise DataError(
            "The calibration set has no samples.", where="calibration", next_step="Add samples to the set."
        )
    graph = calibration_graph(wanted.source, wanted.sample, make)
    return with_ranges(graph, ranges.tensors, wanted.source.path)


def _ranges(wanted: Conversion) -> Ranges:
    if wanted.ranges is None:
        raise ProtocolError(f"{wanted.recipe.name} needs ranges.", where="$.ranges")
    return wanted.ranges


def _kept(graph: bytes, wanted: Conversion) -> tuple[NamedOperator, ...]:
    path = wanted.work / "graph.tflite"
    path.write_bytes(graph)
    return kept_operators(named_operators(read_tflite(path), wanted.source), wanted.source, wanted.options)
