"""What an inspector of one format finds in a build that was made elsewhere."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from phoneproof.builds.manifest import FloatOperator, WideTensor
from phoneproof.errors import said
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.table import Precision, TargetFloor


@dataclass(frozen=True)
class Inspected:
    """See BuildManifest. Shapes have OPEN (build_names) where the file leaves a length to the runtime.

    open_outputs: names of the outputs whose shape, rank included, only a run tells.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    precision: Precision
    operators: Mapping[str, int]
    float_operators: tuple[FloatOperator, ...]
    floor: TargetFloor
    wide_tensors: tuple[WideTensor, ...]
    not_delegated: Mapping[str, int] | None = None
    open_outputs: frozenset[str] = field(default_factory=frozenset)


def what_is_damaged(error: BaseException) -> str:
    """What a reader of flatbuffers met in a damaged file, as the end of a sentence."""
    if isinstance(error, (struct.error, IndexError)):
        return "it points to content beyond its end"
    return said(error)
