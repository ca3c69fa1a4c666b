"""What a job is told of the stored samples: each set once, in the dtype and layout of the build's input."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from phoneproof.data import materialize
from phoneproof.data.store import SampleStore
from phoneproof.data.values import quantize, value_map
from phoneproof.devices.job_folder import place_file
from phoneproof.errors import DataError
from phoneproof.plan.model import Plan
from phoneproof.protocol.job import SampleSet, TableInput, stored_path
from phoneproof.protocol.sample_files import SampleReader
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import Progress
from phoneproof.runs.audit import samples_request
from phoneproof.runs.job_inputs import JobInputs
from tests.runs.project import SIDE, Project, write_project

NCHW = TensorSpec("image", "float32", (1, 3, SIDE, SIDE))
NHWC = TensorSpec("image", "float32", (1, SIDE, SIDE, 3))
INT8 = TensorSpec("image", "int8", (1, 3, SIDE, SIDE), 1 / 255, -128)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("inputs")
    return write_project(folder / "project", folder / "store")


@pytest.fixture(scope="module")
def plan(project: Project) -> Plan:
    return project.plan


@pytest.fixture(scope="module")
def store(project: Project, plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> SampleStore:
    """The evaluation set of the project, stored for its float input."""
    folder = tmp_path_factory.mktemp("work")
    request = samples_request(plan, "evaluation", (NCHW,), project.store, None)
    answer = materialize.work(request, folder, Progress(folder))
    return SampleStore.open(Path(str(answer["path"])))


def read(inputs: JobInputs, found: SampleSet, folder: Path) -> SampleReader:
    """The samples as a harness reads them: out of files laid out for the job, digests checked."""
    for one in found.inputs:
        refs = [shard.file for shard in one.shards]
        refs += [one.table] if isinstance(one, TableInput) else []
        for ref in refs:
            place_file(inputs.files[ref.sha256], folder / stored_path(ref), ref)
    return SampleReader(found, folder)


def pixels(project: Project, store: SampleStore, index: int) -> NDArray[np.uint8]:
    path = project.folder / "evaluation" / store.stored.ids[index]
    return np.asarray(Image.open(path))


def real(project: Project, plan: Plan, store: SampleStore, index: int) -> NDArray[np.float32]:
    """Height x width x channels, as the plan's preprocess has it: from the image, without the store."""
    assert plan.data.preprocess is not None
    levels = value_map(plan.data.preprocess).astype(np.float32)
    image = pixels(project, store, index)
    return np.stack([levels[channel][image[..., channel]] for channel in range(3)], axis=-1)


@pytest.mark.parametrize("tensor", [NCHW, NHWC, INT8, TensorSpec("image", "float16", (1, 3, SIDE, SIDE))])
def test_a_harness_reads_what_preprocessing_gives(
    project: Project, plan: Plan, store: SampleStore, tmp_path: Path, tensor: TensorSpec
) -> None:
    inputs = JobInputs(plan, tmp_path / "tables")
    found = inputs.set_for(store, (tensor,))
    assert found.count == 20
    reader = read(inputs, found, tmp_path / "files")
    for index in (0, 7, 19):
        expected: NDArray[Any] = real(project, plan, store, index)
        if tensor.scale is not None:
            expected = quantize(expected, tensor)
        if tensor.shape[1] == 3:
            expected = expected.transpose(2, 0, 1)
        sample = reader.read(index)["image"]
        assert (sample.dtype.name, sample.shape) == (tensor.dtype, tensor.shape)
        np.testing.assert_array_equal(sample[0], expected.astype(tensor.dtype))


