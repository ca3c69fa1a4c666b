"""The graph that is quantized, and what a plan can call its operators, of a program out of a file."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from phoneproof.errors import RecipeError
from phoneproof.quantize.torch_graph import PreparedProgram, kept_by_plan, prepare
from phoneproof.recipes.table import RecipeOptions
from phoneproof.sources.program_operators import aten_name
from tests.models.torch_networks import ConvNet, SharedConvolution, exported, saved_program, trained

IMAGE = torch.linspace(-1.0, 2.0, 3 * 16 * 16).reshape(1, 3, 16, 16)
pytestmark = pytest.mark.filterwarnings("ignore")  # torchao's own
MAPS = torch.linspace(-1.0, 2.0, 4 * 8 * 8).reshape(1, 4, 8, 8)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("program") / "model.pt2"
    return torch.export.load(saved_program(exported(trained(ConvNet(), [IMAGE]), [IMAGE]), path))


@pytest.fixture(scope="module")
def prepared(program: Any) -> PreparedProgram:
    return prepare(program)


def test_operators_have_the_names_that_the_module_has(prepared: PreparedProgram) -> None:
    first = prepared.operators["conv2d"]
    assert first.names == ("conv2d", "features.0", "features")
    assert first.types == ("conv2d", "Conv2d", "Sequential")
    assert prepared.operators["linear"].names == ("linear", "fc")


def test_a_batch_norm_counts_as_part_of_its_convolution(prepared: PreparedProgram) -> None:
    assert prepared.origins["conv2d"] == {"conv2d", "batch_norm"}
    assert not [node for node in prepared.graph.graph.nodes if aten_name(node) == "batch_norm"]


def test_the_prepared_graph_computes_what_the_program_does(program: Any, prepared: PreparedProgram) -> None:
    torch.testing.assert_close(prepared.graph(IMAGE), program.module()(IMAGE))


def test_two_preparations_have_the_same_names(program: Any, prepared: PreparedProgram) -> None:
    names = [[node.name for node in one.graph.graph.nodes] for one in (prepared, prepare(program))]
    assert names[0] == names[1]


def test_what_cannot_be_folded_is_not_folded() -> None:
    """torchao's own folding gives other values here; it is the reason why prepare chooses what is folded."""
    from torchao.quantization.pt2e.utils import _fuse_conv_bn_

    program = exported(trained(SharedConvolution(), [MAPS]), [MAPS])
    expected = program.module()(MAPS)
    torch.testing.assert_close(prepare(program).graph(MAPS), expected)
    vendors = program.module(check_guards=False)
    _fuse_conv_bn_(vendors)
    assert (vendors(MAPS) - expected).abs().max() > 0.1


def test_a_convolution_called_twice_has_a_bias_for_each_call() -> None:
    """XNNPACK stores a shared one in the scale of the first call (tests/toolchains/test_executorch.py)."""
    graph = prepare(exported(trained(SharedConvolution(), [MAPS]), [MAPS])).graph.graph
    calls = [node for node in graph.nodes if node.name in ("conv2d", "conv2d_1")]
    weights, biases = zip(*(node.all_input_nodes[1:] for node in calls), strict=True)
    assert weights[0].target == weights[1].target
    assert weights[0] is not weights[1]
    assert biases[0].target != biases[1].target


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"keep_float_names": ("linear",)}, {"linear"}),
        ({"keep_float_names": ("fc",)}, {"linear"}),
        ({"keep_float_types": ("Linear",)}, {"linear"}),
        ({"keep_float_types": ("linear",)}, {"linear"}),
        ({"keep_float_names": ("block",)}, {"conv2d_1", "relu"}),
        ({"keep_float_names": ("features.1",)}, {"conv2d", "hardtanh_"}),
        ({"keep_float_names": ("features",), "quantize_names": ("features.3",)}, {"conv2d", "hardtanh_"}),
        ({"keep_float_types": ("Conv2d",), "quantize_names": ("features",)}, {"conv2d_1", "relu"}),
    ],
)
def test_a_plan_names_what_stays_in_float(
    prepared: PreparedProgram, options: dict[str, Any], kept: set[str]
) -> None:
    assert kept_by_plan(prepared, RecipeOptions(**options)) == kept


def test_all_but_a_type_can_stay_in_float(prepared: PreparedProgram) -> None:
    kept = kept_by_plan(prepared, RecipeOptions(keep_float=True, quantize_types=("conv2d",)))
    assert set(prepared.origins) - kept == {"conv2d", "hardtanh_", "conv2d_1", "relu"}


@pytest.mark.parametrize("key", ["keep_float_names", "quantize_names", "keep_float_types", "quantize_types"])
def test_unknown_names_are_refused(prepared: PreparedProgram, key: str) -> None:
    with pytest.raises(RecipeError, match=r"features\.11") as caught:
        kept_by_plan(prepared, replace(RecipeOptions(), **{key: ("features.11",)}))  # type: ignore[arg-type]
    assert caught.value.where == key
