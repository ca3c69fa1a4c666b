"""The demo's network: what a small network for phones is made of, in 0.28 million parameters."""

from torch import nn

from phoneproof.demo.digits import CLASSES

_STEM, _EARLY, _MIDDLE, _LATE = 24, 48, 72, 144


def _convolution(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution, batch normalisation, ReLU: exporters and quantizers fold the three into one operator."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


def _separable(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """Depthwise 3 x 3 and pointwise convolution: the pair where per-tensor int8 loses most on phones."""
    return nn.Sequential(
        _convolution(inputs, inputs, 3, stride, groups=inputs), _convolution(inputs, outputs, 1)
    )


def build_network() -> nn.Sequential:
    """float32 [n, 1, H, W] to logits [n, 10]; H and W are free until export."""
    return nn.Sequential(
        _convolution(1, _STEM, 3, stride=2),
        _convolution(_STEM, _EARLY, 3),
        _separable(_EARLY, _MIDDLE, stride=2),
        _convolution(_MIDDLE, _MIDDLE, 3),
        _separable(_MIDDLE, _LATE, stride=2),
        _convolution(_LATE, _LATE, 3),
        _separable(_LATE, _LATE, stride=1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(_LATE, CLASSES),
    )
