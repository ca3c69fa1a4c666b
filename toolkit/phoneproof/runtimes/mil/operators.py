"""The table of operators: each a function of MIL's parameters, by name."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from phoneproof.runtimes.mil import (
    operators_elementwise,
    operators_index,
    operators_linear,
    operators_quantization,
    operators_recurrent,
    operators_reduction,
    operators_resize,
    operators_shape,
)

OPERATORS: Final[Mapping[str, Callable[..., Any]]] = {
    **operators_elementwise.OPERATORS,
    **operators_index.OPERATORS,
    **operators_linear.OPERATORS,
    **operators_quantization.OPERATORS,
    **operators_recurrent.OPERATORS,
    **operators_reduction.OPERATORS,
    **operators_resize.OPERATORS,
    **operators_shape.OPERATORS,
}
"""Left out on purpose: random_* (no two runs agree), lists and states, and crop_resize, of which MIL does not
say where two of its sampling modes sample."""

CONTROL_FLOW: Final[Mapping[str, frozenset[str]]] = {
    "cond": frozenset({"pred"}),
    "const": frozenset(),
    "while_loop": frozenset({"loop_vars"}),
}
"""Operators that the interpreter itself carries out, and their parameters."""

KNOWN: Final[Mapping[str, frozenset[str]]] = {
    **CONTROL_FLOW,
    **{name: frozenset(inspect.signature(f).parameters) for name, f in OPERATORS.items()},
}
"""Parameters of every operator. One that is not here is not interpreted, and is never passed over."""
