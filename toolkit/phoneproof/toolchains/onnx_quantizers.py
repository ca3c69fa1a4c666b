"""The calls into ONNX Runtime's quantizers. Ranges come from our calibrator, never from the vendor's."""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationMethod, QuantType
from onnxruntime.quantization.calibrate import TensorData, TensorsData
from onnxruntime.quantization.onnx_quantizer import ONNXQuantizer
from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
from onnxruntime.quantization.quant_utils import QuantizationMode
from onnxruntime.quantization.registry import IntegerOpsRegistry, QDQRegistry, QLinearOpsRegistry

from phoneproof.errors import ToolchainError
from phoneproof.quantize.observe import float_tensors
from phoneproof.quantize.onnx_graph import PreparedGraph
from phoneproof.quantize.ranges import Ranges
from phoneproof.recipes.table import Representation

QDQ_TYPES: Final = frozenset(QLinearOpsRegistry) | frozenset(QDQRegistry)
QOPERATOR_TYPES: Final = frozenset(QLinearOpsRegistry)
DYNAMIC_TYPES: Final = frozenset(IntegerOpsRegistry)
"""Operator types that the vendor's quantizers take, by recipe."""


def quantized_statically(
    graph: PreparedGraph,
    ranges: Ranges,
    representation: Representation,
    per_channel: bool,
    excluded: Iterable[str],
) -> Any:
    """The graph with weights and activations in int8.

    QDQ: activations int8 asymmetric, weights int8 symmetric. ONNX Runtime's guide names S8S8 QDQ as the first
    choice, ARM kernels and XNNPACK's per-channel kernels take signed activations, and on x86 the runtime
    turns them into unsigned ones itself. QOperator: activations uint8, since S8S8 is slow there on x86 (the
    vendor warns) and NNAPI takes only unsigned QLinearConv (onnxruntime issue 18571).
    Raises ToolchainError if a tensor has no range or the vendor's quantizer fails.
    """
    missing = [name for name in float_tensors(graph.model) if name not in ranges.tensors]
    if missing:
        raise ToolchainError(
            f"The ranges are of another model: {len(missing)} tensors have none.",
            next_step="Calibrate again with this source model and these tool versions.",
            tensors=tuple(missing[:5]),
        )
    is_qdq = representation is Representation.QDQ
    quantizer_class = QDQQuantizer if is_qdq else ONNXQuantizer
    mode: tuple[Any, ...] = () if is_qdq else (QuantizationMode.QLinearOps, True)
    arguments: tuple[Any, ...] = (
        _copy(graph.model),
        per_channel,
        False,  # reduce_range: 7-bit weights only help x86 without VNNI, and cost accuracy on every phone
        *mode,
        QuantType.QInt8,
        QuantType.QInt8 if is_qdq else QuantType.QUInt8,
        _tensors_data(ranges),
        [],
        sorted(excluded),
        sorted(QDQ_TYPES if is_qdq else QOPERATOR_TYPES),
        {},
    )
    return _run(quantizer_class, arguments)


def quantized_dynamically(graph: PreparedGraph, per_channel: bool, excluded: Iterable[str]) -> Any:
    """The graph with int8 weights, and activations quantized to uint8 at each run by what they hold.

    Raises ToolchainError if the vendor's quantizer fails.
    """
    # The vendor first splits Gemm into NAME_MatMul and an Add, and then no longer knows the name excluded.
    names = sorted({form for name in excluded for form in (name, f"{name}_MatMul")})
    arguments: tuple[Any, ...] = (
        _copy(graph.model),
        per_channel,
        False,
        QuantizationMode.IntegerOps,
        False,
        QuantType.QInt8,
        QuantType.QUInt8,
        None,
        [],
        names,
        sorted(DYNAMIC_TYPES),
        {"MatMulConstBOnly": True},
    )
    model = _run(ONNXQuantizer, arguments)
    _requantize_convolutions(model, graph.model, per_channel)
    return model


def _requantize_convolutions(model: Any, float_model: Any, per_channel: bool) -> None:
    """Give ConvInteger unsigned weights, per output channel if asked for.

    The vendor writes int8 weights, for which ONNX Runtime has no ConvInteger kernel on most CPUs
    (issues 15888 and 23985), and one scale per tensor whatever per_channel says, which ruins depthwise
    convolutions. Weights stay symmetric: stored = round(w / scale) + 128, zero point 128. The scale only
    enters the multiplication behind the operator, where it broadcasts over the channels.
    """
    floats = {tensor.name: tensor for tensor in float_model.graph.initializer}
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type != "ConvInteger" or node.input[1] not in stored:
            continue
        name = node.input[1].removesuffix("_quantized")
        weight = onnx.numpy_helper.to_array(floats[name]).astype(np.float32)
        scale = _symmetric_scale(weight, per_channel)
        integers = np.clip(np.rint(weight / scale), -127, 127) + 128
        column = scale.reshape((-1, *[1] * (weight.ndim - 2))) if per_channel else scale.reshape(())
        for target, value in (
            (node.input[1], integers.astype(np.uint8)),
            (node.input[3], np.array(128, np.uint8)),
            (f"{name}_scale", column),
        ):
            stored[target].CopyFrom(onnx.numpy_helper.from_array(value, target))


def _symmetric_scale(weight: NDArray[np.float32], per_channel: bool) -> NDArray[np.float32]:
    axes = tuple(range(1 if per_channel else 0, weight.ndim))
    greatest = np.abs(weight).max(axis=axes, keepdims=True)
    return np.where(greatest > 0, greatest / np.float32(127), np.float32(1)).astype(np.float32)


def _copy(model: Any) -> Any:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    # Says that shapes are inferred; without it the quantizers write the model out and infer them again.
    copy.metadata_props.add(key="onnx.infer", value="onnxruntime.quant")
    return copy


def _tensors_data(ranges: Ranges) -> Any:
    data = {
        name: TensorData(lowest=np.float32(lowest), highest=np.float32(highest))
        for name, (lowest, highest) in ranges.tensors.items()
    }
    return TensorsData(CalibrationMethod.MinMax, data)


def _run(quantizer_class: Any, arguments: tuple[Any, ...]) -> Any:
    try:
        quantizer = quantizer_class(*arguments)
        quantizer.quantize_model()
        quantizer.model.topological_sort()
        return quantizer.model.model
    except Exception as error:  # the vendor's code raises ValueError, RuntimeError, KeyError and asserts
        raise ToolchainError(
            "ONNX Runtime's quantizer failed.",
            next_step="Leave the operator it names in float with keep_float_names.",
            cause=f"{type(error).__name__}: {error}"[:400],
        ) from error
