"""Calibration sets for requests, out of arrays."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phoneproof.data.set_specs import NpzArchive
from phoneproof.data.sets import open_set
from phoneproof.data.store_writer import materialize
from phoneproof.protocol.tensors import TensorSpec
from tests.data.builders import target


def stored_set(
    root: Path, inputs: Iterable[TensorSpec], arrays: Mapping[str, NDArray[Any]]
) -> dict[str, str]:
    """A stored set of these arrays (first axis: samples) in a new folder: a request's path and digest."""
    specs = tuple(inputs)
    root.mkdir(parents=True, exist_ok=True)
    np.savez(root / "set.npz", **arrays)  # type: ignore[arg-type]
    opened = open_set(NpzArchive("npz", str(root / "set.npz")), [spec.name for spec in specs])
    count = len(next(iter(arrays.values())))
    store = materialize(opened, range(count), target(root / "store", None, *specs))
    return {"path": str(store.path), "digest": store.digest}
