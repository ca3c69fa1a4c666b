"""Orders of TensorFlow's workers: inspections, calibrations and builds of Keras models and SavedModels."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.rows import recipe_named
from phoneproof.runtimes.litert import load
from phoneproof.runtimes.runtime import LoadRequest
from phoneproof.toolchains.tflite_file import TfliteFile, read_tflite
from tests.models.keras_networks import IDS, IMAGE, samples
from tests.toolchains import orders
from tests.toolchains.orders import Order
from tests.toolchains.sample_sets import stored_set

Arrays = Mapping[str, NDArray[Any]]
JUDGED, JUDGING_SEED = 8, 5
"""Number and seed of the samples that builds are judged by."""


class Done(orders.Done):
    """What became of an order; a build of TFLite can be looked into and run."""

    @property
    def path(self) -> Path:
        assert self.error is None, self.error
        return self.folder / "out" / "model.tflite"

    @property
    def file(self) -> TfliteFile:
        return read_tflite(self.path)

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


def source(path: Path, **more: Any) -> dict[str, Any]:
    """A request's source model."""
    return {"format": "keras" if path.suffix == ".keras" else "savedmodel", "path": str(path), **more}


def inspecting(name: str, path: Path, **more: Any) -> Order:
    """An inspection of the model at `path`."""
    return Order(name, "phoneproof.sources.inspect", source(path, **more), "inspect")


def calibrating(name: str, path: Path, samples: Mapping[str, str], *methods: Mapping[str, Any]) -> Order:
    """A calibration of the model at `path`."""
    request = {
        "source": source(path),
        "samples": samples["path"],
        "calibration_sha256": samples["digest"],
        "methods": list(methods),
        "threads": 1,
    }
    return Order(name, "phoneproof.quantize.calibrate_tflite", request, "calibrate")


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
    return Order(name, "phoneproof.toolchains.tflite", request)


def models(root: Path, *names: str) -> Order:
    """Makes models of tests/models/keras_networks.py in the folder."""
    return Order("models", "tests.models.keras_networks", {"to": str(root), "names": names})


def answering(name: str, path: Path, inputs: tuple[str, ...] = ("image", "ids")) -> Order:
    """Runs the reference on the judging samples."""
    request = {"path": str(path), "inputs": inputs, "count": JUDGED, "seed": JUDGING_SEED}
    return Order(name, "tests.models.keras_networks", request, "answers")


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


def carried_out(listed: Iterable[Order], root: Path) -> dict[str, Done]:
    """Carry out the orders, one after the other, in one new process, so that TensorFlow starts once."""
    found = orders.carried_out(listed, root)
    return {name: Done(done.folder, done.result, done.error) for name, done in found.items()}
