"""Inspects a .pte file that was made elsewhere."""

from pathlib import Path
from typing import Final

from phoneproof.builds.manifest import FloatOperator
from phoneproof.errors import BuildFileError
from phoneproof.protocol.tensors import DTYPE_SIZES, TensorSpec
from phoneproof.recipes.table import Precision, TargetFloor
from phoneproof.toolchains.build_names import OPEN
from phoneproof.toolchains.inspected import Inspected
from phoneproof.toolchains.pte_file import (
    PteFile,
    PteTensor,
    float_operators,
    not_delegated,
    operator_counts,
    precision_of,
    read_pte,
    wide_tensors,
)
from phoneproof.toolchains.xnnpack_graph import XNNPACK

_LEAST_RUNTIME: Final = "1.0.0"
"""A program of identifier ET12 loads in every ExecuTorch from 1.0 on; nothing in it names a version."""


def inspect_pte(path: Path) -> Inspected:
    """The facts of the program.

    Names are input_0 and so on: the format has none. BuildFileError if it is damaged, or holds parts for a
    delegate that this host cannot run.
    """
    file = read_pte(path)
    foreign = sorted(set(file.delegates) - {XNNPACK})
    if foreign:
        raise BuildFileError(
            f"The program has parts for {', '.join(foreign)}, which this host cannot run.",
            where=str(path),
            next_step=f"Lower it to {XNNPACK} or to no delegate.",
            delegates=tuple(foreign),
        )
    precision = precision_of(file)
    left = float_operators(file) if precision is Precision.INT8 else ()
    return Inspected(
        inputs=tuple(_spec(path, one, file) for one in file.inputs),
        outputs=tuple(_spec(path, one, file) for one in file.outputs),
        precision=precision,
        operators=operator_counts(file),
        float_operators=tuple(FloatOperator(one.name, one.type, "as_made") for one in left),
        floor=TargetFloor(runtime_version=_LEAST_RUNTIME),
        wide_tensors=wide_tensors(file, precision),
        not_delegated=not_delegated(file),
    )


def _spec(path: Path, tensor: PteTensor, file: PteFile) -> TensorSpec:
    if tensor.dtype not in DTYPE_SIZES:
        raise BuildFileError(
            f"{tensor.name} has the dtype {tensor.dtype}, which no runtime here takes.",
            where=str(path),
            next_step="Export the model with float32 or integer inputs and outputs.",
        )
    # A dynamic shape is the greatest; which of its axes vary is not told.
    shape = tuple(OPEN for _ in tensor.shape) if tensor.is_dynamic else tensor.shape
    return TensorSpec(tensor.name, tensor.dtype, shape)
