"""Inspects a .tflite file that was made elsewhere."""

from pathlib import Path

from phoneproof.builds.manifest import FloatOperator
from phoneproof.errors import BuildFileError
from phoneproof.protocol.tensors import DTYPE_SIZES, TensorSpec
from phoneproof.recipes.table import Precision, TargetFloor
from phoneproof.toolchains.inspected import Inspected
from phoneproof.toolchains.tflite_file import (
    TfliteTensor,
    float_operators,
    operator_counts,
    precision_of,
    read_tflite,
    wide_tensors,
)


def inspect_tflite(path: Path) -> Inspected:
    """The facts of the file.

    BuildFileError if it is damaged, has operators that are no builtin ones, or takes or gives tensors of a
    dtype that no build has.
    """
    file = read_tflite(path)
    custom = sorted({one.type for one in file.operators if one.is_custom})
    if custom:
        raise BuildFileError(
            f"The build has operators that are no builtin ones of LiteRT: {', '.join(custom[:8])}.",
            where=str(path),
            next_step="Convert it with builtin operators only (TFLITE_BUILTINS, without Flex).",
            operators=tuple(custom),
        )
    precision = precision_of(file)
    is_quantized = precision in (Precision.INT8, Precision.INT16X8)
    left = float_operators(file) if is_quantized else ()
    return Inspected(
        inputs=_specs(path, file.input_names, file.inputs),
        outputs=_specs(path, file.output_names, file.outputs),
        precision=precision,
        operators=operator_counts(file),
        float_operators=tuple(FloatOperator(one.name, one.type, "as_made") for one in left),
        floor=TargetFloor(runtime_version=file.runtime_version),
        wide_tensors=wide_tensors(file, precision),
    )


def _specs(path: Path, names: tuple[str, ...], tensors: tuple[TfliteTensor, ...]) -> tuple[TensorSpec, ...]:
    return tuple(_spec(path, name, tensor) for name, tensor in zip(names, tensors, strict=True))


def _spec(path: Path, name: str, tensor: TfliteTensor) -> TensorSpec:
    if tensor.dtype not in DTYPE_SIZES:
        raise BuildFileError(
            f"The tensor {name!r} has the dtype {tensor.dtype}, which no runtime here takes.",
            where=str(path),
            next_step="Convert the model with numeric inputs and outputs.",
        )
    if len(tensor.scales) != 1:
        return TensorSpec(name, tensor.dtype, tensor.signature)
    zero_point = tensor.zero_points[0] if tensor.zero_points else 0
    return TensorSpec(name, tensor.dtype, tensor.signature, tensor.scales[0], zero_point)
