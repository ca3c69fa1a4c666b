"""Carries out orders of workers in one process, so that the vendors are imported once.

`python -m tests.toolchains.orders ORDERS.json`: a list of {"name", "module", "request", "function"}; in the
folder of the file, each gets a folder of its name with result.json or error.json, which is "Class: text".
It runs in managed environments too, so it imports no more than a worker does.
"""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phoneproof.builds.manifest import BuildManifest
from phoneproof.errors import PhoneproofError
from phoneproof.protocol.codec import from_dict, to_dict
from phoneproof.protocol.work import Progress
from tests.own_path import OWN_PATH


@dataclass(frozen=True)
class Order:
    """One piece of work: a worker's module, its request, and the function that does it."""

    name: str
    module: str
    request: Mapping[str, Any]
    function: str = "build"


@dataclass(frozen=True)
class Done:
    """What became of an order. error: "Class: text" of the error that the worker raised."""

    folder: Path
    result: Any
    error: str | None

    @property
    def manifest(self) -> BuildManifest:
        assert self.error is None, self.error
        return from_dict(BuildManifest, json.loads((self.folder / "out" / "build.json").read_text()))

    @property
    def float_operators(self) -> dict[str, str]:
        """Reason by name of each operator in float."""
        return {one.name: one.reason for one in self.manifest.float_operators}


def carried_out(
    orders: Iterable[Order],
    root: Path,
    interpreter: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Done]:
    """Carry out the orders, one after the other, in one new process, by default of this environment."""
    listed = list(orders)
    root.mkdir(parents=True, exist_ok=True)
    (root / "orders.json").write_text(json.dumps([to_dict(order) for order in listed]))
    command = [str(interpreter or sys.executable), "-m", "tests.toolchains.orders", str(root / "orders.json")]
    variables = environment or OWN_PATH
    run = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-4000:]
    return {order.name: _done(root / order.name) for order in listed}


def _done(folder: Path) -> Done:
    result, error = (folder / name for name in ("result.json", "error.json"))
    return Done(
        folder,
        json.loads(result.read_text()) if result.exists() else None,
        error.read_text() if error.exists() else None,
    )


def main(path: Path) -> None:
    """Carry out the orders in the file."""
    for order in json.loads(path.read_text()):
        folder = path.parent / order["name"]
        folder.mkdir(parents=True, exist_ok=True)
        work = getattr(importlib.import_module(order["module"]), order["function"])
        try:
            result = work(order["request"], folder, Progress(folder))
        except PhoneproofError as error:
            (folder / "error.json").write_text(f"{type(error).__name__}: {error}")
        else:
            (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
