"""Clamps behind QNNPACK's convolutions: what torch makes of them, and what we make of its graph."""

import warnings
from typing import Any

import pytest
import torch
from torch import nn

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

INPUT = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Clamped(nn.Module):
    """A convolution, then what `clamp` makes of it."""

    def __init__(self, clamp: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 8, 3)
        self.clamp = clamp

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.clamp(self.conv(x))  # type: ignore[no-any-return]


class ReadTwice(Clamped):
    """The convolution's result is clamped in place and read again."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values = self.conv(x)
        return self.clamp(values) + values  # type: ignore[no-any-return]


def in_place(values: torch.Tensor) -> torch.Tensor:
    return nn.functional.hardtanh(values, -0.25, 0.25, True)


CLAMPS = {
    "ReLU6": nn.ReLU6(),
    "Hardtanh": nn.Hardtanh(-0.25, 0.5, inplace=True),
    "relu6": nn.functional.relu6,
    "hardtanh": lambda values: nn.functional.hardtanh(values, max_val=0.5),
    "hardtanh_": in_place,
    "clamp": lambda values: torch.clamp(values, -0.5, max=0.25),
    "method": lambda values: values.clamp(min=-0.5, max=0.25),
}


def quantized(module: nn.Module, mended: bool) -> Any:
    """The module for QNNPACK, which it chooses, by torch's default observers."""
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

    from phoneproof.runtimes.torch_qnnpack import use_engine
    from phoneproof.toolchains.fx_clamps import mend_clamps, ranges_behind_clamps

    use_engine()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        prepared = prepare_fx(module.eval(), get_default_qconfig_mapping("qnnpack"), (INPUT,))
        if not mended:
            prepared(INPUT)
            return convert_fx(prepared)
        with ranges_behind_clamps(prepared):
            prepared(INPUT)
        converted = convert_fx(prepared)
        mend_clamps(converted, (INPUT,))
        return converted


def furthest(module: nn.Module, mended: bool) -> float:
    """The largest difference between the module and its quantized form."""
    with torch.no_grad():
        # Quantized first: a clamp in place changes nothing that the other reads.
        return float((quantized(module, mended)(INPUT) - module(INPUT)).abs().max())


@pytest.mark.parametrize("name", CLAMPS)
def test_a_clamp_behind_a_convolution_is_taken_over_by_its_saturation(name: str) -> None:
    module = Clamped(CLAMPS[name])
    assert furthest(module, mended=True) < 0.03
    kinds = [str(node.target) for node in quantized(module, mended=True).graph.nodes]
    assert not any("clamp" in kind or "hardtanh" in kind or "relu6" in kind for kind in kinds)


@pytest.mark.parametrize("name", ["Hardtanh", "hardtanh_", "clamp"])
def test_a_clamp_that_stays_is_right_and_in_place_where_it_was(name: str) -> None:
    module = ReadTwice(CLAMPS[name])
    assert furthest(module, mended=True) < 0.05


@pytest.mark.parametrize("name", CLAMPS)
def test_torch_alone_mislays_the_values(name: str) -> None:
    """When this fails, torch has mended its clamp: only the ranges are still worth the work."""
    assert furthest(Clamped(CLAMPS[name]), mended=False) > 0.2


def test_the_range_is_that_behind_the_clamp() -> None:
    made = quantized(Clamped(CLAMPS["Hardtanh"]), mended=True)
    levels = torch.tensor([0.0, 255.0]) - made.conv.zero_point
    assert (levels * made.conv.scale).tolist() == pytest.approx([-0.25, 0.5], abs=0.01)


def test_clamps_of_one_side_and_in_float_are_left_alone() -> None:
    from phoneproof.toolchains.fx_clamps import mend_clamps

    class InFloat(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.clamp(min=0.0) + nn.functional.relu6(x)

    graph = torch.fx.symbolic_trace(InFloat())
    before = [node.name for node in graph.graph.nodes]
    mend_clamps(graph, (INPUT,))
    assert [node.name for node in graph.graph.nodes] == before
