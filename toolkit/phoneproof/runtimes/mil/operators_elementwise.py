"""Elementwise operators of MIL. Each function takes MIL's parameters by name, with MIL's defaults.

Float arrays arrive and leave as float32 (see types.py). Source of the definitions: coremltools 9,
converters/mil/mil/ops/defs, iOS 15 to iOS 18.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import torch

from phoneproof.runtimes.mil.types import Array

Operator = Callable[..., Any]


def as_torch(x: Array) -> torch.Tensor:
    """`x` without a copy where it is contiguous and may be written to, which torch wants."""
    return torch.from_numpy(np.require(x, requirements=["C", "W"]))


def _unary(function: Callable[[Array], Any]) -> Operator:
    def operator(x: Array) -> Any:
        return function(x)

    return operator


def _binary(function: Callable[[Array, Array], Any]) -> Operator:
    def operator(x: Array, y: Array) -> Any:
        return function(x, y)

    return operator


def erf(x: Array) -> Array:
    """The error function."""
    result: Array = torch.erf(as_torch(x)).numpy()
    return result


def real_div(x: Array, y: Array) -> Array:
    """x / y; of integers the quotient cut towards zero, as Core ML gives an integer of it."""
    quotient = np.true_divide(x, y)
    result: Array = np.trunc(quotient) if np.issubdtype(np.asarray(x).dtype, np.integer) else quotient
    return result


def cast(x: Array, dtype: str) -> Array:
    """x in another type: floats lose their fraction in integers, and are true where they are not zero."""
    if dtype == "bool":
        return np.asarray(x != 0)
    if dtype.startswith(("int", "uint")):
        # Through int64: numpy's conversion of a negative float straight to an unsigned type is undefined.
        whole = np.trunc(x).astype(np.int64) if np.issubdtype(x.dtype, np.floating) else x
        return whole.astype(dtype)
    return x.astype(np.float32)


def log(x: Array, epsilon: Any = 1e-45) -> Array:
    """log(x + epsilon)."""
    result: Array = np.log(x + np.float32(epsilon))
    return result


def rsqrt(x: Array, epsilon: Any = 1e-12) -> Array:
    """1 / sqrt(x + epsilon)."""
    result: Array = 1 / np.sqrt(x + np.float32(epsilon))
    return result


def inverse(x: Array, epsilon: Any = 1e-4) -> Array:
    """1 / (x + epsilon)."""
    result: Array = 1 / (x + np.float32(epsilon))
    return result


def clip(x: Array, alpha: Any, beta: Any) -> Array:
    """x between alpha and beta."""
    result: Array = np.minimum(np.maximum(x, alpha), beta)
    return result


def threshold(x: Array, alpha: Any) -> Array:
    """x, but at least alpha."""
    result: Array = np.maximum(x, alpha)
    return result


def select(cond: Array, a: Array, b: Array) -> Array:
    """a where cond, else b."""
    return np.where(cond, a, b)


_UNARY: Final[Mapping[str, Callable[[Array], Any]]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "asin": np.arcsin,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "exp": np.exp,
    "exp2": np.exp2,
    "floor": np.floor,
    "identity": np.asarray,
    "logical_not": np.logical_not,
    "round": np.rint,
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
}
_BINARY: Final[Mapping[str, Callable[[Array, Array], Any]]] = {
    "add": np.add,
    "equal": np.equal,
    "floor_div": np.floor_divide,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mod": np.mod,
    "mul": np.multiply,
    "not_equal": np.not_equal,
    "pow": np.power,
    "sub": np.subtract,
}


def relu(x: Array) -> Array:
    """max(x, 0)."""
    return np.maximum(x, np.float32(0))


def relu6(x: Array) -> Array:
    """x between 0 and 6."""
    return clip(x, np.float32(0), np.float32(6))


def clamped_relu(x: Array, alpha: Any, beta: Any) -> Array:
    """min(x, beta) where x is not negative, min(alpha * x, beta) elsewhere."""
    return np.asarray(np.minimum(leaky_relu(x, alpha), beta))


def leaky_relu(x: Array, alpha: Any) -> Array:
    """x where it is not negative, alpha * x elsewhere."""
    return np.where(x >= 0, x, alpha * x)


def prelu(x: Array, alpha: Array) -> Array:
    """leaky_relu with one alpha for each channel. x: [batch, channels, ...]; alpha: [channels]."""
    return leaky_relu(x, alpha.reshape(-1, *[1] * (x.ndim - 2)))


def elu(x: Array, alpha: Any) -> Array:
    """x where it is positive, alpha * (exp(x) - 1) elsewhere."""
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def thresholded_relu(x: Array, alpha: Any) -> Array:
    """x where it is at least alpha, 0 elsewhere."""
    return np.where(x >= alpha, x, np.float32(0))


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    result: Array = torch.sigmoid(as_torch(x)).numpy()
    return result


def silu(x: Array) -> Array:
    """x * sigmoid(x)."""
    return x * sigmoid(x)


def sigmoid_hard(x: Array, alpha: Any, beta: Any) -> Array:
    """alpha * x + beta between 0 and 1."""
    return clip(alpha * x + beta, np.float32(0), np.float32(1))


def linear_activation(x: Array, alpha: Any, beta: Any) -> Array:
    """alpha * x + beta."""
    result: Array = alpha * x + beta
    return result


def scaled_tanh(x: Array, alpha: Any, beta: Any) -> Array:
    """alpha * tanh(beta * x)."""
    result: Array = alpha * np.tanh(beta * x)
    return result


def softplus(x: Array) -> Array:
    """log(1 + exp(x))."""
    result: Array = np.logaddexp(x, np.float32(0))
    return result


def softplus_parametric(x: Array, alpha: Array, beta: Array) -> Array:
    """alpha * log(1 + exp(beta * x)), one alpha and beta for each channel. x: [batch, channels, ...]."""
    shape = (-1, *[1] * (x.ndim - 2))
    return np.asarray(alpha.reshape(shape) * softplus(beta.reshape(shape) * x))


def softsign(x: Array) -> Array:
    """x / (1 + |x|)."""
    result: Array = x / (1 + np.abs(x))
    return result


def softmax(x: Array, axis: Any = -1) -> Array:
    """exp(x) over its sum along axis."""
    result: Array = torch.softmax(as_torch(x), int(axis)).numpy()
    return result


def gelu(x: Array, mode: str = "EXACT") -> Array:
    """x * Phi(x), or one of its two approximations."""
    if mode == "EXACT":
        return np.asarray(0.5 * x * (1 + erf(x * np.float32(math.sqrt(0.5)))))
    if mode == "TANH_APPROXIMATION":
        inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x**3)
        return np.asarray(0.5 * x * (1 + np.tanh(inner)))
    if mode == "SIGMOID_APPROXIMATION":
        return x * sigmoid(np.float32(1.702) * x)
    raise ValueError(f"gelu has no mode {mode!r}")


OPERATORS: Final[Mapping[str, Operator]] = {
    **{name: _unary(function) for name, function in _UNARY.items()},
    **{name: _binary(function) for name, function in _BINARY.items()},
    "cast": cast,
    "clamped_relu": clamped_relu,
    "clip": clip,
    "elu": elu,
    "erf": erf,
    "gelu": gelu,
    "inverse": inverse,
    "leaky_relu": leaky_relu,
    "linear_activation": linear_activation,
    "log": log,
    "prelu": prelu,
    "real_div": real_div,
    "relu": relu,
    "relu6": relu6,
    "rsqrt": rsqrt,
    "scaled_tanh": scaled_tanh,
    "select": select,
    "sigmoid": sigmoid,
    "sigmoid_hard": sigmoid_hard,
    "silu": silu,
    "softmax": softmax,
    "softplus": softplus,
    "softplus_parametric": softplus_parametric,
    "softsign": softsign,
    "thresholded_relu": thresholded_relu,
    "threshold": threshold,
}
