"""What networks are made of, whichever format they come in."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from phoneproof.builds.source_facts import Anatomy, OperatorUse, SourceFacts
from phoneproof.demo.digits_net import network
from phoneproof.protocol.work import Progress
from phoneproof.runs.advising import nature_of
from phoneproof.runs.model_audit import model_findings, predicted_support
from phoneproof.sources.anatomy_onnx import anatomy_onnx
from phoneproof.sources.anatomy_torch import anatomy_torch
from phoneproof.sources.inspect_onnx import inspect_onnx
from phoneproof.sources.onnx_model import load_onnx
from phoneproof.sources.request import OnnxSourceRequest
from tests.models.onnx_networks import NetworkBuilder, saved
from tests.models.torch_networks import ConvNet, TokenClassifier
from tests.toolchains.orders import Order
from tests.toolchains.tensorflow_orders import carried_out, inspecting, models

F = nn.functional


def counted(anatomy: Anatomy) -> dict[str, int]:
    found: dict[str, int] = {}
    for use in anatomy.uses:
        found[use.operator] = found.get(use.operator, 0) + use.count
    return found


def traits(anatomy: Anatomy) -> dict[str, tuple[str, ...]]:
    return {use.operator: use.traits for use in anatomy.uses}


def of_module(module: nn.Module, *example: torch.Tensor) -> Anatomy:
    return anatomy_torch(torch.export.export(module.eval(), example))


class Called(nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, image: torch.Tensor) -> Any:
        return self.function(image)


def of_function(function: Any, shape: Sequence[int] = (1, 4, 8, 8)) -> Anatomy:
    return of_module(Called(function), torch.rand(*shape))


def onnx_graph(build: NetworkBuilder, output: str, shape: Sequence[int], side: int = 8) -> Any:
    model = build.model({"image": [1, 4, side, side]}, {output: list(shape)})
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def test_a_convolutional_network_of_pytorch() -> None:
    found = of_module(ConvNet(), torch.rand(1, 3, 16, 16))
    assert counted(found) == {
        "add": 1,
        "batch_norm": 2,
        "conv2d": 1,
        "depthwise_conv2d": 1,
        "global_avg_pool": 1,
        "linear": 1,
        "max_pool2d": 1,
        "mul": 1,
        "relu": 1,
        "relu6": 1,
        "reshape": 1,
    }
    assert found.unnamed == {}
    assert found.weights == {"convolution": 3 * 16 * 9 + 16 + 16 * 9, "linear": 85, "normalisation": 8 * 16}
    assert found.multiplications == 27 * 16 * 256 + 9 * 16 * 64 + 16 * 5
    assert found.vocabularies == ()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_networks_for_phones_are_no_poor_candidates() -> None:
    from torchvision.models import mobilenet_v2

    for module, side, channels, million in ((mobilenet_v2(), 224, 3, 300.8), (network(), 32, 1, 9.5)):
        found = of_module(module, torch.rand(1, channels, side, side))
        assert found.multiplications / 1e6 == pytest.approx(million, abs=0.1)
        facts = SourceFacts("0" * 64, 1, (), (), (), {}, 0, anatomy=found)
        assert model_findings("m/pytorch", facts) == ()
        assert nature_of(facts).nature == "convolutional"
        assert [one.doubtful for one in predicted_support(facts)] == [()] * 6
        assert [one.unlisted for one in predicted_support(facts)] == [{}] * 6


def test_a_network_of_tokens_whose_positions_are_constant() -> None:
    found = of_module(TokenClassifier(), torch.zeros(1, 8, dtype=torch.int64))
    # The positions' embedding is of constants alone: a converter looks it up once.
    assert counted(found)["embedding"] == 1
    assert found.vocabularies == (32,)
    assert {"matmul": 2, "linear": 3, "softmax": 2}.items() <= counted(found).items()
    assert "range" not in counted(found)
    assert found.weights["lookup"] == 32 * 16
    assert not found.causal


WAYS: Sequence[tuple[Any, str, tuple[str, ...]]] = (
    (lambda x: F.softmax(x, 1), "softmax", ("other_axis",)),
    (lambda x: F.softmax(x, -1), "softmax", ()),
    (lambda x: F.avg_pool2d(x, 2), "avg_pool2d", ()),
    (lambda x: F.avg_pool2d(x, 2, padding=1), "avg_pool2d", ("padding_counted",)),
    (lambda x: F.avg_pool2d(x, 2, padding=1, count_include_pad=False), "avg_pool2d", ()),
    (lambda x: F.avg_pool2d(x, 3, ceil_mode=True), "avg_pool2d", ("ceil",)),
    (lambda x: F.adaptive_avg_pool2d(x, 2), "avg_pool2d", ("adaptive",)),
    (lambda x: F.max_pool2d(x, 1, 2), "max_pool2d", ("stride_above_kernel",)),
    (lambda x: x.mean((2, 3), keepdim=True), "reduce_mean", ()),
    (lambda x: x.mean((2, 3)), "reduce_mean", ("not_spatial",)),
    (lambda x: x.mean(-1, keepdim=True), "reduce_mean", ("not_spatial",)),
    (lambda x: x[:, ::2], "slice", ("strided",)),
    (lambda x: x**2, "pow", ()),
    (lambda x: x**3, "pow", ("not_square",)),
    (lambda x: torch.cat([x + n for n in range(6)]), "concat", ("many",)),
    (lambda x: x.max(1)[0], "max_with_index", ()),
    (lambda x: x.max(), "reduce_max", ()),
    (lambda x: torch.max(x, x * 2), "maximum", ()),
    (lambda x: x.unsqueeze(0), "unsqueeze", ("other_axis",)),
    (lambda x: x.unsqueeze(-1), "unsqueeze", ()),
    (lambda x: F.interpolate(x, scale_factor=2.0), "resize_nearest", ()),
    (lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), "resize_bilinear", ()),
    (lambda x: x.to(torch.int64) - 1, "sub", ("integer",)),
)


def test_ways_of_using_an_operator_in_pytorch() -> None:
    found = of_function(lambda x: [function(x) for function, _, _ in WAYS])
    expected = Counter((word, traits) for _, word, traits in WAYS)
    words = {word for word, _ in expected}
    uses: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for use in found.uses:
        if use.operator in words:
            uses[use.operator, use.traits] += use.count
    assert uses == expected


class Side(nn.Module):
    """Layers side by side, each with an input of its own."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, *given: torch.Tensor) -> Any:
        return [layer(one) for layer, one in zip(self.layers, given, strict=True)]


