"""Cases of the elementwise operators, the reductions and the orderings."""

import math

import numpy as np
import torch
import torch.nn.functional as nn
from torch import from_numpy as tensor

from tests.runtimes.mil.building import Case, between, integers, mb, normal

X = normal(2, 3, 4, 5)
UNIT = between(-0.95, 0.95, 3, 5)
POSITIVE = between(0.1, 4.0, 3, 5)
HALVES = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.0, 3.2], np.float32)
WIDE = between(-8, 8, 3, 5)

_UNARY = {
    "abs": (WIDE, torch.abs),
    "acos": (UNIT, torch.acos),
    "asin": (UNIT, torch.asin),
    "atan": (WIDE, torch.atan),
    "atanh": (UNIT, torch.atanh),
    "ceil": (WIDE, torch.ceil),
    "cos": (WIDE, torch.cos),
    "cosh": (UNIT, torch.cosh),
    "erf": (UNIT, torch.erf),
    "exp": (WIDE, torch.exp),
    "exp2": (WIDE, torch.exp2),
    "floor": (WIDE, torch.floor),
    "identity": (WIDE, lambda x: x),
    "relu": (WIDE, torch.relu),
    "relu6": (WIDE, nn.relu6),
    "round": (HALVES, torch.round),
    "sigmoid": (WIDE, torch.sigmoid),
    "sign": (HALVES, torch.sign),
    "silu": (WIDE, nn.silu),
    "sin": (WIDE, torch.sin),
    "sinh": (UNIT, torch.sinh),
    "softplus": (between(-60, 60, 9), lambda x: nn.softplus(x, threshold=1000)),
    "softsign": (WIDE, nn.softsign),
    "sqrt": (POSITIVE, torch.sqrt),
    "square": (WIDE, torch.square),
    "tan": (UNIT, torch.tan),
    "tanh": (WIDE, torch.tanh),
}
_WITH_EPSILON = {
    "inverse": (POSITIVE, {"epsilon": 1e-3}, lambda x: 1 / (x + 1e-3)),
    "log": (POSITIVE, {"epsilon": 0.5}, lambda x: torch.log(x + 0.5)),
    "rsqrt": (POSITIVE, {"epsilon": 1e-3}, lambda x: torch.rsqrt(x + 1e-3)),
}
_WITH_ALPHA = {
    "clamped_relu": ({"alpha": 0.25, "beta": 2.0}, lambda x: torch.where(x >= 0, x, 0.25 * x).clamp(max=2)),
    "clip": ({"alpha": -1.0, "beta": 0.5}, lambda x: x.clamp(-1, 0.5)),
    "elu": ({"alpha": 0.7}, lambda x: nn.elu(x, 0.7)),
    "leaky_relu": ({"alpha": 0.1}, lambda x: nn.leaky_relu(x, 0.1)),
    "linear_activation": ({"alpha": 1.5, "beta": -0.5}, lambda x: 1.5 * x - 0.5),
    "scaled_tanh": ({"alpha": 1.7, "beta": 0.6}, lambda x: 1.7 * torch.tanh(0.6 * x)),
    "sigmoid_hard": ({"alpha": 0.2, "beta": 0.5}, lambda x: (0.2 * x + 0.5).clamp(0, 1)),
    "threshold": ({"alpha": 0.3}, lambda x: x.clamp(min=0.3)),
    "thresholded_relu": ({"alpha": 0.4}, lambda x: nn.threshold(x, 0.4, 0)),
}
_BINARY = {
    "add": torch.add,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "mod": torch.remainder,
    "mul": torch.mul,
    "real_div": torch.true_divide,
    "sub": torch.sub,
    "floor_div": torch.floor_divide,
}
_COMPARISONS = {
    "equal": torch.eq,
    "greater": torch.gt,
    "greater_equal": torch.ge,
    "less": torch.lt,
    "less_equal": torch.le,
    "not_equal": torch.ne,
}
_LOGICAL = {
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
}
_REDUCTIONS = {
    "reduce_l1_norm": lambda x, d: x.abs().sum(d, keepdim=True),
    "reduce_l2_norm": lambda x, d: x.square().sum(d, keepdim=True).sqrt(),
    "reduce_log_sum": lambda x, d: x.sum(d, keepdim=True).log(),
    "reduce_log_sum_exp": lambda x, d: torch.logsumexp(x, d, keepdim=True),
    "reduce_max": lambda x, d: torch.amax(x, d, keepdim=True),
    "reduce_mean": lambda x, d: x.mean(d, keepdim=True),
    "reduce_min": lambda x, d: torch.amin(x, d, keepdim=True),
    "reduce_prod": lambda x, d: x.prod(d[1], True).prod(d[0], True),
    "reduce_sum": lambda x, d: x.sum(d, keepdim=True),
    "reduce_sum_square": lambda x, d: x.square().sum(d, keepdim=True),
}


