"""Running an ML program, operation by operation, in the order in which it is written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from phoneproof.runtimes.mil.operators import OPERATORS
from phoneproof.runtimes.mil.program import Binding, Block, Operation, Output, Reference
from phoneproof.runtimes.mil.types import Array, held

Values = dict[str, Any]
Hold = Callable[[Any, str], Array]
"""Makes a result of an operation a tensor of MIL's dtype; `types.held` rounds as that says."""


@dataclass(frozen=True)
class _Step:
    """One operation. blocks: its own, prepared. done_with: values that nothing reads after it."""

    operation: Operation
    blocks: tuple["PreparedBlock", ...]
    done_with: tuple[str, ...]


@dataclass(frozen=True)
class PreparedBlock:
    """A block with its constants decoded. operators: number of its operations, those of inner blocks too."""

    inputs: tuple[str, ...]
    constants: Mapping[str, Any]
    steps: tuple[_Step, ...]
    outputs: tuple[str, ...]
    operators: int


def prepare(block: Block) -> PreparedBlock:
    """Decode what is constant (const and constexpr_*) once; nothing else is computed before a run."""
    constants: Values = {}
    operations = []
    with np.errstate(all="ignore"), torch.inference_mode():
        for operation in block.operations:
            if operation.type == "const":
                constants[operation.outputs[0].name] = operation.constant
            elif operation.type.startswith("constexpr_"):
                constants.update(_results(operation, _compute(operation, constants), held))
            else:
                operations.append(operation)
    inner = [tuple(prepare(b) for b in operation.blocks) for operation in operations]
    dying = _last_uses(block, operations)
    steps = tuple(_Step(o, b, d) for o, b, d in zip(operations, inner, dying, strict=True))
    count = len(steps) + sum(b.operators for blocks in inner for b in blocks)
    used = {name for o in operations for name in _all_references(o)} | set(block.outputs)
    kept = {name: value for name, value in constants.items() if name in used}
    return PreparedBlock(tuple(i.name for i in block.inputs), kept, steps, block.outputs, count)


def run(block: PreparedBlock, inputs: Mapping[str, Array], hold: Hold = held) -> dict[str, Array]:
    """The block's outputs by name.

    hold: another than `held` rounds otherwise than the program says, to see what rounding does to it.
    ValueError naming the operation if one fails, or gives another shape than the program declares.
    """
    with np.errstate(all="ignore"), torch.inference_mode():
        values: Values = {}
        results = _run(block, values, [inputs[name] for name in block.inputs], hold)
    return dict(zip(block.outputs, results, strict=True))


def _run(block: PreparedBlock, outer: Values, arguments: Sequence[Any], hold: Hold) -> list[Any]:
    values = {**outer, **block.constants, **dict(zip(block.inputs, arguments, strict=True))}
    for step in block.steps:
        operation = step.operation
        if operation.type == "cond":
            branch = step.blocks[0] if bool(_bound(operation.parameters["pred"], values)) else step.blocks[1]
            results: Any = tuple(_run(branch, values, [], hold))
        elif operation.type == "while_loop":
            results = _loop(step, values, hold)
        else:
            results = _compute(operation, values)
        values.update(_results(operation, results, hold))
        for name in step.done_with:
            del values[name]
    return [values[name] for name in block.outputs]


def _loop(step: _Step, values: Values, hold: Hold) -> tuple[Any, ...]:
    goes_on, body = step.blocks
    state: Sequence[Any] = _bound(step.operation.parameters["loop_vars"], values)
    while bool(_run(goes_on, values, state, hold)[0]):
        state = _run(body, values, state, hold)
    return tuple(state)


def _bound(binding: Binding | tuple[Binding, ...], values: Values) -> Any:
    if isinstance(binding, tuple):
        return tuple(_bound(one, values) for one in binding)
    return values[binding.name] if isinstance(binding, Reference) else binding


def _compute(operation: Operation, values: Values) -> Any:
    arguments = {name: _bound(binding, values) for name, binding in operation.parameters.items()}
    try:
        return OPERATORS[operation.type](**arguments)
    except (ValueError, IndexError, TypeError, RuntimeError, ArithmeticError) as error:
        raise ValueError(f"{operation.type} {operation.name!r} failed: {error}") from error


def _results(operation: Operation, computed: Any, hold: Hold) -> dict[str, Array]:
    results = computed if isinstance(computed, tuple) else (computed,)
    if len(results) != len(operation.outputs):
        raise ValueError(
            f"{operation.type} {operation.name!r} gave {len(results)} results, the program declares "
            f"{len(operation.outputs)}"
        )
    return {o.name: _declared(operation, o, r, hold) for o, r in zip(operation.outputs, results, strict=True)}


def _declared(operation: Operation, output: Output, result: Any, hold: Hold) -> Array:
    """The result in the type that the program declares: this is where float16 is rounded."""
    value = hold(result, output.type.dtype)
    if not output.type.admits(value.shape):
        raise ValueError(
            f"{operation.type} {operation.name!r} gave the shape {list(value.shape)}, the program declares "
            f"{list(output.type.shape)}"
        )
    return value


def _all_references(operation: Operation) -> set[str]:
    """Names that the operation reads, in its blocks too (and some that its blocks define themselves)."""
    names = set(operation.references())
    for block in operation.blocks:
        names.update(block.outputs)
        for inner in block.operations:
            names |= _all_references(inner)
    return names


def _last_uses(block: Block, operations: list[Operation]) -> list[tuple[str, ...]]:
    """For each operation, the values made in this block that no later one reads."""
    made = {output.name for operation in operations for output in operation.outputs}
    alive = set(block.outputs)
    dying: list[tuple[str, ...]] = []
    for operation in reversed(operations):
        here = (_all_references(operation) | {o.name for o in operation.outputs}) & made
        dying.append(tuple(sorted(here - alive)))
        alive |= here
    return dying[::-1]
