"""Quantizing a float .tflite file with the LiteRT quantizer (ai-edge-quantizer, which litert-torch requires).

Static recipes get a calibration result of our own. The quantizer's own calibration keeps a moving average of
least and greatest values (0.95 of the old), so its ranges follow the order of the samples and end below the
true ones: for a true maximum of 1.0, 0.938 with the bright samples last and 0.261 with them first.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from phoneproof.errors import ToolchainError, said
from phoneproof.recipes.table import Mode, Precision, Recipe, RecipeOptions
from phoneproof.toolchains.tflite_file import TfliteOperator

RangesByTensor = Mapping[str, tuple[float, float]]

FLOAT16_TYPES: Final = frozenset(
    {"FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D", "CONV_2D_TRANSPOSE", "EMBEDDING_LOOKUP"}
)
"""Operators whose weights the quantizer stores in float16 (0.10); its names for them."""


def quantized(
    content: bytes,
    recipe: Recipe,
    options: RecipeOptions,
    ranges: RangesByTensor | None,
    kept: Iterable[TfliteOperator],
    place: str,
) -> bytes:
    """The file in the recipe's form.

    ranges: by tensor name, for static recipes. kept: the operators to leave in float. ToolchainError for
    whatever the quantizer raises.
    """
    from ai_edge_quantizer import quantizer

    try:
        made = quantizer.Quantizer(bytearray(content), _recipe(recipe, options))
        for operator in kept:
            # An expression is searched for in the operator's output names, each with a semicolon behind. The
            # model's OUTPUT has the same name as the operator that gives it: the type tells them apart.
            kind = _vendor_type(operator.type)
            if kind is not None:
                made.update_quantization_recipe(
                    f"^{re.escape(operator.name)};",
                    kind,
                    algorithm_key=quantizer.AlgorithmName.NO_QUANTIZE,
                )
        calibration = None if ranges is None else _calibration(ranges)
        result = made.quantize(calibration, enable_progress_report=False)
        return bytes(result.quantized_model)
    except Exception as error:  # the quantizer raises ValueError, RuntimeError, KeyError and others
        raise ToolchainError(
            f"The LiteRT quantizer failed: {said(error, 400)}.",
            where=place,
            next_step="Leave the operator it names in float with keep_float_names.",
        ) from error


def _recipe(recipe: Recipe, options: RecipeOptions) -> Any:
    from ai_edge_quantizer import qtyping, quantizer, recipe_manager

    manager = recipe_manager.RecipeManager()
    channels = qtyping.QuantGranularity.CHANNELWISE
    whole = qtyping.QuantGranularity.TENSORWISE
    granularity = channels if options.per_channel else whole
    every = qtyping.TFLOperationName.ALL_SUPPORTED
    if recipe.precision is Precision.FLOAT16:
        for kind in sorted(FLOAT16_TYPES):
            manager.add_weight_only_config(
                ".*",
                qtyping.TFLOperationName[kind],
                num_bits=16,
                granularity=whole,
                algorithm_key=quantizer.AlgorithmName.FLOAT_CASTING,
            )
    elif recipe.mode is Mode.DYNAMIC:
        manager.add_dynamic_config(".*", every, num_bits=8, granularity=granularity)
    elif recipe.precision is Precision.INT16X8:
        manager.add_static_config(".*", every, activation_num_bits=16, weight_num_bits=8)
        for outer in (qtyping.TFLOperationName.INPUT, qtyping.TFLOperationName.OUTPUT):
            manager.add_quantization_config(".*", outer, algorithm_key=quantizer.AlgorithmName.NO_QUANTIZE)
    else:
        manager.add_static_config(".*", every, 8, 8, weight_granularity=granularity)
        if not options.per_channel_dense:
            dense = qtyping.TFLOperationName.FULLY_CONNECTED
            manager.add_static_config(".*", dense, 8, 8, weight_granularity=whole)
    return manager.get_quantization_recipe()


def _vendor_type(kind: str) -> Any:
    """The quantizer's name of a builtin operator; None for one that it leaves in float anyway."""
    from ai_edge_litert import schema_py_generated as schema
    from ai_edge_quantizer.utils import tfl_flatbuffer_utils

    return tfl_flatbuffer_utils.TFL_OP_CODE_TO_NAME.get(getattr(schema.BuiltinOperator, kind, None))


def _calibration(ranges: RangesByTensor) -> dict[str, dict[str, Any]]:
    return {
        name: {"min": np.array([low], np.float32), "max": np.array([high], np.float32)}
        for name, (low, high) in ranges.items()
    }
