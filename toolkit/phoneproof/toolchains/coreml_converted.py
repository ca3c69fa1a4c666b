"""What coremltools is asked and what it gives, whatever it converts from.

What its converter does without a word, and what is done about it:

- It loads TensorFlow and torch where they are installed, which ends the process: runtimes/coreml_vendor.py.
- Its pass int_op_canonicalization moves a reshape between a dequantize and a quantize of another scale to the
  integers, which then have the wrong scale (coremltools 9.0: SQNR of -6 dB for pool, flatten, linear). The
  pass only saves two operations around a reshape; it is left out of every conversion.
- It makes constants beyond float16 infinite: coreml_precision.py.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from phoneproof.errors import RecipeError, ToolchainError, said
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.table import Precision
from phoneproof.runtimes.coreml_vendor import coremltools
from phoneproof.toolchains.coreml_precision import float16_where_it_holds

MISCOMPILING: Final = "common::int_op_canonicalization"

_IO_DTYPES: Final = {
    "float16": np.float32,
    "float32": np.float32,
    "float64": np.float32,
    "int32": np.int32,
    "int64": np.int32,
    "bool": np.int32,
}
"""What Core ML takes and gives for each dtype of the source. A bool, which it does not have, is 0 or 1."""

_UNSUPPORTED: Final = re.compile(r"Unsupported fx node (\S+), kind (\S+)")


@dataclass(frozen=True)
class Origin:
    """The operator of the source that an operation computes. name, type: as a plan would name them."""

    name: str
    type: str


@dataclass(frozen=True)
class Converted:
    """model: coremltools' MLModel. origins: by an operation's first output, the source's node it came from.

    Operations that the converter's passes made of several nodes have the origin of one of them; those that
    they added, such as casts, may have none.
    """

    model: Any
    origins: Mapping[str, str]

    @property
    def operations(self) -> Sequence[Any]:
        """The operations of its only function, in order."""
        return list(self.model._mil_program.functions["main"].operations)


@dataclass(frozen=True)
class Conversion:
    """How to convert. precision: FLOAT32, or any other for float16 between float32 inputs and outputs.

    target: as iOS17. keep_pass: convert with MISCOMPILING, to show what it does.
    """

    precision: Precision
    target: str
    keep_pass: bool = False


def converted(
    source: Any,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    conversion: Conversion,
) -> Any:
    """coremltools' MLModel of `source`: an ExportedProgram, or a list of one ConcreteFunction.

    inputs, outputs: as the source takes and gives them, for torch with the names that the package is to have.
    ToolchainError if the vendor fails.
    """
    pipeline = coremltools.PassPipeline()
    if not conversion.keep_pass:
        pipeline.remove_passes({MISCOMPILING})
    wide = conversion.precision is Precision.FLOAT32
    types = coremltools.TensorType
    try:
        return coremltools.convert(
            source,
            convert_to="mlprogram",
            inputs=[types(name=one.name, shape=one.shape, dtype=_IO_DTYPES[one.dtype]) for one in inputs],
            outputs=[types(name=one.name, dtype=_IO_DTYPES[one.dtype]) for one in outputs],
            minimum_deployment_target=getattr(coremltools.target, conversion.target),
            compute_precision=coremltools.precision.FLOAT32 if wide else float16_where_it_holds(),
            pass_pipeline=pipeline,
            skip_model_load=True,
        )
    except Exception as error:  # coremltools raises all kinds
        raise _translated(error, conversion.target) from error


def refuse_dtypes(specs: Sequence[TensorSpec]) -> None:
    """RecipeError for inputs and outputs of a dtype that an ML program cannot take or give."""
    for spec in specs:
        if spec.dtype not in _IO_DTYPES:
            raise RecipeError(
                f"Core ML has no inputs and outputs of {spec.dtype}.",
                where=spec.name,
                next_step=f"Let the model take and give one of {', '.join(_IO_DTYPES)}.",
            )


def feature_names(names: Sequence[str]) -> list[str]:
    """Names as Core ML takes them, [A-Za-z_][A-Za-z0-9_]*, each once."""
    found: list[str] = []
    for name in names:
        plain = identifier(name)
        unique, count = plain, 2
        while unique in found:
            unique, count = f"{plain}_{count}", count + 1
        found.append(unique)
    return found


def identifier(name: str) -> str:
    """The name with an underscore for all that Core ML does not take in one."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"_{plain}" if not plain or plain[0].isdigit() else plain


def _translated(error: Exception, target: str) -> ToolchainError:
    missing = _UNSUPPORTED.match(str(error))
    if missing is not None:
        node, kind = missing.groups()
        return ToolchainError(
            f"coremltools cannot convert the operator {kind!r} ({node}).",
            next_step="Write that part of the module with other operators, or leave the Core ML builds out.",
            operator=kind,
        )
    return ToolchainError(
        f"coremltools cannot convert the model: {type(error).__name__}: {said(error)}.",
        next_step=f"Its log tells where. A newer deployment target than {target} has more operators.",
    )
