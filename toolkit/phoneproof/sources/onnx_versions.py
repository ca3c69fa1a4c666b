"""Which ONNX versions a build may have, so that runtimes already on phones and in distributions load it."""

from typing import Any, Final

import onnx

from phoneproof.errors import RecipeError, ToolchainError
from phoneproof.recipes.table import TargetFloor

LEAST_OPSET: Final = 13
"""Per-channel QuantizeLinear and DequantizeLinear (attribute axis) came with opset 13."""

GREATEST_OPSET: Final = 22
GREATEST_IR: Final = 10

_RUNTIME_OF_OPSET: Final = ((20, "1.17.0"), (21, "1.18.0"), (22, "1.21.0"))
"""First ONNX Runtime that implements an opset (its compatibility table); 1.17.0 is the least we support."""

_IR_OF_OPSET: Final = ((14, 7), (18, 8), (20, 9), (22, 10))
"""IR version that came with the ONNX release of an opset (onnx/docs/Versioning.md)."""


def opset_of(model: Any) -> int:
    """Version of the standard operators that the model uses."""
    return max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)


def refuse_newer_opset(model: Any, place: str) -> None:
    """RecipeError where the model's opset is above GREATEST_OPSET: no build can be made of it.

    A conversion down would drop what only the newer opset can say.
    """
    opset = opset_of(model)
    if opset > GREATEST_OPSET:
        raise RecipeError(
            f"The source model has ONNX opset {opset}; builds have at most {GREATEST_OPSET}, "
            "which runtimes on phones load.",
            where=place,
            next_step=f"Export the model with opset_version={GREATEST_OPSET} or lower.",
        )


def within_target(model: Any, place: str) -> Any:
    """A copy of the model with LEAST_OPSET ≤ opset ≤ GREATEST_OPSET and IR ≤ GREATEST_IR.

    An older opset is converted up, a newer one refused by `refuse_newer_opset`. A newer IR is only a number
    where the opset is within the limit, and is lowered.
    Raises RecipeError (opset too new) or ToolchainError (ONNX's converter fails).
    """
    refuse_newer_opset(model, place)
    opset = opset_of(model)
    if opset < LEAST_OPSET:
        model = _converted(model, opset, place)
    else:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        model = copy
    least_ir = next(ir for greatest, ir in _IR_OF_OPSET if opset_of(model) <= greatest)
    model.ir_version = min(max(model.ir_version, least_ir), GREATEST_IR)
    return model


def floor_of(model: Any) -> TargetFloor:
    """What a device must have to load this model."""
    opset = opset_of(model)
    runtime = next(version for greatest, version in _RUNTIME_OF_OPSET if opset <= greatest)
    return TargetFloor(onnx_opset=opset, onnx_ir=model.ir_version, runtime_version=runtime)


def _converted(model: Any, opset: int, place: str) -> Any:
    from onnx import version_converter

    try:
        converted = version_converter.convert_version(model, LEAST_OPSET)
    except Exception as error:  # the converter raises RuntimeError, ValueError and its own class
        raise ToolchainError(
            f"ONNX cannot convert the model from opset {opset} to {LEAST_OPSET}.",
            where=place,
            next_step=f"Export the model with opset_version={LEAST_OPSET} or higher.",
            cause=str(error).strip()[:400],
        ) from error
    return onnx.shape_inference.infer_shapes(converted, data_prop=True)