@pytest.mark.filterwarnings("ignore:The tensor attributes self:UserWarning")
def test_the_use_decides_which_layer_it_is() -> None:
    layers: Sequence[tuple[nn.Module, Sequence[int], str]] = (
        (nn.Conv1d(4, 4, 3), (1, 4, 8), "conv1d"),
        (nn.Conv2d(4, 8, 3, groups=2), (1, 4, 8, 8), "conv2d"),
        (nn.Conv2d(4, 8, 3, groups=4), (1, 4, 8, 8), "depthwise_conv2d"),
        (nn.Conv3d(4, 4, 3), (1, 4, 5, 5, 5), "conv3d"),
        (nn.ConvTranspose2d(4, 4, 3), (1, 4, 8, 8), "conv_transpose2d"),
        (nn.MaxPool3d(2), (1, 4, 5, 5, 5), "pool3d"),
        (nn.LSTM(8, 4, batch_first=True), (1, 3, 8), "lstm"),
    )
    found = of_module(Side(*(one for one, _, _ in layers)), *(torch.rand(*shape) for _, shape, _ in layers))
    assert counted(found) == {word: 1 for _, _, word in layers}


def test_masked_attention_is_causal() -> None:
    attention = F.scaled_dot_product_attention
    assert of_function(lambda x: attention(x, x, x, is_causal=True)).causal
    assert not of_function(lambda x: attention(x, x, x)).causal


def test_an_onnx_network_and_what_is_constant_in_it() -> None:
    build = NetworkBuilder(0)
    x = build.conv("image", "first", 4, 8)
    x = build.conv(x, "depthwise", 8, 8, group=8)
    build.weight("half", np.full((), 0.5, np.float32))
    scaled = build.op("Mul", ["first_w", "half"], "scaled")  # a weight of a weight: folded
    build.op("Identity", [scaled], "unused")
    shape = build.op("Shape", [x], "shape")  # all axes are fixed: a constant
    zeros = build.op("ConstantOfShape", [shape], "zeros")
    x = build.op("Add", [x, zeros], "sum")
    x = build.op("Softmax", [x], "softmax", axis=1)
    found = anatomy_onnx(onnx_graph(build, x, [1, 8, 8, 8]))
    assert counted(found) == {"add": 1, "conv2d": 1, "depthwise_conv2d": 1, "softmax": 1}
    assert found.multiplications == 4 * 9 * 8 * 64 + 9 * 8 * 64
    assert traits(found)["softmax"] == ("other_axis",)
    assert sum(found.weights.values()) == 8 * 4 * 9 + 8 + 8 * 9 + 8


