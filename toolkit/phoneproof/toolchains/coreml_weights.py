"""Weights of an ML program in int8: which, and why the others stay in float16."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from phoneproof.builds.manifest import FloatOperator, FloatReason
from phoneproof.errors import RecipeError, ToolchainError, said
from phoneproof.runtimes.coreml_vendor import coremltools
from phoneproof.toolchains.coreml_converted import Converted, Origin

_WEIGHTS: Final[Mapping[str, tuple[str, ...]]] = {
    "conv": ("weight",),
    "conv_transpose": ("weight",),
    "linear": ("weight",),
    "matmul": ("x", "y"),
    "gather": ("x",),
}
"""Parameters that are weights, by type of operation. Other constants (positions, masks, filter banks) are
data: coremltools quantizes them as well where they are large, which nobody asked for."""

_EMBEDDINGS: Final = frozenset({"embedding", "Embedding", "GatherV2", "ResourceGather"})
"""Types of origins whose gathered table is a weight: torch's, Keras's and, without layers, TensorFlow's."""

_OVERHEAD_BYTES: Final = 128
"""Two more entries of the weight file, scales and zero points, each aligned to 64 bytes."""


@dataclass(frozen=True)
class _Weight:
    """One constant. used_by: the operations that it is a weight of."""

    name: str
    value: Any
    used_by: tuple[str, ...]


@dataclass(frozen=True)
class WeightPlan:
    """quantized: names of constants. left: operators whose weights stay in float16."""

    quantized: tuple[str, ...]
    left: tuple[FloatOperator, ...]


def plan_weights(
    converted: Converted, origins: Mapping[str, Origin], kept: frozenset[str], per_channel: bool
) -> WeightPlan:
    """Which constants become int8.

    kept: names of origins that the plan keeps in float. RecipeError where one weight belongs both to such an
    operator and to another.
    """
    quantized: list[str] = []
    left: dict[str, FloatOperator] = {}
    for weight in _weights(converted, origins):
        users = [origins.get(name, Origin(name, "const")) for name in weight.used_by]
        stays = [user.name in kept for user in users]
        if any(stays) and not all(stays):
            raise RecipeError(
                f"{users[stays.index(True)].name!r} is kept in float, and {users[stays.index(False)].name!r} "
                "is not, but they share their weights.",
                where="keep_float_names",
                next_step="Keep both in float, or neither.",
            )
        reason = _reason(weight.value, all(stays), per_channel)
        if reason is None:
            quantized.append(weight.name)
            continue
        for user in users:
            left.setdefault(user.name, FloatOperator(user.name, user.type, reason))
    return WeightPlan(tuple(quantized), tuple(left.values()))


def quantize_weights(converted: Converted, plan: WeightPlan, per_channel: bool) -> Any:
    """coremltools' model with the planned constants in int8, linear and symmetric.

    ToolchainError if the vendor fails.
    """
    coreml = coremltools.optimize.coreml
    wanted = coreml.OpLinearQuantizerConfig(
        mode="linear_symmetric",
        dtype="int8",
        granularity="per_channel" if per_channel else "per_tensor",
        weight_threshold=0,
    )
    config = coreml.OptimizationConfig(
        global_config=None, op_name_configs=dict.fromkeys(plan.quantized, wanted)
    )
    try:
        return coreml.linear_quantize_weights(converted.model, config)
    except Exception as error:  # coremltools raises all kinds
        raise ToolchainError(
            f"coremltools cannot quantize the weights: {type(error).__name__}: {said(error)}.",
            next_step="Leave the operator it names in float with keep_float_names.",
        ) from error


def _weights(converted: Converted, origins: Mapping[str, Origin]) -> list[_Weight]:
    """The float constants that are weights, in the order of the program."""
    users: dict[str, list[str]] = {}
    values: dict[str, Any] = {}
    for operation in converted.operations:
        for parameter in _WEIGHTS.get(operation.op_type, ()):
            value = operation.inputs[parameter]
            constant = getattr(value, "op", None)
            if constant is None or constant.op_type != "const" or not _is_matrix(value.val):
                continue
            origin = origins.get(operation.outputs[0].name)
            if operation.op_type == "gather" and (origin is None or origin.type not in _EMBEDDINGS):
                continue
            users.setdefault(constant.name, []).append(operation.outputs[0].name)
            values[constant.name] = value.val
    return [_Weight(name, values[name], tuple(used)) for name, used in users.items()]


def _is_matrix(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim >= 2 and np.issubdtype(value.dtype, np.floating)


def _reason(value: Any, kept: bool, per_channel: bool) -> FloatReason | None:
    if kept:
        return "kept_by_plan"
    if not np.isfinite(value).all():
        return "not_quantizable"
    # One byte less an element; a float16 scale and a zero point more for each channel.
    channels = max(value.shape) if per_channel else 1
    saved = value.size - 3 * channels - _OVERHEAD_BYTES
    return None if saved > 0 else "too_small"
