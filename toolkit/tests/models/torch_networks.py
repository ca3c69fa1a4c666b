"""Small PyTorch networks, made the same every time, and programs exported from them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn


class ConvNet(nn.Module):
    """Convolutions with batch norm and clipping activations, a residual, pooling and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU6(inplace=True), nn.MaxPool2d(2)
        )
        self.block = nn.Sequential(
            nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False), nn.BatchNorm2d(16), nn.ReLU()
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.drop = nn.Dropout()
        self.fc = nn.Linear(16, 5)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """float32 [1, 3, 16, 16] to [1, 5]."""
        values = self.features(image)
        values = values + self.block(values) * 0.5
        return self.fc(self.drop(torch.flatten(self.pool(values), 1)))  # type: ignore[no-any-return]


class SharedConvolution(nn.Module):
    """One convolution called twice, with a batch norm behind the first call only, and read before it too."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.other = nn.Conv2d(4, 4, 1)
        self.second_norm = nn.BatchNorm2d(4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """float32 [1, 4, 8, 8] to the same."""
        values = self.conv(torch.relu(self.norm(self.conv(image))))
        direct = self.other(values)
        return self.second_norm(direct) + direct  # type: ignore[no-any-return]


class TokenClassifier(nn.Module):
    """Token ids to classes: embedding, positions reckoned with integers, attention with a mask, softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(32, 16)
        self.positions = nn.Embedding(16, 16)
        self.query = nn.Linear(16, 16)
        self.key = nn.Linear(16, 16)
        self.head = nn.Linear(16, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """int64 [1, 8] to float32 [1, 3]."""
        places = torch.arange(8).unsqueeze(0) * 1 + 2
        values = self.tokens(ids) + self.positions(places)
        scores = self.query(values) @ self.key(values).transpose(1, 2)
        mask = (ids == 0).unsqueeze(1).to(torch.float32) * -1e9
        values = torch.softmax(scores + mask, dim=-1) @ values
        return torch.softmax(self.head(values.mean(1)), dim=-1)


class TwoInTwoOut(nn.Module):
    """Two inputs, two outputs, and an operator that XNNPACK does not take (cumsum)."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(8, 8)
        self.right = nn.Linear(4, 8)

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """float32 [1, 8] and [1, 4] to [1, 16] and [1, 8]."""
        first, second = torch.relu(self.left(left)), self.right(right)
        return torch.cat((first, second), 1), torch.cumsum(first * second, 1)


def trained(module: nn.Module, example: Sequence[torch.Tensor], passes: int = 10) -> nn.Module:
    """The module with the same weights every time, its batch norms' statistics set by random inputs."""
    torch.manual_seed(0)
    for part in module.modules():
        reset: Any = getattr(part, "reset_parameters", None)
        if reset is not None:
            reset()
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.5, 2.0)
            nn.init.normal_(part.bias, std=0.3)
    module.train()
    with torch.no_grad():
        for _ in range(passes):
            module(*(torch.randn_like(one) if one.is_floating_point() else one for one in example))
    return module.eval()


def exported(module: nn.Module, example: Sequence[torch.Tensor]) -> Any:
    """The program of torch.export."""
    return torch.export.export(module, tuple(example))


def saved_program(program: Any, path: Path) -> Path:
    """Write the program to `path`."""
    torch.export.save(program, path)
    return path
