"""The worker that stores edge inputs: what it makes of images, numbers, tokens, sound and own samples."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from phoneproof.data.edge import IMAGE_NAMES, VALUE_NAMES
from phoneproof.data.edge_sets import Result, StoredEdgeSet, work
from phoneproof.data.preprocessing import Alpha, ColourOrder, Interpolation, Layout, Mode, Preprocess, Resize
from phoneproof.data.preprocessing import ResizeMethod as Method
from phoneproof.data.set_specs import NpzArchive
from phoneproof.data.sets import open_set
from phoneproof.data.store import SampleStore
from phoneproof.data.store_writer import materialize
from phoneproof.data.subset import ALL
from phoneproof.errors import DataError, ProtocolError
from phoneproof.protocol import codec
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import Progress
from tests.data.builders import as_is, image_folder, stored_folder, stretch, target, tensor

IMAGE = tensor((1, 3, 6, 8))


def edge(
    folder: Path,
    evaluation: SampleStore,
    inputs: Sequence[TensorSpec],
    preprocess: Preprocess | None,
    targets: Sequence[Sequence[TensorSpec]] = (),
    **changes: Any,
) -> Result:
    """What the worker answers. targets: besides the inputs themselves."""
    folder.mkdir(exist_ok=True)
    request = {
        "version": 1,
        "preprocess": None if preprocess is None else preprocess.to_dict(),
        "inputs": codec.to_dict(tuple(inputs)),
        "targets": codec.to_dict((tuple(inputs), *map(tuple, targets))),
        "evaluation": str(evaluation.path),
        "calibration": None,
        "kind": None,
        "skip": ["very_large"],
        "audio_input": None,
        "vocabulary": None,
        "own": None,
        "own_part": codec.to_dict(ALL),
        "own_names": True,
        "root": str(folder / "store"),
        "size_cap_bytes": 10**8,
        "size_cap_key": "data.max_gb",
    }
    return codec.from_dict(Result, dict(work(request | changes, folder, Progress(folder))))


def sets_of(result: Result, target_number: int = 0) -> dict[str, StoredEdgeSet]:
    return {one.label: one for one in result.targets[target_number]}


def rows(stored: StoredEdgeSet, name: str = "image") -> dict[str, Any]:
    store = SampleStore.open(Path(stored.path), verify=True)
    assert store.count == len(stored.samples)
    return {one.name: store.rows(name, number, 1)[0] for number, one in enumerate(stored.samples)}


def images(tmp_path: Path, preprocess: Preprocess, size: tuple[int, int] = (6, 5)) -> SampleStore:
    folder = image_folder(tmp_path / "images", {"a": 3}, size)
    return stored_folder(tmp_path / "evaluation", folder, preprocess)


def arrays(tmp_path: Path, **inputs: Any) -> tuple[SampleStore, list[TensorSpec]]:
    """A stored set of arrays, and the inputs that it is for."""
    specs = [TensorSpec(name, value.dtype.name, (1, *value.shape[1:])) for name, value in inputs.items()]
    file = tmp_path / "set.npz"
    np.savez(file, **inputs)

    opened = open_set(NpzArchive("npz", str(file)), list(inputs))
    store = materialize(opened, range(len(opened.entries)), target(tmp_path / "evaluation", None, *specs))
    return store, specs


def test_images_are_files_that_went_through_the_preprocess(tmp_path: Path) -> None:
    preprocess = stretch(6, 8, alpha=Alpha.DROP)
    result = edge(tmp_path / "edge", images(tmp_path, preprocess), [IMAGE], preprocess)
    assert (result.kind, result.refused) == ("image", ())
    found = rows(sets_of(result)["images"])
    assert set(found) == set(IMAGE_NAMES) - {"very_large"}
    assert all(one.shape == (6, 8, 3) for one in found.values())
    assert [int(found[name].min()) for name in ("black", "mid_grey", "white")] == [0, 128, 255]
    assert set(np.unique(found["saturated_noise"])) == {0, 255}
    assert set(np.unique(found["checkerboard"])) == {0, 255}
    assert np.count_nonzero(found["one_pixel_lit"]) == 3
    assert (found["grey"] == found["grey"][:, :, :1]).all()
    assert (found["sixteen_bit"][0, 0] == 0).all()
    assert (found["sixteen_bit"][-1, -1] == 255).all()
    assert (found["one_by_one"] == (200, 100, 50)).all()
    assert found["over_bright"].mean() > 128  # the sample is noise around the middle
    # Four inks in a JPEG and back: near the gradient that was drawn.
    assert np.abs(found["cmyk"].astype(int) - found["alpha"]).max() < 40


def test_a_lit_pixel_stays_one_where_images_are_resampled_and_cropped(tmp_path: Path) -> None:
    resize = Resize(12, 10, Method.SHORTEST_SIDE, Interpolation.BILINEAR)
    preprocess = as_is(resize=resize, centre_crop=(6, 8))
    result = edge(tmp_path / "edge", images(tmp_path, preprocess), [IMAGE], preprocess)
    assert np.count_nonzero(rows(sets_of(result)["images"])["one_pixel_lit"]) == 3


def test_what_the_preprocess_refuses_is_told_with_its_reason(tmp_path: Path) -> None:
    preprocess = as_is()  # images of the model's own size, and none that is transparent
    store = images(tmp_path, preprocess, (6, 8))
    result = edge(tmp_path / "edge", store, [IMAGE], preprocess, skip=[])
    refused = {one.id: one.reason for one in result.refused}
    assert set(refused) == {"alpha", "aspect_1_30", "aspect_30_1", "one_by_one", "very_large"}
    assert "partly transparent" in refused["alpha"]
    assert "own size" in refused["very_large"]
    assert set(rows(sets_of(result)["images"])) == set(IMAGE_NAMES) - set(refused)
    others = [name for name in IMAGE_NAMES if name != "alpha"]
    nothing = edge(tmp_path / "none", store, [IMAGE], preprocess, skip=others)
    assert [one.id for one in nothing.refused] == ["alpha"]
    assert set(sets_of(nothing)) == {"values"}


def test_the_same_request_gives_the_same_sets(tmp_path: Path) -> None:
    preprocess = stretch(6, 8)
    store = images(tmp_path, preprocess)
    first = edge(tmp_path / "a", store, [IMAGE], preprocess)
    second = edge(tmp_path / "b", store, [IMAGE], preprocess)
    assert [one.digest for one in first.targets[0]] == [one.digest for one in second.targets[0]]
    other = edge(tmp_path / "a", store, [IMAGE], preprocess, skip=["very_large", "black"])
    assert sets_of(other)["images"].digest != sets_of(first)["images"].digest
    assert sets_of(other)["values"].digest == sets_of(first)["values"].digest


def test_images_are_stored_in_the_colour_order_of_the_model(tmp_path: Path) -> None:
    """A sample comes back as it was stored: turned to RGB for the file, and back by the preprocess."""
    preprocess = stretch(6, 8, colour_order=ColourOrder.BGR)
    store = images(tmp_path, preprocess)
    found = rows(sets_of(edge(tmp_path / "edge", store, [IMAGE], preprocess))["images"])
    assert (found["one_by_one"] == (50, 100, 200)).all()
    first = store.rows("image", 0, 1)[0].astype(float)
    assert (found["over_bright"] == np.minimum(first * 2.5, 255).astype(np.uint8)).all()


def test_values_of_images_are_laid_out_and_quantized_as_builds_take_them(tmp_path: Path) -> None:
    preprocess = stretch(6, 8, scale=1 / 255, mean=(0.5, 0.25, 0.0))
    nhwc = tensor((1, 6, 8, 3))
    int8 = tensor((1, 6, 8, 3), "int8", scale=0.01, zero_point=0)
    result = edge(tmp_path / "edge", images(tmp_path, preprocess), [IMAGE], preprocess, [[nhwc], [int8]])
    source, last, quantized = (rows(sets_of(result, number)["values"]) for number in range(3))
    assert set(source) == set(last) == set(VALUE_NAMES)
    for name in VALUE_NAMES:
        assert np.array_equal(source[name].transpose(1, 2, 0), last[name], equal_nan=True)
    low = source["lowest"][:, 0, 0]
    assert low == pytest.approx((-0.5, -0.25, 0.0), abs=0.05)  # the noise comes near level 0 in each channel
    assert set(quantized) == {"lowest", "highest", "zeros"}
    assert set(sets_of(result, 2)["values"].not_held) == set(VALUE_NAMES) - set(quantized)
    assert np.abs(quantized["lowest"][0, 0] * 0.01 - low).max() <= 0.0051
    assert len({sets_of(result, number)["images"].digest for number in range(3)}) == 1


@pytest.mark.parametrize(("mean", "expected"), [(0.0, "in_range"), (0.3, "out_of_range")])
def test_zeros_are_in_range_where_the_preprocess_makes_a_black_frame_of_them(
    tmp_path: Path, mean: float, expected: str
) -> None:
    """Whether or not the data hold a black pixel: here every level is 120 or more."""
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(3):
        levels = np.random.default_rng(number).integers(120, 255, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(levels).save(folder / f"{number}.png")
    preprocess = stretch(6, 8, scale=1 / 255, mean=(mean,) * 3)
    store = stored_folder(tmp_path / "evaluation", folder, preprocess)
    stored = sets_of(edge(tmp_path / "edge", store, [IMAGE], preprocess))
    ranges = {one.name: one.range for one in stored["values"].samples}
    assert ranges["zeros"] == expected
    assert ranges["lowest"] == "in_range"
    assert {one.name: one.range for one in stored["images"].samples}["black"] == "in_range"


def test_grey_models_get_grey_images(tmp_path: Path) -> None:
    preprocess = Preprocess(Mode.L, Layout.NHWC, resize=Resize(8, 6, Method.STRETCH, Interpolation.BILINEAR))
    grey = tensor((1, 6, 8, 1))
    found = rows(sets_of(edge(tmp_path / "edge", images(tmp_path, preprocess), [grey], preprocess))["images"])
    assert all(one.shape == (6, 8, 1) for one in found.values())


def test_ids_and_their_mask(tmp_path: Path) -> None:
    ids = np.array([[7, 9, 0], [3, 41, 5]])
    store, specs = arrays(tmp_path, ids=ids, mask=np.array([[1, 1, 0], [1, 1, 1]]))
    narrow = [TensorSpec(one.name, "int32", one.shape) for one in specs]
    result = edge(tmp_path / "edge", store, specs, None, [narrow])
    assert result.kind == "tokens"
    for number, dtype in enumerate(("int64", "int32")):
        stored = sets_of(result, number)["values"]
        found, masks = rows(stored, "ids"), rows(stored, "mask")
        assert {one.dtype.name for one in found.values()} == {dtype}
        assert found["longest"].tolist() == [7, 9, 7]
        assert found["out_of_vocabulary@ids"].tolist() == [42, 9, 0]
        assert masks["out_of_vocabulary@ids"].tolist() == [1, 1, 0]
        assert {one.name for one in stored.samples if one.guess} == {"out_of_vocabulary@ids"}


def test_sound_beside_a_state(tmp_path: Path) -> None:
    sound = np.sin(np.arange(200, dtype=np.float32)).reshape(2, 100)
    store, specs = arrays(tmp_path, sound=sound, state=np.zeros((2, 4), np.float32))
    asked: dict[str, Any] = {"kind": "audio", "audio_input": "sound", "skip": ["huge"]}
    found = rows(sets_of(edge(tmp_path / "edge", store, specs, None, **asked))["values"], "sound")
    assert {"silence@sound", "clipping@sound", "nan@sound", "nan@state"} <= set(found)
    assert "silence@state" not in found
    with pytest.raises(DataError, match="not clear which input"):
        edge(tmp_path / "edge", store, specs, None, kind="audio")


def test_own_samples_in_the_dtypes_of_builds(tmp_path: Path) -> None:
    """A sample with NaN is no sample of a build that takes integers."""
    store, specs = arrays(tmp_path, x=np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))
    hard = np.array([[0.0, 0.1, 0.2], [9, 9, 9], [np.nan, 0, 0]], np.float32)
    np.savez(tmp_path / "hard.npz", x=hard)
    int8 = TensorSpec("x", "int8", (1, 3), 0.1, 0)
    own = {"kind": "npz", "path": str(tmp_path / "hard.npz"), "arrays": {}, "labels_array": "labels"}
    result = edge(tmp_path / "edge", store, specs, None, [[int8]], own=own)
    listed = sets_of(result)["own"].samples
    assert [(one.name, one.range) for one in listed] == [
        ("own/0", "in_range"),
        ("own/1", "out_of_range"),
        ("own/2", "not_finite"),
    ]
    quantized = sets_of(result, 1)["own"]
    assert quantized.not_held == ("own/2",)
    assert {name: row.tolist() for name, row in rows(quantized, "x").items()} == {
        "own/0": [0, 1, 2],
        "own/1": [90, 90, 90],
    }


@pytest.mark.parametrize("may_leave", [True, False])
def test_own_images_are_named_only_if_names_may_leave(tmp_path: Path, may_leave: bool) -> None:
    preprocess = stretch(6, 8)
    image_folder(tmp_path / "hard", {"cats": 2})
    Image.new("RGBA", (9, 9), (1, 2, 3, 4)).save(tmp_path / "hard" / "cats" / "glass.png")
    own = {"kind": "image_folder", "path": str(tmp_path / "hard")}
    store = images(tmp_path, preprocess)
    result = edge(tmp_path / "edge", store, [IMAGE], preprocess, own=own, own_names=may_leave)
    names = [one.name for one in sets_of(result)["own"].samples]
    assert names == (["own/cats/000.png", "own/cats/001.png"] if may_leave else ["own/0", "own/1"])
    assert ("cats" in str(result.refused)) is may_leave
    assert len(result.refused) == 2  # glass.png, and alpha of those that are made


def test_a_request_of_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProtocolError, match="another version"):
        work({"version": 2}, tmp_path, Progress(tmp_path))
