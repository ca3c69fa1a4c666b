"""Inspects a .mlpackage folder that was made elsewhere."""

from pathlib import Path

from phoneproof.builds.manifest import FloatOperator
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.table import Precision, TargetFloor
from phoneproof.toolchains.build_names import OPEN
from phoneproof.toolchains.inspected import Inspected
from phoneproof.toolchains.mlpackage_file import (
    MlFeature,
    float_operators,
    operator_counts,
    precision_of,
    read_mlpackage,
    wide_tensors,
)


def inspect_mlpackage(path: Path) -> Inspected:
    """The facts of the package. BuildFileError if it is damaged or no ML program of tensors."""
    file = read_mlpackage(path)
    precision = precision_of(file)
    left = float_operators(file) if precision is Precision.INT8 else ()
    return Inspected(
        inputs=tuple(_spec(one) for one in file.inputs),
        outputs=tuple(_spec(one) for one in file.outputs),
        precision=precision,
        operators=operator_counts(file),
        float_operators=tuple(FloatOperator(one.name, one.type, "as_made") for one in left),
        floor=TargetFloor(deployment_target=file.deployment_target),
        wide_tensors=wide_tensors(file, precision),
        open_outputs=frozenset(one.name for one in file.outputs if one.shape is None),
    )


def _spec(feature: MlFeature) -> TensorSpec:
    lengths = enumerate(feature.shape or ())
    shape = tuple(OPEN if axis in feature.flexible else length for axis, length in lengths)
    return TensorSpec(feature.name, feature.dtype, shape)