def _unary() -> list[Case]:
    cases = [
        Case(name, {"x": x}, lambda x, name=name: getattr(mb, name)(x=x), lambda x, f=function: f(tensor(x)))
        for name, (x, function) in _UNARY.items()
    ]
    for name, (data, options, function) in _WITH_EPSILON.items():
        cases.append(
            Case(
                name,
                {"x": data},
                lambda x, name=name, options=options: getattr(mb, name)(x=x, **options),
                lambda x, f=function: f(tensor(x)),
            )
        )
    for name, (constants, activation) in _WITH_ALPHA.items():
        cases.append(
            Case(
                name,
                {"x": WIDE},
                lambda x, name=name, options=constants: getattr(mb, name)(x=x, **options),
                lambda x, f=activation: f(tensor(x)),
            )
        )
    return cases


def _binary() -> list[Case]:
    cases = []
    for name, function in _BINARY.items():
        for kind, x, y in (
            ("float", WIDE, normal(5) + 3),
            ("int", integers(1, 9, 2, 3), integers(1, 5, 3)),
        ):
            if (name, kind) != ("real_div", "int"):
                cases.append(
                    Case(
                        name,
                        {"x": x, "y": y.astype(x.dtype)},
                        lambda x, y, name=name: getattr(mb, name)(x=x, y=y),
                        lambda x, y, f=function: f(tensor(x), tensor(y)),
                        kind,
                    )
                )
    for name, function in _COMPARISONS.items():
        cases.append(
            Case(
                name,
                {"x": integers(0, 3, 4, 4), "y": integers(0, 3, 4, 4)},
                lambda x, y, name=name: getattr(mb, name)(x=x, y=y),
                lambda x, y, f=function: f(tensor(x), tensor(y)),
            )
        )
    for name, function in _LOGICAL.items():
        cases.append(
            Case(
                name,
                {"x": integers(0, 2, 8), "y": integers(0, 2, 8)},
                lambda x, y, name=name: getattr(mb, name)(
                    x=mb.cast(x=x, dtype="bool"), y=mb.cast(x=y, dtype="bool")
                ),
                lambda x, y, f=function: f(tensor(x), tensor(y)),
            )
        )
    return cases


def _reductions() -> list[Case]:
    cases = [
        Case(
            name,
            {"x": between(0.2, 1.5, 2, 3, 4, 5)},
            lambda x, name=name: getattr(mb, name)(x=x, axes=[1, -1], keep_dims=True),
            lambda x, f=function: f(tensor(x), (1, 3)),
        )
        for name, function in _REDUCTIONS.items()
    ]
    big = np.array([[200.0, 201.0], [-300.0, -300.0]], np.float32)
    return [
        *cases,
        Case(
            "reduce_log_sum_exp",
            {"x": big},
            lambda x: mb.reduce_log_sum_exp(x=x, axes=[1], keep_dims=False),
            lambda x: torch.logsumexp(tensor(x), 1),
            "large",
        ),
        Case(
            "reduce_sum",
            {"x": X},
            lambda x: mb.reduce_sum(x=x),
            lambda x: tensor(x).sum(),
            "all",
            tolerance=1e-4,
        ),
        Case(
            "reduce_max",
            {"x": integers(-9, 9, 3, 4)},
            lambda x: mb.reduce_max(x=x, axes=[0], keep_dims=False),
            lambda x: torch.amax(tensor(x), 0),
            "int",
        ),
    ]


