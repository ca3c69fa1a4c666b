"""Keras models and SavedModels as they are inspected: names, shapes, signatures, and what is refused."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.toolchains.orders import Order
from tests.toolchains.tensorflow_orders import Done, carried_out, inspecting, models

pytestmark = pytest.mark.slow

NAMES = ("two_heads", "two_heads_exported", "names", "open_axes", "lambda", "custom", "several_signatures")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Done]:
    root = tmp_path_factory.mktemp("sources")
    folder = root / "models"
    damaged = folder / "damaged"
    orders = [
        models(folder, *NAMES, "reads_files", "damaged"),
        inspecting("keras", folder / "two_heads.keras"),
        inspecting("planned", folder / "two_heads.keras", sha256="0" * 64),
        inspecting("saved", folder / "two_heads"),
        inspecting("names", folder / "names.keras"),
        inspecting("open", folder / "open_axes.keras"),
        inspecting("fixed", folder / "open_axes.keras", shapes={"image": [1, 20, 24, 3]}),
        inspecting("batch", folder / "open_axes.keras", shapes={"image": [2, 20, 24, 3]}),
        inspecting("too_small", folder / "open_axes.keras", shapes={"image": [1, 2, 2, 3]}),
        inspecting("misnamed", folder / "open_axes.keras", shapes={"imag": [1, 20, 24, 3]}),
        inspecting("lambda", folder / "lambda.keras"),
        inspecting("trusted", folder / "lambda.keras", trust_pickle=True),
        inspecting("custom", folder / "custom.keras"),
        inspecting("several", folder / "several"),
        inspecting("times", folder / "several", signature="times"),
        inspecting("unknown", folder / "several", signature="tims"),
        inspecting("none", folder / "none"),
        inspecting("reads_files", folder / "reads_files"),
        inspecting("damaged", damaged),
        Order(
            "first_plan",
            "phoneproof.sources.signature",
            {"path": str(folder / "open_axes.keras")},
            "signature",
        ),
    ]
    return carried_out(orders, root)


def tensors(done: Done, role: str) -> list[tuple[Any, ...]]:
    assert done.error is None, done.error
    return [(one["name"], one["dtype"], tuple(one["shape"])) for one in done.result[role]]


def test_inputs_and_outputs_come_in_the_sources_order(done: Mapping[str, Done]) -> None:
    assert tensors(done["keras"], "inputs") == [
        ("image", "float32", (1, 16, 16, 3)),
        ("ids", "int32", (1, 8)),
    ]
    assert tensors(done["keras"], "outputs") == [("classes", "float32", (1, 10)), ("box", "float32", (1, 4))]
    assert done["keras"].result["operators"]["Conv2D"] == 1
    assert done["keras"].result["parameters"] == done["saved"].result["parameters"]


def test_what_a_plan_can_call_operators_is_told(done: Mapping[str, Done]) -> None:
    layers, types = (set(done["keras"].result["called"][one]) for one in ("names", "types"))
    assert {"conv", "norm", "clip", "depthwise", "words", "hidden", "box"} <= layers
    assert {"Conv2D", "BatchNormalization", "DepthwiseConv2D", "Dense", "MatMul"} <= types
    names = set(done["saved"].result["called"]["names"])
    assert any(name.endswith(("hidden/MatMul", "hidden_1/MatMul")) for name in names)
    assert all(name.rpartition("/")[0] in names for name in names if "/" in name)  # scopes too


def test_a_signature_has_no_order_so_its_names_are_sorted(done: Mapping[str, Done]) -> None:
    assert tensors(done["saved"], "inputs") == [
        ("ids", "int32", (1, 8)),
        ("image", "float32", (1, 16, 16, 3)),
    ]
    assert [one[0] for one in tensors(done["saved"], "outputs")] == ["output_0", "output_1"]
    assert [file["name"].split("/")[0] for file in done["saved"].result["files"]] == ["two_heads"] * 4


def test_keys_of_a_dict_are_names_whatever_they_are(done: Mapping[str, Done]) -> None:
    assert [one[0] for one in tensors(done["names"], "inputs")] == ["a-b", "x/y"]
    assert tensors(done["names"], "outputs") == [("a out", "float32", (1, 64)), ("z out", "float32", (1, 3))]


def test_open_axes_are_fixed_by_the_plan(done: Mapping[str, Done]) -> None:
    assert tensors(done["fixed"], "inputs") == [("image", "float32", (1, 20, 24, 3))]
    assert done["first_plan"].result["inputs"][0]["shape"] == [None, None, None, 3]
    assert "Axis 1" in str(done["open"].error)
    assert "no fixed length" in str(done["open"].error)
    assert "so it is the batch, and 2 is asked for" in str(done["batch"].error)
    assert "not an input of the model" in str(done["misnamed"].error)
    assert "cannot trace the model with these shapes" in str(done["too_small"].error)


def test_a_model_that_changed_since_it_was_planned(done: Mapping[str, Done]) -> None:
    assert "has changed since the run was planned" in str(done["planned"].error)


def test_code_runs_only_if_it_is_trusted(done: Mapping[str, Done]) -> None:
    assert "holds code" in str(done["lambda"].error)
    assert tensors(done["trusted"], "outputs") == [("doubled", "float32", (1, 4))]
    assert "not Keras's own: 'tests.models.keras_networks.Doubled'" in str(done["custom"].error)


def test_a_signature_is_named_or_the_only_one(done: Mapping[str, Done]) -> None:
    assert "2 signatures" in str(done["several"].error)
    assert "'plus', 'times'" in str(done["several"].error)
    assert tensors(done["times"], "outputs") == [("product", "float32", (1, 4))]
    assert "no signature 'tims'" in str(done["unknown"].error)
    assert "has no signature." in str(done["none"].error)


def test_a_graph_that_reads_files_is_refused(done: Mapping[str, Done]) -> None:
    assert "touches files or runs Python: ReadFile" in str(done["reads_files"].error)


def test_a_savedmodel_whose_variables_are_cut_short(done: Mapping[str, Done]) -> None:
    assert "TensorFlow cannot load the SavedModel" in str(done["damaged"].error)


def test_every_error_is_that_of_the_source(done: Mapping[str, Done]) -> None:
    failed = {name: one.error for name, one in done.items() if one.error is not None}
    assert all(error.startswith("SourceModelError: ") for error in failed.values())
    assert len(failed) == 12
