"""MobileNetV2 as torchvision has it."""

import torch
import torchvision


def network() -> torch.nn.Module:
    """Untrained; the plan names its weights."""
    module: torch.nn.Module = torchvision.models.mobilenet_v2(weights=None, num_classes=20)
    return module
