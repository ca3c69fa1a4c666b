"""Orders of calibrations and builds of exported programs."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from phoneproof.protocol.codec import to_dict
from phoneproof.protocol.tensors import TensorSpec
from tests.toolchains.orders import Order


def calibration(name: str, source: Path, samples: Mapping[str, str], *methods: Mapping[str, Any]) -> Order:
    """A calibration of the program at `source`."""
    request = {
        "source": {"format": "exported_program", "path": str(source)},
        "samples": samples["path"],
        "calibration_sha256": samples["digest"],
        "methods": list(methods),
        "threads": 1,
    }
    return Order(name, "phoneproof.quantize.calibrate_torch", request, "calibrate")


def building(
    name: str,
    toolchain: str,
    recipe: str,
    source: Path,
    specs: tuple[Iterable[TensorSpec], Iterable[TensorSpec]],
    calibrated: tuple[Path, Mapping[str, str]] | None = None,
    **more: Any,
) -> Order:
    """A build of the program at `source`, static if it is given a ranges file and its samples."""
    request: dict[str, Any] = {
        "recipe": recipe,
        "source": {"format": "exported_program", "path": str(source)},
        "source_sha256": "5" * 64,
        "out": "out",
        "source_inputs": [to_dict(spec) for spec in specs[0]],
        "source_outputs": [to_dict(spec) for spec in specs[1]],
    }
    if calibrated is not None:
        ranges, samples = calibrated
        request |= {"ranges": str(ranges), "samples": {"path": samples["path"]}}
        request |= {"calibration_sha256": samples["digest"]}
    return Order(name, f"phoneproof.toolchains.{toolchain}", {**request, **more})
