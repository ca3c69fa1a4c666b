"""Which operations of a float16 program stay in float32: those that float16 cannot hold.

coremltools makes a constant above 65504 infinite without a word, and a row of attention scores that is masked
throughout by -1e9 then gives NaN, where float32 gives equal weights.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from phoneproof.runtimes.coreml_vendor import coremltools

_GREATEST: Final = 65504.0
_CARRIES: Final = frozenset(
    {"add", "sub", "mul", "select", "maximum", "minimum", "softmax", "cast", "neg", "concat"}
    | {"reshape", "transpose", "expand_dims", "squeeze", "tile", "slice_by_index", "gather"}
)
"""Operations whose result can be as large as what goes in; softmax, whose result is small, ends it."""


def float16_where_it_holds() -> Any:
    """coremltools' compute precision for float16 builds."""
    return coremltools.transform.FP16ComputePrecision(op_selector=_selector())


def _selector() -> Callable[[Any], bool]:
    known: dict[Any, bool] = {}

    def is_wide(operation: Any) -> bool:
        if operation not in known:
            known[operation] = False  # against a loop, which programs without blocks do not have
            known[operation] = _has_large_constant(operation) or (
                operation.op_type in _CARRIES
                and any(before.op_type != "softmax" and is_wide(before) for before in _before(operation))
            )
        return known[operation]

    return lambda operation: not is_wide(operation)


def _before(operation: Any) -> list[Any]:
    return [value.op for value in _inputs(operation) if value.op is not None and value.op.op_type != "const"]


def _has_large_constant(operation: Any) -> bool:
    return any(_is_large(value.val) for value in _inputs(operation) if value.val is not None)


def _is_large(value: Any) -> bool:
    array = np.asarray(value)
    if array.dtype.kind != "f" or array.size == 0:
        return False
    finite = array[np.isfinite(array)]
    return bool(finite.size) and float(np.abs(finite).max()) > _GREATEST


def _inputs(operation: Any) -> list[Any]:
    found = []
    for given in operation.inputs.values():
        found += [one for one in (given if isinstance(given, list | tuple) else (given,)) if one is not None]
    return found