def _tie(*values: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.array([values], np.float32)


CASES = [
    *_unary(),
    *_binary(),
    *_reductions(),
    Case("pow", {"x": POSITIVE}, lambda x: mb.pow(x=x, y=2.5), lambda x: tensor(x) ** 2.5),
    Case(
        "logical_not",
        {"x": integers(0, 2, 8)},
        lambda x: mb.logical_not(x=mb.cast(x=x, dtype="bool")),
        lambda x: tensor(x) == 0,
    ),
    Case("cast", {"x": WIDE}, lambda x: mb.cast(x=x, dtype="int32"), lambda x: tensor(x).int(), "to_int"),
    Case("cast", {"x": HALVES}, lambda x: mb.cast(x=x, dtype="bool"), lambda x: tensor(x).bool(), "to_bool"),
    Case(
        "cast",
        {"x": normal(6) * 100},
        lambda x: mb.cast(x=mb.cast(x=x, dtype="fp16"), dtype="fp32"),
        lambda x: tensor(x).half().float(),
        "to_half",
        tolerance=0,
    ),
    Case(
        "cast",
        {"x": integers(-100, 100, 6)},
        lambda x: mb.cast(x=mb.cast(x=x, dtype="int16"), dtype="fp32"),
        lambda x: tensor(x).float(),
        "to_short",
        17,
    ),
    Case(
        "select",
        {"c": integers(0, 2, 3, 5), "a": WIDE, "b": POSITIVE},
        lambda c, a, b: mb.select(cond=mb.cast(x=c, dtype="bool"), a=a, b=b),
        lambda c, a, b: torch.where(tensor(c) != 0, tensor(a), tensor(b)),
    ),
    Case(
        "prelu",
        {"x": X},
        lambda x: mb.prelu(x=x, alpha=np.array([0.1, 0.2, 0.3], np.float32)),
        lambda x: nn.prelu(tensor(x), torch.tensor([0.1, 0.2, 0.3])),
    ),
    Case(
        "softplus_parametric",
        {"x": X},
        lambda x: mb.softplus_parametric(
            x=x, alpha=np.array([1, 2, 3], np.float32), beta=np.array([0.5, 1, 2], np.float32)
        ),
        lambda x: (
            torch.tensor([1.0, 2, 3]).view(3, 1, 1)
            * nn.softplus(torch.tensor([0.5, 1, 2]).view(3, 1, 1) * tensor(x))
        ),
    ),
    Case("softmax", {"x": X}, lambda x: mb.softmax(x=x, axis=1), lambda x: torch.softmax(tensor(x), 1)),
    *(
        Case("gelu", {"x": WIDE}, lambda x, mode=mode: mb.gelu(x=x, mode=mode), function, mode)
        for mode, function in {
            "EXACT": lambda x: nn.gelu(tensor(x)),
            "TANH_APPROXIMATION": lambda x: nn.gelu(tensor(x), approximate="tanh"),
            "SIGMOID_APPROXIMATION": lambda x: tensor(x) * torch.sigmoid(1.702 * tensor(x)),
        }.items()
    ),
    *(
        Case(
            name,
            {"x": X},
            lambda x, name=name: getattr(mb, name)(x=x, axis=2, keep_dims=True),
            lambda x, f=function: f(tensor(x), 2, keepdim=True),
        )
        for name, function in {"reduce_argmax": torch.argmax, "reduce_argmin": torch.argmin}.items()
    ),
    Case(
        "reduce_argmax",
        {"x": _tie(1, 4, 4, 0)},
        lambda x: mb.reduce_argmax(x=x, axis=-1, keep_dims=False),
        lambda x: np.array([1]),
        "first_of_equals",
        17,
    ),
    Case(
        "argsort",
        {"x": X},
        lambda x: mb.argsort(x=x, axis=1, ascending=False),
        lambda x: torch.argsort(tensor(x), dim=1, descending=True, stable=True),
    ),
    Case(
        "argsort",
        {"x": _tie(3, 1, 3, 1)},
        lambda x: (mb.argsort(x=x, ascending=True), mb.argsort(x=x, ascending=False)),
        lambda x: (np.array([[1, 3, 0, 2]]), np.array([[0, 2, 1, 3]])),
        "equals",
    ),
    Case(
        "topk",
        {"x": X},
        lambda x: mb.topk(x=x, k=2, axis=2, ascending=False),
        lambda x: tuple(torch.topk(tensor(x), 2, 2)),
    ),
    Case(
        "topk",
        {"x": X},
        lambda x: mb.topk(x=x, k=3, axis=-1, ascending=True, sort=True, return_indices=False),
        lambda x: torch.topk(tensor(x), 3, -1, largest=False)[0],
        "values_only",
        17,
    ),
    Case("cumsum", {"x": X}, lambda x: mb.cumsum(x=x, axis=2), lambda x: torch.cumsum(tensor(x), 2)),
    Case(
        "cumsum",
        {"x": np.arange(1, 5, dtype=np.float32)},
        lambda x: mb.cumsum(x=x, axis=0, exclusive=True, reverse=True),
        lambda x: np.array([9, 7, 4, 0], np.float32),
        "exclusive_reverse",
    ),
    Case(
        "non_zero",
        {"x": np.array([[0, 2, 0], [3, 0, 4]], np.float32)},
        lambda x: mb.non_zero(x=x),
        lambda x: torch.nonzero(tensor(x)),
    ),
    Case(
        "sigmoid",
        {"x": np.array([-200, 200, math.log(3)], np.float32)},
        lambda x: mb.sigmoid(x=x),
        lambda x: np.array([0, 1, 0.75], np.float32),
        "extreme",
    ),
]
