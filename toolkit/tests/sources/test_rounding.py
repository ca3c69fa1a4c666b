"""How far rounding takes networks from themselves, and that wrong ones are further away."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from phoneproof.sources.agreement import Arrays, Network, joined, sqnr_db, trial_inputs

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own

from phoneproof.protocol.tensors import TensorSpec  # noqa: E402

INPUTS = (TensorSpec("x", "float32", (1, 64)),)
SAMPLES = list(trial_inputs(INPUTS))


def network_of(compute: Callable[[torch.Tensor], torch.Tensor]) -> Network:
    def network(arrays: Arrays) -> Arrays:
        with torch.inference_mode():
            return [compute(torch.from_numpy(arrays[0])).numpy()]

    return network


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 32)).eval()


def reached(network: Network, other: Network) -> float:
    (one,), (two,) = joined(network, SAMPLES), joined(other, SAMPLES)
    return sqnr_db(one, two)


def limit(network: Network, steps: bool = False) -> float:
    from phoneproof.sources.rounding import least_float_db, least_step_db

    least = least_step_db if steps else least_float_db
    return least(network, SAMPLES, joined(network, SAMPLES))[0]


def test_a_network_in_another_order_of_sums_is_within_the_limit() -> None:
    module = layers()
    flipped = nn.Linear(64, 128)
    values = module[0].state_dict()
    flipped.load_state_dict({"weight": values["weight"].flip(1), "bias": values["bias"]})
    other = network_of(lambda x: module[1:](flipped(x.flip(1))))
    network = network_of(module)
    assert 90 < limit(network) <= 100
    assert limit(network) < reached(network, other) < np.inf


@pytest.mark.parametrize("fault", ["gelu", "epsilon", "half"])
def test_what_a_converter_may_get_slightly_wrong_is_beyond_it(fault: str) -> None:
    """Each passes at 60 dB, or nearly."""
    module, wrong = layers(), layers()
    if fault == "gelu":
        wrong[1] = nn.GELU(approximate="tanh")
    elif fault == "epsilon":
        wrong[2].eps = 1e-6  # type: ignore[assignment]
    else:
        wrong[3].half().float()
    network = network_of(module)
    assert 55 < reached(network, network_of(wrong)) < limit(network)


def test_a_network_that_magnifies_rounding_has_a_lower_limit() -> None:
    """The logarithm of what nearly cancels: a fixed limit would refuse its right builds."""
    magnifying = network_of(lambda x: torch.log((x + 1e5 - 1e5).abs() + 1e-4))
    assert limit(magnifying) < 30


def quantizing(scales: tuple[float, float], dynamic: bool = False) -> Network:
    importlib.import_module("torch.ao.quantization.fx._decomposed")  # registers quantized_decomposed
    operators: Any = torch.ops.quantized_decomposed
    module = layers()

    def rounded(x: torch.Tensor, scale: float) -> Any:
        if dynamic:
            chosen = operators.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8)
            levels = operators.quantize_per_tensor.tensor(x, *chosen, -128, 127, torch.int8)
            return operators.dequantize_per_tensor.tensor(levels, *chosen, -128, 127, torch.int8)
        levels = operators.quantize_per_tensor.default(x, scale, 0, -128, 127, torch.int8)
        return operators.dequantize_per_tensor.default(levels, scale, 0, -128, 127, torch.int8)

    return network_of(lambda x: module[1:](rounded(module[0](rounded(x, scales[0])), scales[1])))


def test_a_kernel_with_another_scale_is_beyond_the_limit_of_steps() -> None:
    right = quantizing((0.05, 0.03))
    assert 20 < limit(right, steps=True) < 50
    assert reached(right, quantizing((0.05, 0.06))) < limit(right, steps=True)
    assert reached(right, quantizing((0.07, 0.03))) < limit(right, steps=True)


def test_one_step_in_a_hundred_is_within_it() -> None:
    from phoneproof.sources.rounding import MovedSteps

    right = quantizing((0.05, 0.03))

    def nearly(arrays: Arrays) -> Arrays:
        with MovedSteps(0.02, seed=9):
            return right(arrays)

    assert limit(right, steps=True) < reached(right, nearly) < np.inf


def test_steps_whose_scale_is_found_in_each_run_are_moved_too() -> None:
    assert 20 < limit(quantizing((1.0, 1.0), dynamic=True), steps=True) < 60


def test_a_network_without_steps_has_the_limit_of_float() -> None:
    network = network_of(layers())
    assert limit(network, steps=True) == limit(network)
