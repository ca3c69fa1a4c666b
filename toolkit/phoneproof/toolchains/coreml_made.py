"""The facts of a Core ML package for its build.json."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from phoneproof.builds.manifest import FloatOperator
from phoneproof.errors import ToolchainError
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.table import Precision, Recipe, TargetFloor
from phoneproof.toolchains.mlpackage_file import MlFeature, operator_counts, read_mlpackage, wide_tensors
from phoneproof.toolchains.result import Made, widest


class Source(Protocol):
    """What was converted."""

    @property
    def path(self) -> Path:
        """Where it lies."""

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """In the order in which it takes them."""

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """In the order in which it gives them."""


def made_of(
    package: Path,
    source: Source,
    recipe: Recipe,
    left: tuple[FloatOperator, ...] = (),
    kept_in_int8: tuple[str, ...] = (),
) -> Made:
    """The package as it was written. left, kept_in_int8: see Made."""
    file = read_mlpackage(package)
    inputs = _specs(file.inputs, source.inputs, package)
    outputs = _specs(file.outputs, source.outputs, package)
    pairs = zip((*inputs, *outputs), (*source.inputs, *source.outputs), strict=True)
    return Made(
        package.name,
        inputs,
        outputs,
        operator_counts(file),
        left,
        kept_in_int8,
        floor=TargetFloor(deployment_target=file.deployment_target),
        source_names={made.name: spec.name for made, spec in pairs if made.name != spec.name},
        wide_tensors=widest(wide_tensors(file, Precision.INT8)) if recipe.is_quantized else (),
    )


def nothing_quantized(recipe: Recipe, source: Path) -> ToolchainError:
    """The error of a quantized build in which nothing is int8."""
    return ToolchainError(
        f"{recipe.name} left every operator in float.",
        where=str(source),
        next_step="Check keep_float_names and keep_float_types; a model without large convolutions or matrix "
        "products has nothing to quantize.",
    )


def _specs(
    features: Sequence[MlFeature], sources: Sequence[TensorSpec], package: Path
) -> tuple[TensorSpec, ...]:
    """Inputs or outputs of the package, which come in the order of the source's and in its shapes."""
    if len({feature.name for feature in features}) != len(sources):
        raise ToolchainError(
            f"The package has {len(features)} inputs or outputs where the source has {len(sources)}.",
            where=str(package),
            next_step="Let the model give each tensor once.",
        )
    return tuple(
        TensorSpec(feature.name, feature.dtype, source.shape)
        for feature, source in zip(features, sources, strict=True)
    )
