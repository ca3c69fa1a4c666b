"""Train the demo's network. The same seed, machine and versions give the same weights, bit by bit."""

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional

from phoneproof.demo.digits_net import DigitsNet
from phoneproof.demo.digits_net import network as untrained

# Sums are split by thread, so another number of threads gives other last bits.
_THREADS: Final = 2
_BATCH: Final = 32
_PEAK_LEARNING_RATE: Final = 3e-3
_WEIGHT_DECAY: Final = 0.05
_LABEL_SMOOTHING: Final = 0.05

# How far a training image is turned (radians), enlarged (share) and shifted (share of half the side).
_TURN, _ZOOM, _SHIFT = 0.2, 0.12, 0.12

EpochEnded = Callable[[int, float], None]
"""Called after each epoch with its number, from 1, and the mean loss over it."""


def train(
    inputs: npt.NDArray[np.float32],
    labels: npt.NDArray[np.int64],
    *,
    epochs: int,
    seed: int,
    epoch_ended: EpochEnded,
) -> DigitsNet:
    """Return the trained network in evaluation mode.

    inputs: [n, 1, H, W], preprocessed. labels: [n]. Optimiser: AdamW, learning rate by the one-cycle policy
    (Smith and Topin, 2018). Changes torch's global state: threads, seed, deterministic algorithms.
    """
    torch.set_num_threads(_THREADS)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(seed)
    network = untrained()
    images, targets = torch.from_numpy(inputs), torch.from_numpy(labels)
    optimiser = torch.optim.AdamW(network.parameters(), lr=_PEAK_LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
    steps = -(-len(images) // _BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _PEAK_LEARNING_RATE, total_steps=epochs * steps)
    network.train()
    for epoch in range(1, epochs + 1):
        total = 0.0
        order = torch.randperm(len(images))
        for start in range(0, len(images), _BATCH):
            batch = order[start : start + _BATCH]
            optimiser.zero_grad()
            logits = network(_moved_a_little(images[batch]))
            loss = functional.cross_entropy(logits, targets[batch], label_smoothing=_LABEL_SMOOTHING)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
            total += loss.item() * len(batch)
        epoch_ended(epoch, total / len(images))
    return network.eval()


def logits_of(network: nn.Module, inputs: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """float32 [n, 10] for preprocessed images, float32 [n, 1, H, W]."""
    images = torch.from_numpy(inputs)
    with torch.inference_mode():
        batches = [network(images[start : start + _BATCH]) for start in range(0, len(images), _BATCH)]
    logits: npt.NDArray[np.float32] = torch.cat(batches).numpy()
    return logits


def _moved_a_little(images: torch.Tensor) -> torch.Tensor:
    """Each image turned, zoomed and shifted at random, as other hands would have written it."""
    n = len(images)
    turn, zoom = _symmetric(n) * _TURN, 1 + _symmetric(n) * _ZOOM
    across, down = _symmetric(n) * _SHIFT, _symmetric(n) * _SHIFT
    cosine, sine = zoom * turn.cos(), zoom * turn.sin()
    rows = (torch.stack([cosine, -sine, across], 1), torch.stack([sine, cosine, down], 1))
    grid = functional.affine_grid(torch.stack(rows, 1), list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def _symmetric(n: int) -> torch.Tensor:
    return torch.rand(n) * 2 - 1
