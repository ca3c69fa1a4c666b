"""Keras models and SavedModels as ONNX: right, named after their layers, the same bytes each time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from phoneproof.sources.agreement import sqnr_db
from tests.models.keras_networks import samples
from tests.toolchains.orders import Order
from tests.toolchains.tensorflow_orders import (
    JUDGED,
    JUDGING_SEED,
    Done,
    answering,
    answers,
    carried_out,
    models,
    source,
)

pytestmark = pytest.mark.slow


def exporting(name: str, path: Path) -> Order:
    module = "phoneproof.sources.export_onnx_tensorflow"
    return Order(name, module, {"source": source(path), "out": "model.onnx"}, "export")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def done(root: Path) -> Mapping[str, Done]:
    folder = root / "models"
    keras, saved = folder / "two_heads.keras", folder / "two_heads"
    orders = [
        models(folder, "two_heads", "two_heads_exported", "names"),
        answering("reference", keras),
        exporting("keras", keras),
        exporting("saved", saved),
        exporting("names", folder / "names.keras"),
    ]
    return carried_out(orders, root)


def model(done: Done) -> Any:
    assert done.error is None, done.error
    return onnx.load_model(str(done.folder / "model.onnx"))


@pytest.mark.parametrize(
    ("name", "outputs"), [("keras", ["classes", "box"]), ("saved", ["output_0", "output_1"])]
)
def test_the_export_computes_what_the_source_does(
    done: Mapping[str, Done], name: str, outputs: list[str]
) -> None:
    session = onnxruntime.InferenceSession(
        model(done[name]).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    given = samples(JUDGED, JUDGING_SEED)
    found = [
        session.run(outputs, {key: value[index : index + 1] for key, value in given.items()})
        for index in range(JUDGED)
    ]
    for expected, values in zip(answers(done["reference"]), zip(*found, strict=True), strict=True):
        assert sqnr_db(expected, np.concatenate(values)) > 100


def test_inputs_and_outputs_have_the_sources_names(done: Mapping[str, Done]) -> None:
    graph = model(done["names"]).graph
    assert [value.name for value in graph.input] == ["a-b", "x/y"]
    assert [value.name for value in graph.output] == ["a out", "z out"]
    image = model(done["keras"]).graph.input[0].type.tensor_type.shape.dim
    assert [axis.dim_value for axis in image] == [1, 16, 16, 3]


def test_operators_are_named_after_their_layers(done: Mapping[str, Done]) -> None:
    types = {node.name: node.op_type for node in model(done["keras"]).graph.node}
    assert (types["conv"], types["depthwise"], types["clip"]) == ("Conv", "Conv", "Clip")
    assert (types["hidden/MatMul"], types["hidden/Relu"]) == ("MatMul", "Relu")


def test_the_same_model_gives_the_same_bytes(root: Path, done: Mapping[str, Done]) -> None:
    again = carried_out([exporting("saved", root / "models" / "two_heads")], root / "again")
    content = (again["saved"].folder / "model.onnx").read_bytes()
    assert content == (done["saved"].folder / "model.onnx").read_bytes()
