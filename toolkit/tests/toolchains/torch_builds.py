"""Makes builds of exported programs in one process, so that the vendors are imported once.

`python -m tests.toolchains.torch_builds ORDERS.json`: a list of {"name", "module", "request"}; in the folder
of the file, each gets a folder of its name with the result.json, or an error.json of class and text.
"""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phoneproof.builds.manifest import BuildManifest
from phoneproof.data.set_specs import NpzArchive
from phoneproof.data.sets import open_set
from phoneproof.data.store_writer import materialize
from phoneproof.errors import PhoneproofError
from phoneproof.protocol.codec import from_dict, to_dict
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import Progress
from tests.data.builders import target

Arrays = Mapping[str, NDArray[Any]]
FUNCTIONS = {"phoneproof.quantize.calibrate_torch": "calibrate"}


@dataclass(frozen=True)
class Order:
    """One piece of work: a worker's module and its request."""

    name: str
    module: str
    request: Mapping[str, Any]


@dataclass(frozen=True)
class Done:
    """What became of an order. error: "Class: text" of the error that the worker raised."""

    folder: Path
    result: Mapping[str, Any] | None
    error: str | None

    @property
    def manifest(self) -> BuildManifest:
        assert self.result is not None, self.error
        return from_dict(BuildManifest, json.loads((self.folder / "out" / "build.json").read_text()))

    @property
    def float_operators(self) -> dict[str, str]:
        """Reason by name of operator."""
        return {one.name: one.reason for one in self.manifest.float_operators}


def stored(root: Path, name: str, inputs: Iterable[TensorSpec], arrays: Arrays) -> dict[str, str]:
    """A calibration set of these arrays (first axis: samples), as a request's path and digest."""
    specs = tuple(inputs)
    np.savez(root / f"{name}.npz", **arrays)  # type: ignore[arg-type]
    opened = open_set(NpzArchive("npz", str(root / f"{name}.npz")), [spec.name for spec in specs])
    count = len(next(iter(arrays.values())))
    store = materialize(opened, range(count), target(root / f"{name}-set", None, *specs))
    return {"path": str(store.path), "digest": store.digest}


def calibration(name: str, source: Path, samples: Mapping[str, str], *methods: Mapping[str, Any]) -> Order:
    """A calibration of the program at `source`."""
    request = {
        "source": {"format": "exported_program", "path": str(source)},
        "samples": samples["path"],
        "calibration_sha256": samples["digest"],
        "methods": list(methods),
        "threads": 1,
    }
    return Order(name, "phoneproof.quantize.calibrate_torch", request)


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


def carried_out(orders: Iterable[Order], root: Path) -> dict[str, Done]:
    """Carry out the orders, one after the other, in one new process."""
    listed = list(orders)
    root.mkdir(parents=True, exist_ok=True)
    (root / "orders.json").write_text(json.dumps([to_dict(order) for order in listed]))
    command = [sys.executable, "-m", "tests.toolchains.torch_builds", str(root / "orders.json")]
    run = subprocess.run(command, env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-4000:]
    done = {}
    for order in listed:
        result, error = (root / order.name / name for name in ("result.json", "error.json"))
        done[order.name] = Done(
            root / order.name,
            json.loads(result.read_text()) if result.exists() else None,
            error.read_text() if error.exists() else None,
        )
    return done


def main(path: Path) -> None:
    """Carry out the orders in the file."""
    for order in json.loads(path.read_text()):
        folder = path.parent / order["name"]
        folder.mkdir(parents=True, exist_ok=True)
        module = importlib.import_module(order["module"])
        work = getattr(module, FUNCTIONS.get(order["module"], "build"))
        try:
            result = work(order["request"], folder, Progress(folder))
        except PhoneproofError as error:
            (folder / "error.json").write_text(f"{type(error).__name__}: {error}")
        else:
            (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
