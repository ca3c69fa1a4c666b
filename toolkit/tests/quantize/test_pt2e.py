"""PT2E with known ranges: observation by name, shared observers, and what vendors get wrong."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from phoneproof.errors import DataError, ToolchainError
from phoneproof.quantize.calibration import MethodRequest, ranges_by
from phoneproof.quantize.observe_torch import observe
from phoneproof.quantize.pt2e import Quantized, quantized
from phoneproof.quantize.ranges import Ranges
from phoneproof.quantize.torch_graph import kept_by_plan, prepare
from phoneproof.recipes.table import Method, RecipeOptions
from phoneproof.sources.agreement import sqnr_db
from tests.models.torch_networks import ConvNet, TokenClassifier, exported, trained

pytestmark = pytest.mark.filterwarnings("ignore")  # torchao's and ExecuTorch's own

Samples = list[Mapping[str, NDArray[Any]]]


def images(count: int, shape: tuple[int, ...] = (3, 16, 16), name: str = "image") -> Samples:
    draw = np.random.default_rng(3)
    return [{name: draw.standard_normal((1, *shape)).astype(np.float32)} for _ in range(count)]


def ranges_for(
    program: Any, samples: Samples, method: Method = Method.MINMAX, percentile: float | None = None
) -> Ranges:
    names = tuple(samples[0])
    return ranges_by(
        MethodRequest(method, percentile), observe(prepare(program), names, samples, 1), "d", len(samples)
    )


def xnnpack(program: Any, ranges: Ranges, **options: Any) -> Quantized:
    from phoneproof.toolchains.executorch_lowering import xnnpack_quantizer

    prepared = prepare(program)
    kept = kept_by_plan(prepared, RecipeOptions(**options))
    return quantized(prepared, xnnpack_quantizer(per_channel=True, dynamic=False), ranges, kept)


def scales(result: Quantized) -> dict[str, tuple[float, int]]:
    """Scale and zero point by name of the operator, or input, whose output is quantized."""
    quantize = torch.ops.quantized_decomposed.quantize_per_tensor.default
    nodes = [node for node in result.graph.graph.nodes if node.target == quantize]
    return {node.args[0].name: node.args[1:3] for node in nodes}


@pytest.fixture(scope="module")
def program() -> Any:
    example = [torch.zeros(1, 3, 16, 16)]
    return exported(trained(ConvNet(), [torch.randn(1, 3, 16, 16)]), example)


@pytest.fixture(scope="module")
def minmax(program: Any) -> Ranges:
    return ranges_for(program, images(16))


def test_statistics_are_those_of_the_values(program: Any, minmax: Ranges) -> None:
    outputs = [program.module()(torch.from_numpy(one["image"])) for one in images(16)]
    low, high = minmax.tensors["linear"]
    assert low == pytest.approx(min(0.0, *(float(one.min()) for one in outputs)), rel=1e-5)
    assert high == pytest.approx(max(0.0, *(float(one.max()) for one in outputs)), rel=1e-5)
    pixels = np.concatenate([one["image"] for one in images(16)])
    assert minmax.tensors["image"] == (float(pixels.min()), float(pixels.max()))


def test_the_order_of_samples_changes_nothing(program: Any, minmax: Ranges) -> None:
    backwards = list(reversed(images(16)))
    assert ranges_for(program, backwards).tensors == minmax.tensors
    entropy = [ranges_for(program, one, Method.ENTROPY).tensors for one in (images(16), backwards)]
    assert entropy[0] == entropy[1]


def test_derived_statistics_are_those_of_a_look() -> None:
    class Moves(nn.Module):
        def forward(self, image: torch.Tensor) -> Any:
            return torch.flatten(nn.functional.hardtanh(image, -0.5, 1.0), 1).relu()

    ranges = ranges_for(exported(Moves(), [torch.zeros(1, 3, 16, 16)]), images(4))
    assert ranges.tensors["hardtanh"] == (-0.5, 1.0)
    assert ranges.tensors["relu"] == (0.0, 1.0)


def test_values_that_are_not_finite_name_tensor_and_sample(program: Any) -> None:
    samples = images(3)
    samples[2]["image"][0, 1, 2, 3] = np.inf
    with pytest.raises(DataError, match="'image' is not finite for calibration sample 2"):
        ranges_for(program, samples)


def test_an_empty_set_is_refused(program: Any) -> None:
    with pytest.raises(DataError, match="no samples"):
        observe(prepare(program), ("image",), [], 1)


@pytest.mark.parametrize(
    ("method", "percentile", "least"),
    [("minmax", None, 30.0), ("entropy", None, 25.0), ("percentile", 99.9, 20.0)],
)
def test_every_method_quantizes_and_none_runs_data(
    program: Any, method: str, percentile: float | None, least: float
) -> None:
    ranges = ranges_for(program, images(16), Method(method), percentile)
    result = xnnpack(program, ranges)
    sample = torch.from_numpy(images(1)[0]["image"])
    ratio = sqnr_db(program.module()(sample).detach().numpy(), result.graph(sample).detach().numpy())
    assert ratio >= least
    low, high = ranges.tensors["image"]
    assert scales(result)["image"][0] == pytest.approx((high - low) / 255, rel=1e-6)


def test_a_convolution_before_a_clip_has_the_range_of_the_clip(program: Any, minmax: Ranges) -> None:
    assert minmax.tensors["conv2d"][0] < 0.0
    scale, zero_point = scales(xnnpack(program, minmax))["conv2d"]
    assert zero_point == -128
    assert scale == pytest.approx(minmax.tensors["hardtanh_"][1] / 255, rel=1e-6)


def test_shared_observers_hold_the_ranges_of_all_their_tensors() -> None:
    class Joined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.small, self.large = nn.Linear(8, 8), nn.Linear(8, 8)
            nn.init.constant_(self.large.bias, 9.0)

        def forward(self, image: torch.Tensor) -> Any:
            return torch.cat((self.small(image), self.large(image)), 1)

    program = exported(Joined().eval(), [torch.zeros(1, 8)])
    ranges = ranges_for(program, images(8, (8,)))
    found = scales(xnnpack(program, ranges))
    assert found["linear"] == found["linear_1"] == found["cat"]
    assert found["cat"][0] * 255 >= ranges.tensors["linear_1"][1]


def test_an_observed_tensor_without_a_range_is_named(program: Any, minmax: Ranges) -> None:
    tensors = {name: one for name, one in minmax.tensors.items() if name != "add"}
    holed = Ranges(minmax.version, minmax.method, None, "d", 16, tensors)
    with pytest.raises(ToolchainError, match="no range for 'add'"):
        xnnpack(program, holed)


def test_what_is_kept_in_float_is_not_quantized(program: Any, minmax: Ranges) -> None:
    result = xnnpack(program, minmax, keep_float_types=("Linear",))
    assert "linear" not in result.integer
    assert "conv2d" in result.integer


def test_a_cat_stays_in_float_though_the_vendor_asks_no_filter() -> None:
    class Joined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, image: torch.Tensor) -> Any:
            return torch.cat((self.left(image), self.right(image)), 1)

    program = exported(Joined().eval(), [torch.zeros(1, 8)])
    ranges = ranges_for(program, images(4, (8,)))
    assert "cat" in xnnpack(program, ranges).integer
    assert "cat" not in xnnpack(program, ranges, keep_float_types=("cat",)).integer


class Lookup(nn.Module):
    """A row chosen by an index that is reckoned with integers."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.randn(12, 8))
        self.fc = nn.Linear(8, 4)

    def forward(self, ids: torch.Tensor) -> Any:
        return self.fc(self.rows[ids * 2 + 1])


