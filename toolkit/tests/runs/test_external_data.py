"""A source model whose weights lie in files beside it, as torch's exporter leaves them."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from phoneproof.runs.run import RunOptions, run
from tests.runs.project import Project, network, report_of
from tests.runs.shared import Finished


def save_apart(model: Any, path: Path, location: str | None) -> None:
    """Write the model with each weight outside: in one file of that name, or one for each weight."""
    path.unlink(missing_ok=True)
    onnx.save(
        model,
        str(path),
        save_as_external_data=True,
        all_tensors_to_one_file=location is not None,
        location=location,
        size_threshold=0,
    )


@pytest.mark.parametrize("location", ["tiny.onnx.data", "we\"ights: <b>$(x)'? ü\u202e.bin ", None])
def test_weights_beside_the_model_give_the_same_reference(
    finished: Finished, blank: Project, tmp_path: Path, location: str | None
) -> None:
    project = blank.copy(tmp_path / "project", tmp_path / "store")
    project.make_lean()
    save_apart(network(), project.folder / "tiny.onnx", location)
    assert len(list(project.folder.iterdir())) > 4  # the plan, the model, two sets, and the weights
    done = run(project.plan, tmp_path / "run", options=RunOptions(store=project.store))
    assert {build.error for build in done.builds} == {None}
    results = report_of(tmp_path / "run")["results"]
    assert results
    assert all(result["parity"] for result in results)
    apart, whole = (
        np.frombuffer(next(store.glob("references/*/outputs.bin")).read_bytes(), np.uint8)
        for store in (project.store, finished.project.store)
    )
    assert np.array_equal(apart, whole)


def test_weights_changed_beside_an_unchanged_model_are_built_anew(blank: Project, tmp_path: Path) -> None:
    project = blank.copy(tmp_path / "project", tmp_path / "store")
    project.make_lean()
    options = RunOptions(until="build", store=project.store)
    save_apart(network(), project.folder / "tiny.onnx", "weights.bin")
    first = run(project.plan, tmp_path / "run", options=options)
    weights = project.folder / "weights.bin"
    weights.write_bytes(np.negative(np.frombuffer(weights.read_bytes(), np.float32)).tobytes())
    second = run(project.plan, tmp_path / "run", options=options)
    assert {build.error for build in second.builds} == {None}
    for before, after in zip(first.builds, second.builds, strict=True):
        assert before.manifest is not None
        assert after.manifest is not None
        assert before.manifest.sha256 != after.manifest.sha256
