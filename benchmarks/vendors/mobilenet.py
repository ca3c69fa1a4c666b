"""The torch model and the samples that the scripts of this folder share.

FOLDER holds network.safetensors (state dict of torchvision's MobileNetV2), network.keras (Keras's own) and
calibration.npy (float32 [n, 3, 224, 224]).
"""

from pathlib import Path

import numpy as np
import torch
import torchvision
from safetensors.torch import load_file

SHAPE = (1, 3, 224, 224)


def mobilenet(folder: Path) -> torch.nn.Module:
    """In evaluation mode."""
    network = torchvision.models.mobilenet_v2(weights=None)
    network.load_state_dict(load_file(folder / "network.safetensors"))
    return network.eval()


def samples(folder: Path) -> list[torch.Tensor]:
    """One batch of 1 each."""
    return [torch.from_numpy(sample[None]) for sample in np.load(folder / "calibration.npy")]
