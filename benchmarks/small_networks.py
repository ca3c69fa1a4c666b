"""From which size on int8 gains anything: small networks in float32 and int8, size and speed.

Four 3 x 3 convolutions with ReLU, a mean and a linear layer, of more and more channels, quantized by ONNX
Runtime itself (QDQ, per channel) and run on one thread, float and int8 in turn. Of each the least time of
all rounds counts: what is asked is what the machine can do, not what else it did. The finding MODEL-SMALL
takes its limits from here.

Last line: JSON {"networks": [{side, channels, weights, multiplications, size_ratio, speed}]}.
"""

import argparse
import json
import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

LAYERS = 4
CLASSES = 10
RUNS_IN_A_ROW = 5


class Noise(CalibrationDataReader):  # type: ignore[misc]
    """Eight images of noise: which ranges come out does not matter for size and speed."""

    def __init__(self, side: int) -> None:
        random = np.random.default_rng(0)
        self._left = [random.random((1, 3, side, side), np.float32) for _ in range(8)]

    def get_next(self) -> dict[str, Any] | None:
        """The next sample, None after the last."""
        return {"image": self._left.pop()} if self._left else None


def network(side: int, channels: int) -> tuple[Any, int, int]:
    """The model, its number of weights, and of multiplications in one inference."""
    random = np.random.default_rng(0)
    weights, nodes, multiplications = [], [], 0
    name, given = "image", 3
    for layer in range(LAYERS):
        value = random.standard_normal((channels, given, 3, 3)).astype(np.float32) * 0.1
        weights.append(numpy_helper.from_array(value, f"w{layer}"))
        nodes.append(helper.make_node("Conv", [name, f"w{layer}"], [f"c{layer}"], pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"c{layer}"], [f"r{layer}"]))
        multiplications += value.size * side * side
        name, given = f"r{layer}", channels
    head = random.standard_normal((channels, CLASSES)).astype(np.float32)
    weights.append(numpy_helper.from_array(head, "head"))
    nodes.append(helper.make_node("GlobalAveragePool", [name], ["pool"]))
    nodes.append(helper.make_node("Flatten", ["pool"], ["flat"]))
    nodes.append(helper.make_node("MatMul", ["flat", "head"], ["scores"]))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, side, side])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, CLASSES])
    graph = helper.make_graph(nodes, "small", [image], [scores], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    count = sum(int(np.prod(weight.dims)) for weight in weights)
    return model, count, multiplications + head.size


def session(path: Path) -> Any:
    """ONNX Runtime on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def least_seconds(sessions: list[Any], side: int, rounds: int) -> list[float]:
    """Least time of one inference of each session, in turn for `rounds` rounds."""
    image = np.random.default_rng(1).random((1, 3, side, side), np.float32)
    least = [float("inf")] * len(sessions)
    for _ in range(rounds):
        for index, one in enumerate(sessions):
            begun = time.perf_counter()
            for _ in range(RUNS_IN_A_ROW):
                one.run(None, {"image": image})
            least[index] = min(least[index], (time.perf_counter() - begun) / RUNS_IN_A_ROW)
    return least


def measured(side: int, channels: int, rounds: int) -> dict[str, float]:
    """One network."""
    model, weights, multiplications = network(side, channels)
    with tempfile.TemporaryDirectory() as folder:
        exact, quantized = Path(folder, "float.onnx"), Path(folder, "int8.onnx")
        onnx.save(model, str(exact))
        quantize_static(exact, quantized, Noise(side), quant_format=QuantFormat.QDQ, per_channel=True)
        ratio = quantized.stat().st_size / exact.stat().st_size
        slow, fast = least_seconds([session(exact), session(quantized)], side, rounds)
    numbers = {"weights": weights, "multiplications": multiplications}
    return {"side": side, "channels": channels, **numbers, "size_ratio": ratio, "speed": slow / fast}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    logging.disable(logging.WARNING)  # the quantizer advises on preprocessing, which changes nothing here
    found = []
    for side in (8, 32):
        for channels in (4, 8, 16, 24, 32, 96):
            one = measured(side, channels, rounds)
            found.append(one)
            sys.stdout.write(f"{one}\n")
    sys.stdout.write(json.dumps({"networks": found}) + "\n")


if __name__ == "__main__":
    main()