PADDED = {"kernel_shape": [2, 2], "pads": [1] * 4}


@pytest.mark.parametrize(
    ("kind", "attributes", "word", "expected"),
    [
        ("AveragePool", {**PADDED, "count_include_pad": 1}, "avg_pool2d", ("padding_counted",)),
        ("AveragePool", PADDED, "avg_pool2d", ()),
        ("MaxPool", {"kernel_shape": [1, 1], "strides": [2, 2]}, "max_pool2d", ("stride_above_kernel",)),
        ("ReduceMean", {"axes": [2, 3]}, "reduce_mean", ()),
        ("ReduceMean", {"axes": [-1]}, "reduce_mean", ("not_spatial",)),
        ("Split", {"axis": 1}, "split", ()),
    ],
)  # fmt: skip
def test_ways_of_using_an_operator_in_onnx(
    kind: str, attributes: dict[str, Any], word: str, expected: tuple[str, ...]
) -> None:
    build = NetworkBuilder(0)
    output = build.op(kind, ["image"], "one", **attributes)
    model = build.model({"image": [1, 4, 8, 8]}, {output: [None] * 4})
    assert traits(anatomy_onnx(onnx.shape_inference.infer_shapes(model)))[word] == expected


def test_types_without_a_word_are_counted_by_themselves() -> None:
    build = NetworkBuilder(0)
    x = build.op("Hardmax", [build.op("Relu", ["image"], "relu")], "odd")
    found = anatomy_onnx(onnx_graph(build, x, [1, 4, 8, 8]))
    assert found.unnamed == {"Hardmax": 1}
    assert counted(found) == {"relu": 1}


def test_every_model_that_onnx_brings_along_can_be_taken_apart() -> None:
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data"
    paths = sorted(folder.glob("pytorch-*/*/model.onnx"))
    assert len(paths) > 50
    for path in paths:
        model = onnx.load_model(str(path))
        found = anatomy_onnx(model)
        assert found.unnamed == {}, path
        assert sum(use.count for use in found.uses) <= len(model.graph.node), path


def test_open_axes_are_told_as_the_file_has_them(tmp_path: Path) -> None:
    build = NetworkBuilder(0)
    x = build.conv("image", "first", 3, 4)
    path = saved(
        build.model({"image": ["n", 3, "height", 16]}, {x: ["n", 4, "height", 16]}), tmp_path / "m.onnx"
    )
    request = OnnxSourceRequest("onnx", str(path), shapes={"image": (1, 3, 8, 16)})
    facts = inspect_onnx(request, Progress(tmp_path))
    assert facts.open_inputs == {"image": (None, 3, None, 16)}
    assert facts.inputs[0].shape == (1, 3, 8, 16)
    assert facts.anatomy.uses == (OperatorUse("conv2d", 1, 4, ()),)
    assert load_onnx(path, {"image": (1, 3, 8, 16)}).open_inputs == facts.open_inputs


@pytest.mark.slow
def test_keras_models(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    orders: list[Order] = [
        models(folder, "two_heads", "open_axes", "recurrent"),
        inspecting("two_heads", folder / "two_heads.keras"),
        inspecting("open", folder / "open_axes.keras", shapes={"image": [1, 20, 24, 3]}),
        inspecting("recurrent", folder / "recurrent.keras"),
    ]
    done = carried_out(orders, tmp_path)
    found = {name: done[name].result for name in ("two_heads", "open", "recurrent")}
    uses = {
        name: {use["operator"]: use["count"] for use in one["anatomy"]["uses"]} for name, one in found.items()
    }
    assert {"conv2d": 1, "depthwise_conv2d": 1, "embedding": 1, "linear": 3}.items() <= uses[
        "two_heads"
    ].items()
    assert found["two_heads"]["anatomy"]["vocabularies"] == [300]
    assert found["two_heads"]["anatomy"]["unnamed"] == {}
    assert found["open"]["open_inputs"] == {"image": [None, None, None, 3]}
    assert {"lstm": 1, "gru": 1}.items() <= uses["recurrent"].items()
    assert "loop" not in uses["recurrent"]
    assert found["recurrent"]["anatomy"]["weights"]["recurrent"] >= 4 * (8 + 16) * 16
