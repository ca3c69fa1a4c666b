"""The plan that init writes: it runs, says what was guessed, and parts one source honestly."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from phoneproof.data.sets import open_set
from phoneproof.errors import CommandLineError
from phoneproof.plan.data_section import CsvSection, ImageFolderSection
from phoneproof.plan.initial import ModelFacts, ModelTensor, initial_plan
from phoneproof.plan.model import Plan, read_plan
from phoneproof.plan.preflight import preflight
from phoneproof.recipes.table import SourceFormat
from phoneproof.verify.paired_proportions import PairedTable, tango_interval
from tests.plan.plans import written

IMAGE = ModelTensor("image", "float32", (1, 3, 24, 32))


def facts(image: ModelTensor = IMAGE, classes: int = 6) -> ModelFacts:
    return ModelFacts((image,), (ModelTensor("scores", "float32", (1, classes)),))


def images(folder: Path, count: int = 3) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        Image.new("RGB", (4, 4), (i, 0, 0)).save(folder / f"{i}.png")


def class_folders(folder: Path, count: int = 3) -> Path:
    for name in "abcdef":
        images(folder / name, count)
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "Mobile Net.onnx"
    path.write_bytes(b"\x08\x0a\x3a\x00")
    return path


def first(model: Path, data: Path | None, about: ModelFacts | None = None) -> tuple[str, Plan]:
    text = initial_plan(str(model), SourceFormat.ONNX, data, about or facts(), model.parent)
    return text, read_plan(written(model.parent, text))


def problems(plan: Plan) -> list[str]:
    return [str(error) for error in preflight(plan, out=plan.folder, free_bytes=lambda folder: 10**12)]


def test_the_plan_passes_the_preflight_as_it_is(model: Path) -> None:
    text, plan = first(model, class_folders(model.parent / "data"))
    assert problems(plan) == []
    assert plan.build_ids == ("mobile-net/onnx/onnx-int8",)
    assert plan.models[0].source == "Mobile Net.onnx"
    assert (plan.task.kind, plan.task.metrics) == ("classification", ("top1", "top5"))
    assert plan.gates.accuracy_drop_max is None
    assert "12 samples cannot decide less than 25 points; one point needs 381" in text
    preprocess = plan.data.preprocess
    assert preprocess is not None
    assert (preprocess.output_size, preprocess.scale) == ((24, 32), 1 / 255)
    assert text.count("CHECK THIS") == 2


def test_one_folder_is_parted_and_the_plan_says_so(model: Path) -> None:
    text, plan = first(model, class_folders(model.parent / "data"))
    assert "6 of its 18 images are taken for calibration, the rest for evaluation" in text
    sets = plan.data.calibration, plan.data.evaluation
    assert [(s.skip, s.take) for s in sets if s is not None] == [(0, 6), (6, None)]


@pytest.mark.parametrize(
    ("names", "calibration", "evaluation", "said"),
    [
        (("calibration", "evaluation"), "calibration", "evaluation", "calibration is taken for calibration"),
        (("train", "val"), "train", "val", "train is taken for calibration and val for evaluation"),
        (("train", "val", "test"), "train", "val", "Not used: test."),
        (("Train", "Test"), "Train", "Test", "Train is taken for calibration and Test"),
    ],
)
def test_sub_folders_with_usual_names_are_taken_and_said(
    model: Path, names: tuple[str, ...], calibration: str, evaluation: str, said: str
) -> None:
    for name in names:
        class_folders(model.parent / "data" / name)
    text, plan = first(model, model.parent / "data")
    assert problems(plan) == []
    assert said in text
    sets = [s for s in (plan.data.calibration, plan.data.evaluation) if isinstance(s, ImageFolderSection)]
    assert [(s.path, s.skip, s.take) for s in sets] == [
        (f"data/{calibration}", 0, None),
        (f"data/{evaluation}", 0, None),
    ]


def test_a_class_called_train_is_a_class(model: Path) -> None:
    for name in ("bus", "car", "train"):
        images(model.parent / "data" / name)
    text, plan = first(model, model.parent / "data", facts(classes=3))
    assert isinstance(plan.data.evaluation, ImageFolderSection)
    assert plan.data.evaluation.path == "data"
    assert "9 images" in text


def test_linked_class_folders_are_followed(model: Path) -> None:
    real = class_folders(model.parent / "elsewhere")
    (model.parent / "data").mkdir()
    for folder in real.iterdir():
        (model.parent / "data" / folder.name).symlink_to(folder)
    text, plan = first(model, model.parent / "data")
    assert "18 images" in text
    assert problems(plan) == []


def test_classes_that_do_not_match_the_output_are_not_scored(model: Path) -> None:
    text, plan = first(model, class_folders(model.parent / "data"), facts(classes=1000))
    assert plan.task.metrics == ()
    assert "The data have 6 classes, and the outputs are [1, 1000]: nothing is scored." in text
    assert problems(plan) == []


@pytest.mark.parametrize(
    ("tensor", "mode", "layout", "size", "scale", "shapes"),
    [
        (ModelTensor("x", "float32", (1, 8, 9, 3)), "RGB", "nhwc", (8, 9), 1 / 255, {}),
        (ModelTensor("x", "float32", (None, 1, 8, 8)), "L", "nchw", (8, 8), 1 / 255, {"x": (1, 1, 8, 8)}),
        (ModelTensor("x", "uint8", (1, 8, 8, 1)), "L", "nhwc", (8, 8), 1.0, {}),
        (
            ModelTensor('in "put"', "float32", (None, 3, None, None)),
            "RGB",
            "nchw",
            (224, 224),
            1 / 255,
            {'in "put"': (1, 3, 224, 224)},
        ),
    ],
)
def test_the_preprocess_follows_the_input(
    model: Path,
    tensor: ModelTensor,
    mode: str,
    layout: str,
    size: tuple[int, int],
    scale: float,
    shapes: dict[str, tuple[int, ...]],
) -> None:
    text, plan = first(model, class_folders(model.parent / "data"), facts(tensor))
    preprocess = plan.data.preprocess
    assert preprocess is not None
    assert (preprocess.mode, preprocess.layout, preprocess.dtype) == (mode, layout, tensor.dtype)
    assert (preprocess.output_size, preprocess.scale) == (size, scale)
    assert plan.models[0].shapes == shapes
    assert ("leaves lengths open" in text) == bool(shapes)


def test_without_data_the_preflight_names_what_is_missing(model: Path) -> None:
    text, plan = first(model, None)
    told = problems(plan)
    assert len(told) == 2
    assert "needs a calibration set" in told[0]
    assert "evaluation set" in told[1]
    uncommented = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert "[data.preprocess]" not in uncommented


def test_arrays_need_no_preprocess(model: Path) -> None:
    archive = model.parent / "set.npz"
    np.savez(archive, image=np.zeros((9, 3, 24, 32), np.float32), labels=np.zeros(9, np.int64))
    _, plan = first(model, archive)
    assert problems(plan) == []
    assert plan.data.preprocess is None
    declared = plan.declared_set("evaluation")
    assert declared is not None
    assert len(open_set(declared.spec, ["image"]).entries) == 9


def labelled(folder: Path, count: int, labels: Any, **inputs: tuple[int, ...]) -> Path:
    arrays: dict[str, Any] = {name: np.zeros((count, *row), np.float32) for name, row in inputs.items()}
    np.savez(folder / "set.npz", labels=np.resize(labels, count), **arrays)
    return folder / "set.npz"


@pytest.mark.parametrize(
    ("evaluated", "limit"),
    [(60, None), (73, 0.05), (100, 0.04), (200, 0.02), (380, 0.02), (381, 0.01), (2_000, 0.01)],
)
def test_the_limit_on_accuracy_is_one_that_the_samples_can_decide(
    model: Path, evaluated: int, limit: float | None
) -> None:
    count = evaluated + min(200, evaluated // 2)
    text, plan = first(model, labelled(model.parent, count, range(6), image=(3, 24, 32)))
    assert plan.gates.accuracy_drop_max == limit
    same = PairedTable(both=min(evaluated, 500), only_first=0, only_second=0, neither=0)
    best = tango_interval(same).hi
    if limit is None:
        assert best > 0.05
        assert "one point needs 381" in text
    else:
        assert limit - 0.01 < best < limit


@pytest.mark.parametrize(
    ("labels", "outputs", "output", "metrics"),
    [
        (range(10), [("scores", 10)], None, ("top1", "top5")),
        (range(10), [("scores", 1000)], None, ("top1", "top5")),
        (range(3), [("scores", 3)], None, ("top1",)),
        (["cat", "dog"], [("scores", 2)], None, ("top1",)),
        (["cat", "dog"], [("scores", 3)], None, ()),
        (range(3), [("features", 8), ("scores", 3)], "scores", ("top1",)),
        (range(3), [("features", 8), ("scores", 4)], None, ()),
        (range(3), [("one", 3), ("other", 3)], None, ()),
        (range(10), [("scores", 9)], None, ()),
        ([0.25, 0.5], [("scores", 2)], None, ()),
        ([-1, 0, 1], [("scores", 2)], None, ()),
    ],
)
def test_labels_of_arrays_are_scored_where_one_output_can_be_meant(
    model: Path, labels: Any, outputs: list[tuple[str, int]], output: str | None, metrics: tuple[str, ...]
) -> None:
    tensors = tuple(ModelTensor(name, "float32", (None, width)) for name, width in outputs)
    about = ModelFacts((ModelTensor("x", "float32", (None, 20)),), tensors)
    text, plan = first(model, labelled(model.parent, 900, list(labels), x=(20,)), about)
    assert problems(plan) == []
    assert (plan.task.metrics, plan.task.output) == (metrics, output)
    assert ("nothing is scored" in text or "No metric" in text) == (metrics == ())


@pytest.mark.parametrize(
    ("row", "shape", "said"),
    [((12,), (1, 12), False), ((1, 12), (1, 12), False), ((2, 12), (1, 1), True), ((), (1, 1), True)],
)
def test_open_lengths_are_those_of_the_arrays(
    model: Path, row: tuple[int, ...], shape: tuple[int, ...], said: bool
) -> None:
    about = ModelFacts((ModelTensor("ids", "float32", (None, None)),), ())
    text, plan = first(model, labelled(model.parent, 9, range(3), ids=row), about)
    assert plan.models[0].shapes == {"ids": shape}
    assert ("1 for the batch" in text) is said
    assert ("those of the arrays" in text) is not said


def test_fixed_lengths_are_not_overruled_by_arrays(model: Path) -> None:
    about = ModelFacts((ModelTensor("x", "float32", (None, 3, None)),), ())
    np.save(model.parent / "set.npy", np.zeros((9, 4, 7), np.float32))
    assert first(model, model.parent / "set.npy", about)[1].models[0].shapes == {"x": (1, 3, 1)}
    np.save(model.parent / "set.npy", np.zeros((9, 3, 7), np.float32))
    assert first(model, model.parent / "set.npy", about)[1].models[0].shapes == {"x": (1, 3, 7)}


def test_an_npy_is_taken(model: Path) -> None:
    np.save(model.parent / "set.npy", np.zeros((9, 3), np.float32))
    _, plan = first(model, model.parent / "set.npy", facts(ModelTensor("x", "float32", (1, 3))))
    assert problems(plan) == []


def test_the_columns_of_a_csv_are_guessed_aloud(model: Path) -> None:
    images(model.parent / "pictures", 4)
    lines = ["filename,label", *(f"pictures/{i}.png,{'abcdef'[i]}" for i in range(4))]
    (model.parent / "set.csv").write_text("\n".join(lines), encoding="utf-8")
    text, plan = first(model, model.parent / "set.csv", facts(classes=4))
    assert problems(plan) == []
    assert "CHECK THIS: filename is taken for the column of image paths." in text
    assert plan.task.metrics == ("top1",)
    declared = plan.declared_set("calibration")
    assert declared is not None
    assert len(open_set(declared.spec, ["image"]).entries) == 4


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_the_delimiter_of_a_csv_is_found(model: Path, delimiter: str) -> None:
    images(model.parent / "pictures", 4)
    lines = ["note,s;file;label", *(f"a,b;pictures/{i}.png;{i}" for i in range(4))]
    text = "\n".join(lines).replace(";", delimiter)
    (model.parent / "set.csv").write_text(text, encoding="utf-8")
    written_text, plan = first(model, model.parent / "set.csv", facts(classes=4))
    assert problems(plan) == []
    assert isinstance(plan.data.evaluation, CsvSection)
    assert plan.data.evaluation.delimiter == delimiter
    assert plan.task.metrics == ("top1",)
    assert "class indices up to 3" in written_text
    declared = plan.declared_set("calibration")
    assert declared is not None
    assert len(open_set(declared.spec, ["image"]).entries) == 4


def _empty(folder: Path) -> Path:
    (folder / "data").mkdir()
    return folder / "data"


def _one_image(folder: Path) -> Path:
    images(folder / "data", 1)
    return folder / "data"


def _loose_images(folder: Path) -> Path:
    images(class_folders(folder / "data"))
    return folder / "data"


def _other_arrays(folder: Path) -> Path:
    np.savez(folder / "set.npz", pixels=np.zeros(3))
    return folder / "set.npz"


def _other_columns(folder: Path) -> Path:
    (folder / "set.csv").write_text("x,y\n1,2\n", encoding="utf-8")
    return folder / "set.csv"


def _not_npz(folder: Path) -> Path:
    (folder / "set.npz").write_text("text", encoding="utf-8")
    return folder / "set.npz"


@pytest.mark.parametrize(
    "make",
    [
        _empty,
        _one_image,
        _loose_images,
        _other_arrays,
        _other_columns,
        _not_npz,
        lambda folder: folder / "missing",
        lambda folder: folder / "Mobile Net.onnx",
    ],
)
def test_data_that_are_no_set_are_refused_with_a_next_step(model: Path, make: Callable[[Path], Path]) -> None:
    with pytest.raises(CommandLineError) as caught:
        initial_plan(str(model), SourceFormat.ONNX, make(model.parent), facts(), model.parent)
    assert (caught.value.where or "").startswith("--data ")
    assert caught.value.next_step


def test_images_for_a_model_that_takes_none_are_refused(model: Path) -> None:
    data = class_folders(model.parent / "data")
    two = ModelFacts((IMAGE, IMAGE), ())
    for about in (two, facts(ModelTensor("x", "float32", (1, 16)))):
        with pytest.raises(CommandLineError):
            initial_plan(str(model), SourceFormat.ONNX, data, about, model.parent)


@pytest.mark.parametrize(
    "name", ['a"b', "a\\b", "a:b", "~a", "~", "a#b", "a'''b", "ünï 漢", "a]\u2028[b", "a\x7fb\nc"]
)
def test_odd_names_are_written_right_or_refused(tmp_path: Path, name: str) -> None:
    model = tmp_path / name
    model.write_bytes(b"\x08\x0a\x3a\x00")
    data = class_folders(tmp_path / f"{name} data")
    odd = facts(ModelTensor(f"{name}\nspeedup_min = 3", "float32", (1, 3, 4, 4)))
    if "\n" in name:
        with pytest.raises(CommandLineError, match="cannot stand in a plan"):
            initial_plan(str(model), SourceFormat.ONNX, data, odd, tmp_path)
        return
    _, plan = first(model, data, odd)
    assert plan.locate(plan.models[0].source) == model
    assert plan.gates.speedup_min is None
    assert problems(plan) == []


def test_a_model_elsewhere_keeps_its_absolute_path(model: Path) -> None:
    folder = model.parent / "plans"
    folder.mkdir()
    plan = read_plan(written(folder, initial_plan(str(model), SourceFormat.ONNX, None, facts(), folder)))
    assert plan.models[0].source == str(model)
