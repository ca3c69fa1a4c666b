"""Exported programs on disk, and archives changed by hand."""

import json
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import nn


class Images(nn.Module):
    """A convolution and a linear layer, with a token input; axes that may be dynamic."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.fc = nn.Linear(4, 5)

    def forward(self, image: torch.Tensor, ids: torch.Tensor) -> Any:
        """float32 [n, 3, h, 8], int64 [n, 6] to [n, 5] and one number."""
        values = torch.relu(self.conv(image))
        return {"logits": self.fc(values.mean((2, 3))), "total": values.sum() + ids.sum()}


def images() -> nn.Module:
    """Images with the same weights every time."""
    torch.manual_seed(0)
    return Images().eval()


def program(dynamic: bool = False, least_batch: int = 1) -> Any:
    """The exported program of Images; dynamic: batch and height are open, the height from 4 to 64."""
    torch.manual_seed(0)
    example = (
        torch.randn(2 if dynamic else 1, 3, 8, 8),
        torch.zeros(2 if dynamic else 1, 6, dtype=torch.int64),
    )
    batch = torch.export.Dim("batch", min=least_batch, max=16)
    height = torch.export.Dim("height", min=4, max=64)
    shapes = {"image": {0: batch, 2: height}, "ids": {0: batch}} if dynamic else None
    return torch.export.export(images(), example, dynamic_shapes=shapes)


def saved(one: Any, path: Path) -> Path:
    """The program in a file."""
    torch.export.save(one, path)
    return path


def changed(path: Path, out: Path, change: Callable[[str, bytes], bytes | None], **added: bytes) -> Path:
    """A copy of the archive with each record as `change` gives it (None leaves it out), and some added.

    Record names are without the archive's own folder; in those of `added`, __ stands for /.
    """
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(out, "w") as copy:
        root = archive.namelist()[0].partition("/")[0]
        for name in archive.namelist():
            content = change(name.removeprefix(f"{root}/"), archive.read(name))
            if content is not None:
                copy.writestr(name, content)
        for name, content in added.items():
            copy.writestr(f"{root}/{name.replace('__', '/')}", content)
    return out


def with_program(path: Path, out: Path, change: Callable[[Any], None]) -> Path:
    """A copy of the archive whose program, as JSON, `change` has changed."""

    def record(name: str, content: bytes) -> bytes:
        if name != "models/model.json":
            return content
        one = json.loads(content)
        change(one)
        return json.dumps(one).encode()

    return changed(path, out, record)


class Touch:
    """When it is unpickled, the file `marker` comes into being, and an empty dict."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return touched, (self.marker,)


def touched(marker: Path) -> dict[str, Any]:
    marker.touch()
    return {}


def pickled(marker: Path) -> bytes:
    """Sample inputs, as torch.export.save writes them, that make `marker` when they are read."""
    buffer = BytesIO()
    torch.save(((torch.zeros(2, 3, 8, 8), torch.zeros(2, 6, dtype=torch.int64)), Touch(marker)), buffer)
    return buffer.getvalue()
