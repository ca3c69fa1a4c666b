"""build.json: the facts of one build, in the folder beside its model file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.table import RecipeOptions, TargetFloor

MANIFEST_FILE: Final = "build.json"
MANIFEST_VERSION: Final = 1

FloatReason = Literal[
    "kept_by_plan",
    "not_quantizable",
    "inputs_not_quantized",
    "outputs_not_quantized",
    "data_movement",
    "unsafe_to_quantize",
]


@dataclass(frozen=True)
class FloatOperator:
    """An operator that computes in float in an int8 build, and why.

    unsafe_to_quantize: the vendor's quantizer would change what it computes.
    """

    name: str
    type: str
    reason: FloatReason


@dataclass(frozen=True)
class BuildManifest:
    """What a toolchain made.

    model_file: name of the model file in the build's folder.
    sha256: of the model file; a directory is hashed over its sorted (path, sha256) list.
    calibration_sha256: digest of the calibration set; None where the recipe uses none.
    operators: number of operators by the dtype they compute in.
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
