"""What a user writes: functions that give a module. Loaded by the workers as `small_networks:...`."""

from typing import Any

import numpy as np
import torch
from torch import nn


class Classifier(nn.Module):
    """Convolutions with batch norm, a residual, an embedding of token ids, and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.block = nn.Conv2d(16, 16, 3, padding=1)
        self.tokens = nn.Embedding(10, 16)
        self.fc = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor, y: torch.Tensor, scale: float = 1.0) -> Any:
        """float32 [1, 3, 8, 8] and int64 [1, 6] to logits [1, 5] and a sum of one element."""
        values = self.features(x)
        values = torch.relu(self.block(values) + values)
        pooled = values.mean((2, 3)) * scale + self.tokens(y).mean(1)
        return {"logits": self.fc(pooled), "total": values.sum()}


class Convolutions(nn.Module):
    """Images to classes: what static quantization is for."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.block = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.BatchNorm2d(16), nn.ReLU())
        self.wide = nn.Conv2d(16, 24, 1)
        self.fc = nn.Linear(24, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """float32 [1, 3, 16, 16] to [1, 5]."""
        values = self.features(x)
        values = self.wide(values + self.block(values))
        values = torch.cat((values[:, :12], values[:, 12:] * 0.5), 1)
        return self.fc(torch.flatten(nn.functional.adaptive_avg_pool2d(values, 1), 1))  # type: ignore[no-any-return]


class InvertedResiduals(nn.Module):
    """Two blocks of MobileNetV2, and clamps in every form: of modules, functions and methods, also alone."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = self.layer(3, 16, 3)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                self.layer(16, 48, 1), self.layer(48, 48, 3, 48), nn.Conv2d(48, 16, 1), nn.BatchNorm2d(16)
            )
            for _ in range(2)
        )
        self.head = nn.Conv2d(16, 24, 1)
        self.fc = nn.Linear(24, 5)

    def layer(self, given: int, made: int, side: int, groups: int = 1) -> nn.Module:
        """A convolution with its batch norm and ReLU6, in place as in torchvision."""
        conv = nn.Conv2d(given, made, side, padding=side // 2, groups=groups, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(made), nn.ReLU6(inplace=True))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """float32 [1, 3, 16, 16] to [1, 5]."""
        values = self.stem(x)
        for block in self.blocks:
            values = values + block(values)
        values = self.head(values)
        both = nn.functional.hardtanh(values, -1.0, 2.0) + values.clamp(-0.5, 0.75)
        return self.fc(nn.functional.relu6(both).mean((2, 3)))  # type: ignore[no-any-return]


class Broken(nn.Module):
    """forward by `kind`: what must not become a source model."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.norm = nn.BatchNorm2d(3)
        self.gain = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> Any:
        """float32 [1, 3, 8, 8]."""
        if self.kind == "branch":
            return x + 1 if x.mean() > 0 else x - 1
        if self.kind == "dropout":
            return nn.functional.dropout(x * self.gain[:, None, None], training=True)
        if self.kind == "training":
            return self.norm.train()(x)
        if self.kind == "python_random":
            return x * float(np.random.default_rng().random())
        if self.kind == "fails":
            return x.reshape(7)
        return torch.ones(3)


def classifier() -> nn.Module:
    return Classifier()


def convolutions() -> nn.Module:
    """Batch norms are given statistics, so that folding them shows."""
    module = Convolutions()
    with torch.no_grad():
        for _ in range(8):
            module(torch.randn(4, 3, 16, 16))
    return module


def inverted_residuals() -> nn.Module:
    """Batch norms are given statistics, so that each clamp has something to cut off."""
    module = InvertedResiduals()
    with torch.no_grad():
        for _ in range(8):
            module(torch.randn(4, 3, 16, 16))
    return module


def branch() -> nn.Module:
    return Broken("branch")


def dropout() -> nn.Module:
    return Broken("dropout")


def training() -> nn.Module:
    return Broken("training")


def python_random() -> nn.Module:
    return Broken("python_random")


def fails_in_forward() -> nn.Module:
    return Broken("fails")


def fails() -> nn.Module:
    raise KeyError("no such width")


def no_module() -> Any:
    return {"conv": nn.Conv2d(1, 1, 1)}


a_value = 3
