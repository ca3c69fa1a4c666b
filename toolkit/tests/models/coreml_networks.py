"""PyTorch networks that show what Core ML's converter does to weights, names and inputs."""

import torch
from torch import nn


class Weighted(nn.Module):
    """Every kind of weight: convolutions, a transposed one, linear, a factor, tied layers."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 24, 3)
        )
        self.up = nn.ConvTranspose2d(24, 16, 2, stride=2)
        self.bias_map = nn.Parameter(torch.randn(16, 12, 12))
        self.first = nn.Linear(16, 32)
        self.second = nn.Linear(32, 32)
        self.tied = nn.Linear(32, 32)
        self.tied.weight = self.second.weight
        self.mixing = nn.Parameter(torch.randn(32, 24))
        self.tiny = nn.Linear(24, 3)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """float32 [1, 3, 8, 8] to [1, 3]."""
        values = self.up(self.features(image)) + self.bias_map
        values = torch.relu(self.first(values.mean((2, 3))))
        values = self.tied(torch.tanh(self.second(values)))
        return torch.softmax(self.tiny(values @ self.mixing), 1)


class Recurrent(nn.Module):
    """An LSTM and a GRU, which coremltools does not read as such, over audio frames."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 12, batch_first=True)
        self.gru = nn.GRU(12, 6, batch_first=True)

    def forward(self, frames: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """float32 [1, 5, 8] to float32 [1, 5, 6] and the loudest unit, int64 [1, 5]."""
        values, _ = self.gru(self.lstm(frames)[0])
        return values, values.argmax(-1)


class Mixed(nn.Module):
    """Inputs of several dtypes, and a bool among the outputs."""

    def forward(
        self, values: torch.Tensor, mask: torch.Tensor, half: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """float64, bool and float16, each [1, 4], to float32 [1, 4] and bool [1, 4]."""
        wide = torch.where(mask, values.float(), half.float() * 2)
        return wide, wide > 0.5


class Twice(nn.Module):
    """Gives one tensor as two outputs."""

    def forward(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """float32 [1, 4] to the same, twice."""
        doubled = values * 2
        return doubled, doubled


class PassedOn(nn.Module):
    """Gives its input as an output."""

    def forward(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """float32 [1, 4] to the same."""
        return values * 2, values


class NoCoreMl(nn.Module):
    """An operator that coremltools does not convert."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """float32 [1, 4, 4] to the same."""
        factors: torch.Tensor = torch.linalg.qr(values)[0]
        return factors


class Bytes(nn.Module):
    """Takes pixels as they are stored."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """uint8 [1, 4] to float32 [1, 4]."""
        return image.float() / 255


class ScalesAroundReshape(nn.Module):
    """int8 to float, another shape, and int8 again with a scale ten times as large.

    An exported program may hold quantization of its own; these are its operators.
    """

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """float32 [1, 4, 4] to [1, 16]."""
        quantized = torch.ops.quantized_decomposed
        narrow = quantized.quantize_per_tensor(image, 0.01, 0, -128, 127, torch.int8)
        values = quantized.dequantize_per_tensor(narrow, 0.01, 0, -128, 127, torch.int8)
        values = torch.reshape(values, (1, 16))
        wide = quantized.quantize_per_tensor(values, 0.1, 0, -128, 127, torch.int8)
        return quantized.dequantize_per_tensor(wide, 0.1, 0, -128, 127, torch.int8)  # type: ignore[no-any-return]
