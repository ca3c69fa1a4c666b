"""Networks that are wrong, each in its own way, with the input and output of a small classifier."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from onnx import helper

from tests.models.onnx_networks import NetworkBuilder

IMAGE: Final = {"image": [1, 3, 12, 12]}


def _classified(build: NetworkBuilder, data: str) -> str:
    """Two scores out of the mean of each channel."""
    pooled = build.op("GlobalAveragePool", [data], "pool")
    return build.gemm(build.op("Flatten", [pooled], "flatten"), "head", 3, 2)


def reads_an_unknown_tensor() -> Any:
    build = NetworkBuilder()
    x = _classified(build, "nowhere")
    return build.model(IMAGE, {x: [1, 2]})


def weight_is_too_short() -> Any:
    build = NetworkBuilder()
    x = _classified(build, build.conv("image", "conv", 3, 3))
    build.weights[0].raw_data = build.weights[0].raw_data[:-8]
    return build.model(IMAGE, {x: [1, 2]})


def has_a_custom_operator() -> Any:
    build = NetworkBuilder()
    x = _classified(build, build.op("Sharpen", ["image"], "sharpen", domain="com.vendor"))
    model = build.model(IMAGE, {x: [1, 2]})
    model.opset_import.append(helper.make_opsetid("com.vendor", 1))
    return model


def gives_nan() -> Any:
    """The square root of a negative number in the second score."""
    build = NetworkBuilder()
    x = _classified(build, "image")
    x = build.op("Sub", [x, build.weight("far", np.array([0, 1e6], np.float32))], "sub")
    x = build.op("Concat", [build.op("Slice", _slice(build, x, 0), "a"), _root(build, x)], "join", axis=1)
    return build.model(IMAGE, {x: [1, 2]})


def fails_on_light_images() -> Any:
    """Looks a row up by the brightness: an index beyond the table for images lighter than the middle."""
    build = NetworkBuilder()
    mean = build.op("ReduceMean", ["image"], "mean", keepdims=0)
    twice = build.op("Mul", [mean, build.weight("two", np.array(2, np.float32))], "twice")
    index = build.op("Cast", [twice], "index", to=7)
    table = build.weight("table", np.array([[1.0, 2.0]], np.float32))
    row = build.op("Gather", [table, index], "row", axis=0)
    x = build.op("Add", [_classified(build, "image"), row], "sum")
    return build.model(IMAGE, {x: [1, 2]})


def _slice(build: NetworkBuilder, data: str, column: int) -> list[str]:
    bounds = (("starts", column), ("ends", column + 1), ("axes", 1))
    return [
        data,
        *(build.weight(f"{key}{column}", np.array([value], np.int64)) for key, value in bounds),
    ]


def _root(build: NetworkBuilder, data: str) -> str:
    return build.op("Sqrt", [build.op("Slice", _slice(build, data, 1), "b")], "root")


UNREADABLE: Final[Mapping[str, Callable[[], Any]]] = {
    "unknown-tensor": reads_an_unknown_tensor,
    "short-weight": weight_is_too_short,
}