def test_builds_that_take_the_same_share_a_set_and_all_share_the_pixels(
    plan: Plan, store: SampleStore, tmp_path: Path
) -> None:
    inputs = JobInputs(plan, tmp_path)
    first, again = inputs.set_for(store, (NCHW,)), inputs.set_for(store, (NCHW,))
    assert first is again
    others = [inputs.set_for(store, (one,)) for one in (INT8, NHWC)]
    assert len({one.samples_id for one in [first, *others]}) == 3
    assert {shard.file.sha256 for one in [first, *others] for shard in one.inputs[0].shards} == {
        shard.file.sha256 for shard in first.inputs[0].shards
    }
    tables = {one.inputs[0].table.sha256 for one in [first, *others] if isinstance(one.inputs[0], TableInput)}
    assert len(tables) == 2  # float32 for both layouts, int8
    assert set(inputs.files) == tables | {shard.file.sha256 for shard in first.inputs[0].shards}


def test_another_scale_is_another_table(plan: Plan, store: SampleStore, tmp_path: Path) -> None:
    inputs = JobInputs(plan, tmp_path)
    one = inputs.set_for(store, (INT8,))
    other = inputs.set_for(store, (TensorSpec("image", "int8", INT8.shape, 0.01, -128),))
    assert one.samples_id != other.samples_id
    assert one.inputs[0] != other.inputs[0]


@pytest.mark.parametrize(
    "tensor",
    [
        TensorSpec("image", "float32", (1, 3, SIDE, SIDE + 1)),
        TensorSpec("image", "float32", (1, 1, SIDE, SIDE)),
        TensorSpec("image", "float32", (3, SIDE, SIDE)),
        TensorSpec("image", "int8", (1, 3, SIDE, SIDE)),
        TensorSpec("other", "float32", (1, 3, SIDE, SIDE)),
    ],
)
def test_an_input_that_the_samples_do_not_fit_is_refused(
    plan: Plan, store: SampleStore, tmp_path: Path, tensor: TensorSpec
) -> None:
    with pytest.raises(DataError) as raised:
        JobInputs(plan, tmp_path).set_for(store, (tensor,))
    assert raised.value.where is not None


def arrays(folder: Path) -> tuple[Plan, Mapping[str, NDArray[Any]]]:
    """A plan of two raw inputs out of .npz files."""
    draw = np.random.default_rng(0)
    stored: dict[str, NDArray[Any]] = {
        "image": draw.standard_normal((6, 3, 4, 4)).astype(np.float32),
        "ids": draw.integers(0, 9, (6, 5)),
    }
    project = write_project(folder / "project", folder / "store")
    np.savez(project.folder / "arrays.npz", image=stored["image"], ids=stored["ids"])
    text = project.plan_path.read_text()
    data = text[text.index("[data]") : text.index("[[builds]]")]
    new = '[data]\nevaluation = { kind = "npz", path = "arrays.npz" }\n\n[[builds]]\n'
    new += 'recipe = "onnx-int8-dynamic"\nvariant = "x"\n\n[[builds]]'
    project.change(data + "[[builds]]", new)
    project.change('[[builds]]\nrecipe = "onnx-int8"\n', "")
    project.change('[[builds]]\nrecipe = "onnx-int8"\nvariant = "entropy"\nmethod = "entropy"\n', "")
    return project.plan, stored


def test_arrays_are_read_as_they_were_given_and_converted_for_no_build(tmp_path: Path) -> None:
    plan, stored = arrays(tmp_path)
    tensors = (TensorSpec("image", "float32", (1, 3, 4, 4)), TensorSpec("ids", "int64", (1, 5)))
    request = samples_request(plan, "evaluation", tensors, tmp_path / "store", None)
    answer = materialize.work(request, tmp_path, Progress(tmp_path))
    store = SampleStore.open(Path(str(answer["path"])))
    inputs = JobInputs(plan, tmp_path / "tables")
    reader = read(inputs, inputs.set_for(store, tensors), tmp_path / "files")
    for index in range(6):
        sample = reader.read(index)
        for name, values in stored.items():
            np.testing.assert_array_equal(sample[name][0], values[index])
    quantized = (TensorSpec("image", "int8", (1, 3, 4, 4), 0.02, 0), tensors[1])
    with pytest.raises(DataError, match="no device converts"):
        inputs.set_for(store, quantized)
