"""Largest error of a uint8 x int8 convolution on this CPU, without and with x64quantprecision.

Prints both as JSON. Activations of 255 and weights of 127: the sum of two products is above what int16 holds.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from phoneproof.runtimes import onnxruntime_cpu
from phoneproof.runtimes.runtime import LoadRequest

CHANNELS = 64


def model() -> bytes:
    """QLinearConv whose true output is 200 everywhere: zero points 0, scales 1, the output scaled down."""
    weights = np.full((4, CHANNELS, 1, 1), 127, np.int8)
    constants: dict[str, NDArray[Any]] = {
        "one": np.array(1.0, np.float32),
        "x_zero": np.array(0, np.uint8),
        "w": weights,
        "w_zero": np.array(0, np.int8),
        "y_scale": np.array(255 * 127 * CHANNELS / 200, np.float32),
        "y_zero": np.array(0, np.uint8),
    }
    names = ["x", "one", "x_zero", "w", "one", "w_zero", "y_scale", "y_zero"]
    graph = helper.make_graph(
        [helper.make_node("QLinearConv", names, ["y"])],
        "saturating",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, CHANNELS, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [1, 4, 8, 8])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    data: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return data


def error(path: Path, options: dict[str, str]) -> int:
    session = onnxruntime_cpu.load(LoadRequest(path, "cpu", False, 1, options))
    (output,) = session.prepare({"x": np.full((1, CHANNELS, 8, 8), 255, np.uint8)})()
    return int(np.abs(output.astype(np.int32) - 200).max())


def main() -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model())
        errors = {"plain": error(path, {}), "precise": error(path, {"x64quantprecision": "1"})}
        sys.stdout.write(json.dumps(errors) + "\n")


if __name__ == "__main__":
    main()
