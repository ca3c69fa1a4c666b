"""Small ONNX models of a chosen cost, for the tests and benchmarks of harness and devices."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper


def convolution(channels: int = 3, filters: int = 4, side: int = 8, layers: int = 1, seed: int = 0) -> bytes:
    """`layers` convolutions with ReLU on a float32 `image` of (1, channels, side, side)."""
    draw = np.random.default_rng(seed)
    nodes, weights, name, depth = [], [], "image", channels
    for layer in range(layers):
        value = draw.standard_normal((filters, depth, 3, 3)) / np.sqrt(9 * depth)
        weights.append(numpy_helper.from_array(value.astype(np.float32), f"w{layer}"))
        nodes.append(helper.make_node("Conv", [name, f"w{layer}"], [f"c{layer}"], pads=[1, 1, 1, 1]))
        name, depth = f"r{layer}", filters
        nodes.append(helper.make_node("Relu", [f"c{layer}"], [name]))
    shape, result = [1, channels, side, side], [1, filters, side, side]
    return _serialized(nodes, weights, ("image", TensorProto.FLOAT, shape), (name, TensorProto.FLOAT, result))


def int8_input_scaled(scale: float, zero_point: int, length: int = 6) -> bytes:
    """An int8 input `x` of (1, length), dequantized to the float32 output `y`."""
    weights = [
        numpy_helper.from_array(np.array(scale, np.float32), "scale"),
        numpy_helper.from_array(np.array(zero_point, np.int8), "zero_point"),
    ]
    nodes = [helper.make_node("DequantizeLinear", ["x", "scale", "zero_point"], ["y"])]
    shape = [1, length]
    return _serialized(nodes, weights, ("x", TensorProto.INT8, shape), ("y", TensorProto.FLOAT, shape))


def images(count: int, channels: int = 3, side: int = 8, seed: int = 1) -> NDArray[np.float32]:
    """Random samples of (count, 1, channels, side, side)."""
    draw = np.random.default_rng(seed)
    return draw.standard_normal((count, 1, channels, side, side)).astype(np.float32)


def _serialized(nodes: list[Any], weights: list[Any], given: Any, result: Any) -> bytes:
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info(*given)],
        [helper.make_tensor_value_info(*result)],
        weights,
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="test")
    data: bytes = model.SerializeToString()
    return data