def test_integer_arithmetic_keeps_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import nullcontext

    from phoneproof.quantize import pt2e

    program = exported(Lookup().eval(), [torch.zeros(1, 3, dtype=torch.int64)])
    ids = np.array([[0, 3, 5]])
    ranges = ranges_for(program, [{"ids": ids}])
    result = xnnpack(program, ranges)
    expected = program.module()(torch.from_numpy(ids)).detach().numpy()
    assert sqnr_db(expected, result.graph(torch.from_numpy(ids)).detach().numpy()) > 25.0
    # Without the guard the vendor's pass makes the index a float, with which torch refuses to index.
    monkeypatch.setattr(pt2e, "hidden", lambda _: nullcontext())
    unguarded = xnnpack(program, ranges)
    with pytest.raises((IndexError, RuntimeError)):
        unguarded.graph(torch.from_numpy(ids))


def test_an_addition_that_would_lose_an_operand_stays_in_float() -> None:
    module = trained(TokenClassifier(), [torch.zeros(1, 8, dtype=torch.int64)], passes=0)
    program = exported(module, [torch.zeros(1, 8, dtype=torch.int64)])
    draw = np.random.default_rng(0)
    samples: Samples = [{"ids": draw.integers(0, 32, (1, 8))} for _ in range(16)]
    result = xnnpack(program, ranges_for(program, samples))
    assert result.unsafe == {"add_2"}
    sample = torch.from_numpy(samples[0]["ids"])
    ratio = sqnr_db(program.module()(sample).detach().numpy(), result.graph(sample).detach().numpy())
    assert ratio > 25.0


def test_a_weight_that_depends_on_the_input_stays_in_float() -> None:
    class Computed(nn.Module):
        def forward(self, image: torch.Tensor) -> Any:
            return nn.functional.linear(image, image.transpose(0, 1) @ image)

    program = exported(Computed(), [torch.zeros(1, 8)])
    result = xnnpack(program, ranges_for(program, images(2, (8,))))
    assert result.computed_weights == {"linear"}
    assert "linear" not in result.integer
