"""Small and read-only disks, mounted for a test."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, mebibytes: int) -> Iterator[Path]:
    """A disk of this size at `folder`."""
    folder.mkdir(parents=True)
    with _mounted(folder, ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(folder)]):
        yield folder


@contextmanager
def read_only(folder: Path) -> Iterator[Path]:
    """The folder, which nobody can write to: root may write to one that is only so by its mode."""
    folder.mkdir(parents=True, exist_ok=True)
    with _mounted(folder, ["mount", "--bind", str(folder), str(folder)]):
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        yield folder


@contextmanager
def _mounted(folder: Path, command: list[str]) -> Iterator[None]:
    reason = "only on Linux"
    mounted = False
    if sys.platform == "linux":
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        mounted, reason = done.returncode == 0, f"nothing can be mounted: {done.stderr.strip()}"
    if not mounted:
        assert os.environ.get("CI") != "true", reason  # there it may not be left out unnoticed
        pytest.skip(reason)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path, left: int = 0) -> Path:
    """Fill the disk but for `left` bytes; the file to remove to make room."""
    filler = disk / "filler"
    with filler.open("wb") as file:
        while (free := os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize - left) > 0:
            with contextlib.suppress(OSError):  # the run on it may have taken some room meanwhile
                os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size + free)
    return filler
