"""Cases of the operators that sample images at other places."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as nn
from torch import from_numpy as tensor

from tests.runtimes.mil.building import Array, Case, between, mb, normal

IMAGE = normal(1, 2, 5, 7)


def _half_grid(x: Array, mode: str) -> torch.Tensor:
    """Rows at 0, 0.5, ..., columns at 0.25, 0.75, ...: the grids of two modes by hand."""
    rows = np.clip(np.arange(10) / 2, 0, 4) if mode == "DEFAULT" else (np.arange(10) + 0.5) * 4 / 10
    columns = np.clip(np.arange(14) / 2, 0, 6) if mode == "DEFAULT" else (np.arange(14) + 0.5) * 6 / 14
    grid = np.stack(np.meshgrid(columns / 3 - 1, rows / 2 - 1), -1).astype(np.float32)
    return nn.grid_sample(tensor(x), tensor(grid[None]), align_corners=True)


def _resized(x: Array, aligned: bool) -> torch.Tensor:
    return nn.interpolate(tensor(x), (8, 10), mode="bilinear", align_corners=aligned)


def _resize(mode: str, height: int, width: int, expected: Any) -> Case:
    return Case(
        "resize_bilinear",
        {"x": IMAGE},
        lambda x: mb.resize_bilinear(
            x=x, target_size_height=height, target_size_width=width, sampling_mode=mode
        ),
        expected,
        mode,
    )


_RESIZES = [
    _resize("STRICT_ALIGN_CORNERS", 8, 10, lambda x: _resized(x, True)),
    _resize("UNALIGN_CORNERS", 8, 10, lambda x: _resized(x, False)),
    _resize("ALIGN_CORNERS", 1, 1, lambda x: x[:, :, 2:3, 3:4]),
    _resize("DEFAULT", 10, 14, lambda x: _half_grid(x, "DEFAULT")),
    _resize("OFFSET_CORNERS", 10, 14, lambda x: _half_grid(x, "OFFSET_CORNERS")),
    Case(
        "resize_nearest_neighbor",
        {"x": IMAGE},
        lambda x: mb.resize_nearest_neighbor(x=x, target_size_height=3, target_size_width=16),
        lambda x: nn.interpolate(tensor(x), (3, 16), mode="nearest"),
    ),
    Case(
        "resize",
        {"x": IMAGE},
        lambda x: mb.resize(
            x=x,
            shape=[8, 0],
            resized_dims=np.uint32(2),
            interpolation_mode="NEAREST_NEIGHBOR",
            sampling_mode="UNALIGN_CORNERS",
        ),
        lambda x: nn.interpolate(tensor(x), (8, 7), mode="nearest-exact"),
        "nearest",
        17,
    ),
    Case(
        "resize",
        {"x": IMAGE},
        lambda x: mb.resize(
            x=x, shape=[1, 8, 10], resized_dims=np.uint32(2), sampling_mode="UNALIGN_CORNERS"
        ),
        lambda x: _resized(x, False),
        "linear",
        17,
    ),
    Case(
        "upsample_bilinear",
        {"x": IMAGE},
        lambda x: (
            mb.upsample_bilinear(x=x, scale_factor_height=2, scale_factor_width=3),
            mb.upsample_bilinear(
                x=x,
                scale_factor_height=np.float32(2),
                scale_factor_width=np.float32(15 / 7),
                align_corners=False,
            ),
        ),
        lambda x: (
            nn.interpolate(tensor(x), (10, 21), mode="bilinear", align_corners=True),
            nn.interpolate(tensor(x), (10, 15), mode="bilinear", align_corners=False),
        ),
    ),
    Case(
        "upsample_bilinear",
        {"x": IMAGE},
        lambda x: mb.upsample_bilinear(
            x=x, scale_factor_height=2, scale_factor_width=2, align_corners=False, half_pixel_centers=False
        ),
        lambda x: _half_grid(x, "DEFAULT"),
        "no_centers",
        16,
    ),
    Case(
        "upsample_nearest_neighbor",
        {"x": IMAGE},
        lambda x: mb.upsample_nearest_neighbor(x=x, scale_factor_height=2, scale_factor_width=3),
        lambda x: nn.interpolate(tensor(x), scale_factor=(2, 3), mode="nearest"),
    ),
]
_GRID = between(-1.4, 1.4, 1, 4, 6, 2)


def _resample(padding: str, aligned: bool, torch_padding: str, mode: str = "bilinear") -> Case:
    return Case(
        "resample",
        {"x": IMAGE, "grid": _GRID},
        lambda x, grid: mb.resample(
            x=x,
            coordinates=grid,
            sampling_mode=mode,
            padding_mode=padding,
            padding_value=0.0,
            coordinates_mode="normalized_minus_one_to_one",
            align_corners=aligned,
        ),
        lambda x, grid: nn.grid_sample(tensor(x), tensor(grid), mode, torch_padding, aligned),
        f"{mode}_{padding}_{aligned}",
        tolerance=2e-5,
    )


_THETA = np.array([[0.8, 0.2, 0.1, -0.3, 1.1, 0.05]], np.float32)
_SAMPLES = [
    _resample("constant", False, "zeros"),
    _resample("constant", True, "zeros"),
    _resample("border", False, "border", "nearest"),
    _resample("reflection", True, "reflection"),
    _resample("symmetric", False, "reflection"),
    Case(
        "resample",
        {"x": IMAGE, "grid": np.array([[[[0, 0], [6, 4], [9, 9]]]], np.float32)},
        lambda x, grid: mb.resample(
            x=x,
            coordinates=grid,
            sampling_mode="bilinear",
            padding_mode="constant",
            padding_value=7.0,
            coordinates_mode="unnormalized",
            align_corners=True,
        ),
        lambda x, grid: np.stack([x[:, :, 0, 0], x[:, :, 4, 6], np.full((1, 2), 7)], -1)[:, :, None].astype(
            "f"
        ),
        "pixels_and_value",
    ),
    Case(
        "affine",
        {"x": IMAGE},
        lambda x: mb.affine(
            x=x,
            transform_matrix=_THETA,
            output_height=4,
            output_width=6,
            sampling_mode="bilinear",
            padding_mode="constant",
            padding_value=0.0,
            coordinates_mode="normalized_minus_one_to_one",
            align_corners=True,
        ),
        lambda x: nn.grid_sample(
            tensor(x),
            nn.affine_grid(tensor(_THETA.reshape(1, 2, 3)), [1, 2, 4, 6], align_corners=True),
            align_corners=True,
        ),
    ),
]
CASES = [*_RESIZES, *_SAMPLES]
