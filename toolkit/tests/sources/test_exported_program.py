"""Exported programs as source models: names, axes, hash, and what may not change from call to call."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from phoneproof.errors import SourceModelError
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.sources.exported_program import ExportedSource, load_program
from phoneproof.sources.program_running import check_repeatable
from phoneproof.sources.request import ExportedProgramRequest
from phoneproof.sources.signature_torch import signature_torch
from tests.sources.pt2_archives import images, program, saved

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

SHAPES = {"image": (1, 3, 16, 8)}


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(program(), tmp_path_factory.mktemp("fixed") / "model.pt2")


@pytest.fixture(scope="module")
def dynamic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(program(dynamic=True), tmp_path_factory.mktemp("dynamic") / "model.pt2")


def loaded(path: Path, **more: Any) -> ExportedSource:
    return load_program(ExportedProgramRequest("exported_program", str(path), **more))


def test_inputs_and_outputs_in_order_with_the_plans_names(fixed: Path) -> None:
    source = loaded(fixed, outputs=("scores", "sum"))
    assert source.inputs == (
        TensorSpec("image", "float32", (1, 3, 8, 8)),
        TensorSpec("ids", "int64", (1, 6)),
    )
    assert source.outputs == (TensorSpec("scores", "float32", (1, 5)), TensorSpec("sum", "float32", ()))
    assert [spec.name for spec in loaded(fixed).outputs] == ["output_0", "output_1"]


def test_dynamic_axes_are_fixed_and_modules_keep_their_names(dynamic: Path) -> None:
    source = loaded(dynamic, shapes=SHAPES)
    assert [spec.shape for spec in source.inputs] == [(1, 3, 16, 8), (1, 6)]
    stacks = [node.meta.get("nn_module_stack", {}) for node in source.program.graph.nodes]
    paths = {path for stack in stacks for path, _ in stack.values()}
    assert {"conv", "fc"} <= paths
    image, ids = torch.randn(1, 3, 16, 8), torch.ones(1, 6, dtype=torch.int64)
    expected = images()(image, ids)
    logits, total = source.runner()([image, ids])
    torch.testing.assert_close(logits, expected["logits"])
    torch.testing.assert_close(total, expected["total"])


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ({}, "Axis 2"),
        ({"image": (1, 3, 16)}, "all 4 axes"),
        ({"image": (2, 3, 16, 8)}, "batch"),
        ({"image": (1, 3, 65, 8)}, "from 4 to 64, not 65"),
        ({"image": (1, 3, 16, 9)}, "length 8, but 9"),
        ({"imgae": (1, 3, 16, 8)}, "not an input"),
        ({**SHAPES, "ids": (1, 7)}, "length 6, but 7"),
    ],
)
def test_shapes_that_contradict_the_program(dynamic: Path, shapes: Any, said: str) -> None:
    with pytest.raises(SourceModelError, match=said):
        loaded(dynamic, shapes=shapes)


def test_a_batch_that_may_not_be_one(tmp_path: Path) -> None:
    path = saved(program(dynamic=True, least_batch=2), tmp_path / "two.pt2")
    with pytest.raises(SourceModelError, match="lengths from 2 to 16, not 1"):
        loaded(path, shapes=SHAPES)


def test_the_hash_is_of_what_is_computed(fixed: Path, tmp_path: Path) -> None:
    """Another archive of the same program, by another path and at another time, has the same hash."""
    again = saved(program(), tmp_path / "again.pt2")
    assert again.read_bytes() != fixed.read_bytes()
    assert loaded(again).sha256 == loaded(fixed).sha256
    other = program()
    with torch.no_grad():
        other.state_dict["fc.bias"][0] += 1e-6
    assert loaded(saved(other, tmp_path / "other.pt2")).sha256 != loaded(fixed).sha256


def test_a_program_that_changed_since_the_plan_is_refused(fixed: Path) -> None:
    assert loaded(fixed, sha256=loaded(fixed).sha256).path == fixed
    with pytest.raises(SourceModelError, match="changed since"):
        loaded(fixed, sha256="0" * 64)


@pytest.mark.parametrize("outputs", [("one",), ("a", "b", "c")])
def test_names_for_too_many_or_too_few_outputs(fixed: Path, outputs: tuple[str, ...]) -> None:
    with pytest.raises(SourceModelError, match="the program gives 2"):
        loaded(fixed, outputs=outputs)


def test_an_output_named_as_an_input(fixed: Path) -> None:
    with pytest.raises(SourceModelError, match="same name: image"):
        loaded(fixed, outputs=("image", "b"))


def test_keyword_and_constant_arguments_keep_their_places(tmp_path: Path) -> None:
    class Keywords(nn.Module):
        def forward(self, a: Any, scale: float, *, b: Any, mask: Any = None) -> Any:
            return a - b * scale if mask is None else a

    ones = torch.ones(1, 2)
    one = torch.export.export(Keywords(), (ones, 2.0), {"b": ones * 3, "mask": None})
    source = loaded(saved(one, tmp_path / "k.pt2"))
    assert [spec.name for spec in source.inputs] == ["a", "b"]
    assert source.runner()([ones, ones * 3])[0].tolist() == [[-5.0, -5.0]]


class Stateful(nn.Module):
    """What it gives depends on how often it ran."""

    count: torch.Tensor

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.register_buffer("count", torch.zeros(1))
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x: Any) -> Any:
        if self.kind == "counter":
            self.count += 1
            return x + self.count
        if self.kind == "dropout":
            return nn.functional.dropout(x, training=True)
        return self.norm(x)


@pytest.mark.parametrize(
    ("kind", "said"), [("counter", "count"), ("training", "running_mean"), ("dropout", "other outputs")]
)
def test_programs_that_give_another_answer_each_time(tmp_path: Path, kind: str, said: str) -> None:
    one = torch.export.export(Stateful(kind).train(kind == "training"), (torch.randn(1, 2, 4),))
    path = saved(one, tmp_path / "s.pt2")
    with pytest.raises(SourceModelError, match=said):
        check_repeatable(loaded(path), str(path))


def test_the_signature_leaves_open_what_the_program_does(dynamic: Path) -> None:
    assert signature_torch(dynamic) == {
        "inputs": [
            {"name": "image", "dtype": "float32", "shape": [None, 3, None, 8]},
            {"name": "ids", "dtype": "int64", "shape": [None, 6]},
        ],
        "outputs": [
            {"name": "output_0", "dtype": "float32", "shape": [None, 5]},
            {"name": "output_1", "dtype": "float32", "shape": []},
        ],
    }
