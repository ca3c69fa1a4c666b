"""Each TFLite recipe as a conversion of a frozen TensorFlow source, by TensorFlow's own converter.

Every method of full integer quantization goes through the same vendor's quantizer, which reads the ranges out
of the calibration graph: for minmax those that the vendor's calibrator collected, for the others ours. So two
methods differ in their ranges and in nothing else. (LiteRT's separate quantizer refuses the lookup of an
embedding: "Ranks of scales (3) and zps (3) must be the same as the tensor rank (2)", 0.11.0, and leaves
operators in float that this one has in int8. It serves for int16x8 with our ranges, which TensorFlow's int16
quantizer does not read.)
"""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from phoneproof.errors import ToolchainError
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
from phoneproof.sources.tensorflow_graph import TensorflowSource, input_name
from phoneproof.sources.tensorflow_vendor import tensorflow
from phoneproof.toolchains.tflite_file import read_tflite
from phoneproof.toolchains.tflite_names import NamedOperator, kept_operators, named_operators
from phoneproof.toolchains.tflite_rewrite import with_float_weights


@dataclass(frozen=True)
class Conversion:
    """What a build is made of. samples: the calibration set, None for a recipe without.

    ranges: None where the vendor's calibrator collects them. work: folder for files in between.
    """

    source: TensorflowSource
    recipe: Recipe
    options: RecipeOptions
    ranges: Ranges | None
    samples: Callable[[], Iterable[Sample]] | None
    work: Path


@dataclass(frozen=True)
class Quantized:
    """A converted file. kept: the operators that the plan keeps in float."""

    content: bytes
    kept: tuple[NamedOperator, ...] = ()


def convert(wanted: Conversion) -> Quantized:
    """The file of the recipe, its inputs and outputs named by input_name and output_name.

    Raises RecipeError (an unknown name to keep in float), DataError (no samples) and ToolchainError.
    """
    with converters(wanted.source) as make:
        if wanted.recipe.mode is Mode.NONE:
            return Quantized(_float(wanted, make))
        if wanted.recipe.mode is Mode.DYNAMIC:
            return _dynamic(wanted, make)
        if wanted.recipe.precision is Precision.INT16X8:
            return Quantized(_int16(wanted, make))
        return _int8(wanted, make)


def _float(wanted: Conversion, make: Callable[[], Any]) -> bytes:
    tf = tensorflow()
    converter = make()
    if wanted.recipe.precision is Precision.FLOAT16:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.target_spec.supported_types = [tf.float16]
    return converted(converter.convert, wanted.source)


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
    if wanted.ranges is not None:
        return _int16_by_our_ranges(wanted, make, wanted.ranges)
    tf = tensorflow()
    samples, source = _samples(wanted), wanted.source
    converter = make()
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: (
        {input_name(index): sample[spec.name] for index, spec in enumerate(source.inputs)}
        for sample in samples()
    )
    converter.target_spec.supported_ops = [
        tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
    ]
    return converted(converter.convert, source)


def _int16_by_our_ranges(wanted: Conversion, make: Callable[[], Any], ranges: Ranges) -> bytes:
    from litert_quantizer import quantizer, recipe

    graph = without_ranges(_calibrated(wanted, make))
    # The quantizer's own calibration is a moving average, which follows the order of the samples.
    calibration = {
        name: {"min": np.array([low], np.float32), "max": np.array([high], np.float32)}
        for name, (low, high) in ranges.tensors.items()
    }

    def quantize() -> Any:
        made = quantizer.Quantizer(bytearray(graph), recipe.static_wi8_ai16())
        for place in ("INPUT", "OUTPUT"):
            made.update_quantization_recipe(".*", place, algorithm_key=quantizer.AlgorithmName.NO_QUANTIZE)
        return made.quantize(calibration).quantized_model

    return converted(quantize, wanted.source)


def _calibrated(wanted: Conversion, make: Callable[[], Any]) -> bytes:
    """The calibration graph with the ranges that the build is to have."""
    samples = _samples(wanted)()
    if wanted.ranges is None:
        return calibration_graph(wanted.source, samples, make)
    graph = calibration_graph(wanted.source, itertools.islice(samples, 1), make)
    return with_ranges(graph, wanted.ranges.tensors, wanted.source.path)


def _samples(wanted: Conversion) -> Callable[[], Iterable[Sample]]:
    if wanted.samples is None:
        raise ToolchainError(f"{wanted.recipe.name} needs samples.", where=str(wanted.source.path))
    return wanted.samples


def _kept(graph: bytes, wanted: Conversion) -> tuple[NamedOperator, ...]:
    path = wanted.work / "graph.tflite"
    path.write_bytes(graph)
    return kept_operators(named_operators(read_tflite(path), wanted.source), wanted.source, wanted.options)
