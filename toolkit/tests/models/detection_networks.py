"""Small networks with the head of a detector: boxes in pixels, and scores from 0 to 1."""

from typing import Any, Final

import numpy as np

from tests.models.onnx_networks import NetworkBuilder

SIDE: Final = 16
CLASSES: Final = 6
ANCHORS: Final = (SIDE // 2) ** 2


def joined_head(seed: int = 0) -> Any:
    """One output [1, 4 + classes, anchors] holds both, as YOLO's does. Join: the Concat `join`."""
    build = NetworkBuilder(seed)
    boxes, scores = _heads(build)
    joined = build.op("Concat", [boxes, scores], "join", axis=1)
    output = _flat(build, joined, "detections", 4 + CLASSES)
    return build.model({"image": [1, 3, SIDE, SIDE]}, {output: [1, 4 + CLASSES, ANCHORS]})


def split_head(seed: int = 0) -> Any:
    """The same network with two outputs."""
    build = NetworkBuilder(seed)
    boxes, scores = _heads(build)
    outputs = {
        _flat(build, boxes, "boxes", 4): [1, 4, ANCHORS],
        _flat(build, scores, "scores", CLASSES): [1, CLASSES, ANCHORS],
    }
    return build.model({"image": [1, 3, SIDE, SIDE]}, outputs)


def _heads(build: NetworkBuilder) -> tuple[str, str]:
    x = build.op("Relu", [build.conv("image", "stem", 3, 16, stride=2)], "stem_relu")
    x = build.op("Relu", [build.conv(x, "neck", 16, 16)], "neck_relu")
    boxes = build.op("Sigmoid", [build.conv(x, "box_head", 16, 4, kernel=1)], "box_sigmoid")
    pixels = build.op("Mul", [boxes, build.weight("pixels", np.array(640, np.float32))], "box_pixels")
    scores = build.op("Sigmoid", [build.conv(x, "score_head", 16, CLASSES, kernel=1)], "score_sigmoid")
    return pixels, scores


def _flat(build: NetworkBuilder, data: str, name: str, channels: int) -> str:
    shape = build.weight(f"{name}_shape", np.array([1, channels, ANCHORS], np.int64))
    return build.op("Reshape", [data, shape], name)
