"""Small ONNX networks with random weights, built node by node, for the tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Axis = int | str | None


@dataclass
class NetworkBuilder:
    """Collects nodes and weights. Every operator method returns the name of its output."""

    seed: int = 0
    nodes: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)
    random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def op(self, kind: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        output = f"{name}_out"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], name=name, **attributes))
        return output

    def weight(self, name: str, value: NDArray[Any]) -> str:
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def conv(
        self, data: str, name: str, channels_in: int, channels_out: int, kernel: int = 3, stride: int = 1,
        group: int = 1, bias: bool = True,
    ) -> str:  # fmt: skip
        """Convolution whose output channels differ in size by up to a factor of 8, as in trained networks."""
        fan_in = channels_in // group * kernel * kernel
        shape = (channels_out, channels_in // group, kernel, kernel)
        spread = 2.0 ** self.random.uniform(-1.5, 1.5, channels_out)
        value = self.random.standard_normal(shape) * np.sqrt(2.0 / fan_in) * spread[:, None, None, None]
        inputs = [data, self.weight(f"{name}_w", value.astype(np.float32))]
        if bias:
            offset = self.random.standard_normal(channels_out) * 0.1
            inputs.append(self.weight(f"{name}_b", offset.astype(np.float32)))
        pad = kernel // 2
        return self.op(
            "Conv",
            inputs,
            name,
            kernel_shape=[kernel, kernel],
            pads=[pad] * 4,
            strides=[stride] * 2,
            group=group,
        )

    def batch_norm(self, data: str, name: str, channels: int) -> str:
        draw = self.random
        values = {
            "scale": draw.uniform(0.5, 1.5, channels),
            "offset": draw.standard_normal(channels) * 0.2,
            "mean": draw.standard_normal(channels) * 0.1,
            "var": draw.uniform(0.5, 1.5, channels),
        }
        names = [self.weight(f"{name}_{key}", value.astype(np.float32)) for key, value in values.items()]
        return self.op("BatchNormalization", [data, *names], name)

    def gemm(self, data: str, name: str, features_in: int, features_out: int) -> str:
        value = self.random.standard_normal((features_out, features_in)) / np.sqrt(features_in)
        offset = self.random.standard_normal(features_out) * 0.1
        names = [
            self.weight(f"{name}_w", value.astype(np.float32)),
            self.weight(f"{name}_b", offset.astype(np.float32)),
        ]
        return self.op("Gemm", [data, *names], name, transB=1)

    def model(
        self, inputs: Mapping[str, Sequence[Axis]], outputs: Mapping[str, Sequence[Axis]], opset: int = 17,
        ir_version: int = 8,
    ) -> Any:  # fmt: skip
        def values(entries: Mapping[str, Sequence[Axis]]) -> list[Any]:
            return [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, s in entries.items()]

        graph = helper.make_graph(self.nodes, "network", values(inputs), values(outputs), self.weights)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version, producer_name="test"
        )


def classifier(seed: int = 0, batch: Axis = "batch", side: Axis = 16, opset: int = 17) -> Any:
    """Convolutions, batch norms, depthwise, residual add, concat, pooling, Gemm, softmax."""
    build = NetworkBuilder(seed)
    x = build.conv("image", "stem", 3, 8, stride=2, bias=False)
    x = build.op("Relu", [build.batch_norm(x, "stem_bn", 8)], "stem_relu")
    y = build.conv(x, "depthwise", 8, 8, group=8, bias=False)
    y = build.op("Relu", [build.batch_norm(y, "depthwise_bn", 8)], "depthwise_relu")
    y = build.conv(y, "pointwise", 8, 8, kernel=1)
    x = build.op("Add", [x, y], "residual")
    left = build.op("Relu", [build.conv(x, "left", 8, 6, kernel=1)], "left_relu")
    right = build.op("Relu", [build.conv(x, "right", 8, 6)], "right_relu")
    x = build.op("Concat", [left, right], "join", axis=1)
    x = build.op("GlobalAveragePool", [x], "pool")
    x = build.gemm(build.op("Flatten", [x], "flatten"), "head", 12, 5)
    x = build.op("Softmax", [x], "softmax", axis=-1)
    return build.model({"image": [batch, 3, side, side]}, {x: [batch, 5]}, opset)


def two_inputs(seed: int = 1) -> Any:
    """An image and a vector of numbers joined before the last layer; two outputs."""
    build = NetworkBuilder(seed)
    x = build.op("Relu", [build.conv("image", "conv", 3, 4, stride=2)], "relu")
    x = build.op("Flatten", [build.op("GlobalAveragePool", [x], "pool")], "flatten")
    x = build.op("Concat", [x, "numbers"], "join", axis=1)
    scores, box = build.gemm(x, "scores", 10, 3), build.gemm(x, "box", 10, 4)
    return build.model({"image": [1, 3, 12, 12], "numbers": [1, 6]}, {scores: [1, 3], box: [1, 4]})


def branching_relu(seed: int = 2) -> Any:
    """The output of a convolution is used twice: before and after the ReLU."""
    build = NetworkBuilder(seed)
    x = build.conv("image", "conv", 3, 6)
    x = build.op("Add", [x, build.op("Relu", [x], "relu")], "sum")
    x = build.conv(x, "last", 6, 4)
    return build.model({"image": [1, 3, 8, 8]}, {x: [1, 4, 8, 8]})


def mlp(seed: int = 3) -> Any:
    """Two MatMul layers with biases added by Add, a GELU-like curve between."""
    build = NetworkBuilder(seed)
    draw = build.random
    first = build.weight("w1", (draw.standard_normal((16, 32)) / 4).astype(np.float32))
    second = build.weight("w2", (draw.standard_normal((32, 4)) / 5).astype(np.float32))
    offset = build.weight("b1", draw.standard_normal(32).astype(np.float32))
    x = build.op("Add", [build.op("MatMul", ["tokens", first], "matmul1"), offset], "bias1")
    x = build.op("Mul", [x, build.op("Sigmoid", [x], "gate")], "silu")
    x = build.op("MatMul", [x, second], "matmul2")
    return build.model({"tokens": [1, 7, 16]}, {x: [1, 7, 4]})


def saved(model: Any, path: Path) -> Path:
    """Write the model and give the path back."""
    onnx.save(model, str(path))
    return path


def images(count: int, shape: tuple[int, ...], seed: int = 0) -> list[NDArray[np.float32]]:
    """Random images in -1..1, each with its own brightness and contrast, as photographs have."""
    draw = np.random.default_rng(seed)
    result = []
    for _ in range(count):
        value = draw.standard_normal(shape) * draw.uniform(0.2, 0.6) + draw.uniform(-0.4, 0.4)
        result.append(np.clip(value, -1.0, 1.0).astype(np.float32))
    return result


def shared_weights(seed: int = 5) -> Any:
    """Two convolutions with one kernel, and one vector as bias of a Gemm, operand of an Add and of a Mul."""
    build = NetworkBuilder(seed)
    first = build.op("Relu", [build.conv("image", "left", 3, 4)], "left_relu")
    second = build.op("Conv", ["image", "left_w", "left_b"], "right", pads=[1] * 4, strides=[2, 2])
    pooled = [build.op("GlobalAveragePool", [x], f"pool{i}") for i, x in enumerate((first, second))]
    x = build.op("Flatten", [build.op("Concat", pooled, "join", axis=1)], "flatten")
    x = build.gemm(x, "head", 8, 8)
    x = build.op("Mul", [build.op("Add", [x, "head_b"], "add"), "head_b"], "mul")
    return build.model({"image": [1, 3, 12, 12]}, {x: [1, 8]})
