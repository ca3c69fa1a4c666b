"""build.json: the facts of one build, in the folder beside its model file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from phoneproof.protocol.job import FileRef
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.table import Precision, RecipeOptions, TargetFloor

MANIFEST_FILE: Final = "build.json"
MANIFEST_VERSION: Final = 1
WIDE_LISTED: Final = 20

FloatReason = Literal[
    "kept_by_plan",
    "not_quantizable",
    "inputs_not_quantized",
    "outputs_not_quantized",
    "data_movement",
    "unsafe_to_quantize",
    "unsupported_by_recipe",
    "too_small",
    "as_made",
]


@dataclass(frozen=True)
class FloatOperator:
    """An operator that computes in float in an int8 build, and why.

    unsafe_to_quantize: the vendor's quantizer would change what it computes. unsupported_by_recipe: it could
    be quantized, but this recipe leaves operators of its type in float. as_made: the build was made elsewhere
    and does not say why.
    """

    name: str
    type: str
    reason: FloatReason


@dataclass(frozen=True)
class WideTensor:
    """A constant that is stored in a wider type than the recipe is for."""

    name: str
    dtype: str
    size_bytes: int


@dataclass(frozen=True)
class BuildManifest:
    """What a toolchain made, or what a build made elsewhere was found to be.

    recipe: name of the recipe; of a build made elsewhere `FORMAT-file`. precision: as recipes/table.py.
    model_file: name of the model file, or folder, in the build's folder.
    sha256: of the model file; a directory is hashed over its sorted (path, sha256) list (builds/model_files).
    files: of a model that is a folder, its files with names relative to the build's folder; else empty.
    calibration_sha256: digest of the calibration set; None where the recipe uses none.
    inputs, outputs: as the build names them, in the order in which its runtime takes and gives them.
    source_names: the source model's name of each input and output that the build calls otherwise.
    operators: number of operators by the dtype they compute in.
    wide_tensors: constants that are wider than the recipe is for, the largest first, at most WIDE_LISTED.
    not_delegated: number of operators by type that no delegate took when the build was made; None where
    the format knows no delegation before run time.
    """

    version: int
    recipe: str
    options: RecipeOptions
    format: str
    model_file: str
    sha256: str
    size_bytes: int
    source_sha256: str
    calibration_sha256: str | None
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    operators: Mapping[str, int]
    float_operators: tuple[FloatOperator, ...]
    floor: TargetFloor
    tool_versions: Mapping[str, str]
    toolchain: str
    toolchain_revision: int
    precision: Precision
    files: tuple[FileRef, ...] = ()
    source_names: Mapping[str, str] = field(default_factory=dict)
    wide_tensors: tuple[WideTensor, ...] = ()
    not_delegated: Mapping[str, int] | None = None


def source_named(tensors: Sequence[TensorSpec], names: Mapping[str, str]) -> tuple[TensorSpec, ...]:
    """The tensors of a build under the names of the source model."""
    return tuple(replace(tensor, name=names.get(tensor.name, tensor.name)) for tensor in tensors)
