"""Carries out orders of TensorFlow's workers in one process, so that TensorFlow starts once.

`python -m tests.toolchains.tensorflow_orders ORDERS.json`: a list of {"name", "module", "function",
"request"}; in the folder of the file, each gets a folder of its name with result.json or error.json, which is
"Class: text".
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
from phoneproof.recipes.rows import recipe_named
from phoneproof.runtimes.litert import load
from phoneproof.runtimes.runtime import LoadRequest
from phoneproof.toolchains.tflite_file import TfliteFile, read_tflite
from tests.data.builders import target
from tests.models.keras_networks import IDS, IMAGE, samples

Arrays = Mapping[str, NDArray[Any]]
JUDGED, JUDGING_SEED = 8, 5
"""Number and seed of the samples that builds are judged by."""


@dataclass(frozen=True)
class Order:
    """One piece of work: a function of a worker's module, and its request."""

    name: str
    module: str
    function: str
    request: Mapping[str, Any]


@dataclass(frozen=True)
class Done:
    """What became of an order. error: "Class: text" of the error that the worker raised."""

    folder: Path
    result: Any
    error: str | None

    @property
    def path(self) -> Path:
        assert self.error is None, self.error
        return self.folder / "out" / "model.tflite"

    @property
    def file(self) -> TfliteFile:
        return read_tflite(self.path)

    @property
    def manifest(self) -> BuildManifest:
        assert self.error is None, self.error
        return from_dict(BuildManifest, json.loads((self.folder / "out" / "build.json").read_text()))

    @property
    def reasons(self) -> dict[str, str]:
        """Reason by name of each operator in float."""
        return {one.name: one.reason for one in self.manifest.float_operators}

    def outputs(self, samples: Arrays) -> dict[str, NDArray[np.float64]]:
        """What the build gives for each sample, in real units, by name of output; first axis samples."""
        manifest = self.manifest
        session = load(LoadRequest(self.path, "cpu", False, 1, {}))
        count = len(next(iter(samples.values())))
        found: dict[str, list[NDArray[np.float64]]] = {spec.name: [] for spec in manifest.outputs}
        for index in range(count):
            feed = {s.name: stored(samples[s.name][index : index + 1], s) for s in manifest.inputs}
            for spec, value in zip(manifest.outputs, session.prepare(feed)(), strict=True):
                found[spec.name].append(real(value, spec))
        session.close()
        return {name: np.concatenate(values) for name, values in found.items()}


def stored(values: NDArray[Any], spec: TensorSpec) -> NDArray[Any]:
    """Real values in the build's own dtype."""
    if spec.scale is None or spec.zero_point is None:
        return values
    limits = np.iinfo(spec.dtype)
    return np.clip(np.round(values / spec.scale) + spec.zero_point, limits.min, limits.max).astype(spec.dtype)


def real(values: NDArray[Any], spec: TensorSpec) -> NDArray[np.float64]:
    """Stored values in real units."""
    if spec.scale is None or spec.zero_point is None:
        return values.astype(np.float64)
    return (values.astype(np.float64) - spec.zero_point) * spec.scale


def stored_set(root: Path, inputs: Iterable[TensorSpec], arrays: Arrays) -> dict[str, str]:
    """A calibration set of these arrays (first axis: samples): path and digest."""
    specs = tuple(inputs)
    root.mkdir(parents=True, exist_ok=True)
    np.savez(root / "set.npz", **arrays)  # type: ignore[arg-type]
    opened = open_set(NpzArchive("npz", str(root / "set.npz")), [spec.name for spec in specs])
    count = len(next(iter(arrays.values())))
    store = materialize(opened, range(count), target(root / "store", None, *specs))
    return {"path": str(store.path), "digest": store.digest}


def source(path: Path, **more: Any) -> dict[str, Any]:
    """A request's source model."""
    return {"format": "keras" if path.suffix == ".keras" else "savedmodel", "path": str(path), **more}


