"""The calibration worker, as a process, on a stored set of images."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phoneproof.data.set_specs import ImageFolder
from phoneproof.data.sets import open_set
from phoneproof.data.store import SampleStore
from phoneproof.data.store_writer import materialize
from phoneproof.errors import DataError, RecipeError
from phoneproof.protocol.work import Progress
from phoneproof.quantize.calibrate import calibrate
from phoneproof.quantize.ranges import read_ranges
from phoneproof.recipes.table import Method
from tests.data.builders import image_folder, stretch, target, tensor
from tests.models.onnx_networks import classifier, saved
from tests.own_path import OWN_PATH

PREPROCESS = stretch(16, 16, scale=1 / 255)
METHODS = [
    {"method": "minmax"},
    {"method": "entropy"},
    {"method": "percentile", "percentile": 99.9},
    {"method": "percentile", "percentile": 99.0},
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> SampleStore:
    root = tmp_path_factory.mktemp("store")
    opened = open_set(
        ImageFolder("image_folder", str(image_folder(root / "images", {"a": 6, "b": 4}))), ["image"]
    )
    wanted = target(root, PREPROCESS, tensor((1, 3, 16, 16)))
    return materialize(opened, range(10), wanted)


def request_for(store: SampleStore, path: Path, **changes: Any) -> dict[str, Any]:
    source = {"format": "onnx", "path": str(saved(classifier(), path))}
    request = {"source": source, "samples": str(store.path), "calibration_sha256": store.digest}
    return {**request, "methods": METHODS, "preprocess": PREPROCESS.to_dict(), **changes}


def test_the_worker_writes_one_file_per_method_from_one_pass(store: SampleStore, tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    request.write_text(json.dumps(request_for(store, tmp_path / "m.onnx")))
    command = [sys.executable, "-m", "phoneproof.quantize.calibrate", str(request)]
    run = subprocess.run(command, env=OWN_PATH, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    assert [entry["file"] for entry in result["ranges"]] == [
        "ranges-minmax.json",
        "ranges-entropy.json",
        "ranges-percentile-99.9.json",
        "ranges-percentile-99.json",
    ]
    ranges = read_ranges(tmp_path / "ranges-minmax.json")
    assert (ranges.method, ranges.samples, ranges.calibration_sha256) == (Method.MINMAX, 10, store.digest)
    pixels = store.read_inputs(0, 10, [tensor((1, 3, 16, 16))], PREPROCESS)["image"]
    assert ranges.tensors["image"] == (0.0, float(pixels.max()))
    steps = [json.loads(line) for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert {"step": "calibrate", "done": 10, "total": 10} in steps


def test_the_plans_preprocessing_decides_the_values(store: SampleStore, tmp_path: Path) -> None:
    wanted = stretch(16, 16, scale=1 / 255, mean=(0.5,) * 3, std=(0.25,) * 3)
    request = request_for(store, tmp_path / "m.onnx", preprocess=wanted.to_dict())
    calibrate(request, tmp_path, Progress(tmp_path))
    low, high = read_ranges(tmp_path / "ranges-minmax.json").tensors["image"]
    assert low < -1.0 < 1.0 < high


def test_a_count_takes_the_first_samples(store: SampleStore, tmp_path: Path) -> None:
    result = calibrate(request_for(store, tmp_path / "m.onnx", count=3), tmp_path, Progress(tmp_path))
    assert result["samples"] == 3
    assert read_ranges(tmp_path / "ranges-minmax.json").samples == 3


def test_samples_of_another_shape_are_refused(store: SampleStore, tmp_path: Path) -> None:
    request = request_for(store, tmp_path / "m.onnx")
    saved(classifier(side=20), tmp_path / "m.onnx")
    with pytest.raises(DataError):
        calibrate(request, tmp_path, Progress(tmp_path))


@pytest.mark.parametrize(
    "method",
    [
        {"method": "percentile"},
        {"method": "percentile", "percentile": 101.0},
        {"method": "minmax", "percentile": 99.0},
    ],
)
def test_a_percentile_where_it_does_not_belong_is_refused(
    store: SampleStore, tmp_path: Path, method: dict[str, Any]
) -> None:
    with pytest.raises(RecipeError, match="percentile"):
        calibrate(request_for(store, tmp_path / "m.onnx", methods=[method]), tmp_path, Progress(tmp_path))


def test_the_same_request_gives_the_same_ranges(store: SampleStore, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        request = request_for(store, tmp_path / "m.onnx", threads=1)
        calibrate(request, tmp_path / name, Progress(tmp_path / name))
    first, second = ((tmp_path / name / "ranges-entropy.json").read_bytes() for name in ("one", "two"))
    assert first == second
    assert np.isfinite([list(pair) for pair in json.loads(first)["tensors"].values()]).all()
