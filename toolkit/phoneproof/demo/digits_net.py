"""The network of phoneproof's demo: what a small network for phones is made of, in 0.28 million parameters.

`network()` gives it untrained; digits.safetensors, beside this file once the demo has run, is the state dict
of the trained one. Nothing but torch is needed.
"""

from collections import OrderedDict

import torch
from torch import nn

CLASSES = 10


def convolution(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution, batch normalisation, ReLU: exporters and quantizers fold the three into one operator."""
    return nn.Sequential(
        OrderedDict(
            conv=nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, groups=groups, bias=False),
            norm=nn.BatchNorm2d(outputs),
            relu=nn.ReLU(),
        )
    )


def separable(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    """Depthwise 3 x 3 and pointwise convolution: the pair where per-tensor int8 loses most on phones."""
    return nn.Sequential(
        OrderedDict(
            depthwise=convolution(inputs, inputs, 3, stride, groups=inputs),
            pointwise=convolution(inputs, outputs, 1),
        )
    )


class DigitsNet(nn.Module):
    """float32 [n, 1, height, width] to logits [n, 10]; height and width are free until export."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = convolution(1, 24, 3, stride=2)
        self.early = convolution(24, 48, 3)
        self.down = separable(48, 72, stride=2)
        self.middle = convolution(72, 72, 3)
        self.down_again = separable(72, 144, stride=2)
        self.late = convolution(144, 144, 3)
        self.last = separable(144, 144)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(144, CLASSES)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """One row of logits for each image."""
        features = self.middle(self.down(self.early(self.stem(image))))
        features = self.last(self.late(self.down_again(features)))
        logits: torch.Tensor = self.head(self.pool(features).flatten(1))
        return logits


def network() -> DigitsNet:
    """The network with fresh weights."""
    return DigitsNet()