def inspecting(name: str, path: Path, **more: Any) -> Order:
    """An inspection of the model at `path`."""
    return Order(name, "phoneproof.sources.inspect", "inspect", source(path, **more))


def calibrating(name: str, path: Path, samples: Mapping[str, str], *methods: Mapping[str, Any]) -> Order:
    """A calibration of the model at `path`."""
    request = {
        "source": source(path),
        "samples": samples["path"],
        "calibration_sha256": samples["digest"],
        "methods": list(methods),
        "threads": 1,
    }
    return Order(name, "phoneproof.quantize.calibrate_tflite", "calibrate", request)


def building(
    name: str,
    recipe: str,
    path: Path,
    samples: Mapping[str, str] | None = None,
    ranges: Path | None = None,
    metadata: Mapping[str, str] | None = None,
    **options: Any,
) -> Order:
    """A build of the model at `path`; a static recipe takes the samples and ranges."""
    row = recipe_named(recipe)
    used = samples if row.needs_calibration else None
    if used is not None and ranges is None:
        ranges = Path(used["minmax"])
    request: dict[str, Any] = {
        "recipe": recipe,
        "source": source(path),
        "source_sha256": "5" * 64,
        "out": "out",
        "source_inputs": [],
        "source_outputs": [],
        "options": {"io": row.io[0], **options},
        "samples": None if used is None else {"path": used["path"]},
        "calibration_sha256": None if used is None else used["digest"],
        "ranges": None if ranges is None else str(ranges),
        "metadata": dict(metadata or {}),
    }
    return Order(name, "phoneproof.toolchains.tflite", "build", request)


def models(root: Path, *names: str) -> Order:
    """Makes models of tests/models/keras_networks.py in the folder."""
    return Order("models", "tests.models.keras_networks", "build", {"to": str(root), "names": names})


def answering(name: str, path: Path, inputs: tuple[str, ...] = ("image", "ids")) -> Order:
    """Runs the reference on the judging samples."""
    request = {"path": str(path), "inputs": inputs, "count": JUDGED, "seed": JUDGING_SEED}
    return Order(name, "tests.models.keras_networks", "answers", request)


def answers(done: Done) -> list[NDArray[np.float32]]:
    """The reference's outputs for the judging samples, in its order."""
    assert done.error is None, done.error
    with np.load(done.folder / "answers.npz") as archive:
        return [archive[f"output_{index}"] for index in range(len(archive.files))]


def calibration_set(root: Path, inputs: Iterable[TensorSpec] = (IMAGE, IDS)) -> dict[str, str]:
    """A stored set, and where the order `ranges` in `root` is to write its ranges by minmax.

    The judging samples calibrate too, so that what is measured is rounding, not a range too narrow.
    """
    names = {spec.name for spec in inputs}
    judging = samples(JUDGED, JUDGING_SEED)
    both = {name: np.concatenate([value, judging[name]]) for name, value in samples(12).items()}
    stored = stored_set(root / "set", inputs, {name: both[name] for name in names})
    return {**stored, "minmax": str(ranges_of(root))}


def ranges_of(root: Path, method: str = "minmax") -> Path:
    """The file that the order `ranges` in `root` writes for a method."""
    return root / "ranges" / f"ranges-{method}.json"


def carried_out(orders: Iterable[Order], root: Path) -> dict[str, Done]:
    """Carry out the orders, one after the other, in one new process."""
    listed = list(orders)
    root.mkdir(parents=True, exist_ok=True)
    (root / "orders.json").write_text(json.dumps([to_dict(order) for order in listed]))
    command = [sys.executable, "-m", "tests.toolchains.tensorflow_orders", str(root / "orders.json")]
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
        work = getattr(importlib.import_module(order["module"]), order["function"])
        try:
            result = work(order["request"], folder, Progress(folder))
        except PhoneproofError as error:
            (folder / "error.json").write_text(f"{type(error).__name__}: {error}")
        else:
            (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
