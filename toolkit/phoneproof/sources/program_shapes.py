"""Fixing the dynamic axes of an exported program."""

from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, TensorArgument
from torch.utils import _pytree as pytree

from phoneproof.errors import SourceModelError, said
from phoneproof.sources.axes import PLAN_KEY, fixed_length, refuse_batch, refuse_rank, refuse_unknown_inputs


def fixed(program: ExportedProgram, shapes: Mapping[str, tuple[int, ...]], place: str) -> ExportedProgram:
    """The program with every axis of every input fixed; itself where all are.

    shapes: input name to shape, batch included. Raises SourceModelError as `load_program` says.
    """
    found = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    users = [spec for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    tensors: dict[str, Any] = {
        s.arg.name: found[s.arg.name] for s in users if isinstance(s.arg, TensorArgument)
    }
    refuse_unknown_inputs(shapes, list(tensors), place)
    bound: dict[Any, int] = {}
    lengths = {name: _lengths(name, value, shapes.get(name), bound, place) for name, value in tensors.items()}
    refuse_batch(lengths.items(), place, shapes)
    if all(isinstance(length, int) for value in tensors.values() for length in value.shape):
        return program
    _refuse_out_of_range(program, bound, place)
    leaves = [_leaf(spec, tensors, lengths, place) for spec in users]
    args, kwargs = pytree.tree_unflatten(leaves, program.call_spec.in_spec)
    return _exported_again(program, args, kwargs, place)


def _lengths(
    name: str, value: Any, wanted: tuple[int, ...] | None, bound: dict[Any, int], place: str
) -> tuple[int, ...]:
    """Fixed lengths of one input's axes; symbols met first here are bound to theirs."""
    where = f"{place}: input {name!r}"
    refuse_rank(wanted, len(value.shape), where)
    lengths = []
    for index, axis in enumerate(value.shape):
        asked = None if wanted is None else wanted[index]
        if isinstance(axis, int):
            lengths.append(fixed_length(index, "fixed", axis, asked, where))
            continue
        expression = axis.node.expr.subs(bound)
        known = int(expression) if expression.is_integer and expression.is_number else None
        length = fixed_length(index, "dynamic", known, asked, where)
        if axis.node.expr.is_symbol:
            bound[axis.node.expr] = length
        lengths.append(length)
    return tuple(lengths)


def _refuse_out_of_range(program: ExportedProgram, bound: Mapping[Any, int], place: str) -> None:
    for symbol, limits in program.range_constraints.items():
        length = bound.get(symbol)
        if length is not None and not limits.lower <= length <= limits.upper:
            raise SourceModelError(
                f"A dynamic axis has lengths from {limits.lower} to {limits.upper}, not {length}.",
                where=place,
                next_step=f"Correct {PLAN_KEY}, or export the model with this length (the batch is 1).",
            )


def _leaf(spec: Any, tensors: Mapping[str, Any], lengths: Mapping[str, tuple[int, ...]], place: str) -> Any:
    if isinstance(spec.arg, ConstantArgument):
        return spec.arg.value
    if not isinstance(spec.arg, TensorArgument):
        raise SourceModelError(
            f"The input {spec.arg.name!r} of the program is no tensor.",
            where=place,
            next_step="Export the model with this argument as a constant.",
        )
    return torch.zeros(lengths[spec.arg.name], dtype=tensors[spec.arg.name].dtype)


def _exported_again(program: ExportedProgram, args: Any, kwargs: Any, place: str) -> ExportedProgram:
    try:
        return torch.export.export(program.module(), args, kwargs)
    except Exception as error:  # torch.export raises errors of its own, of its guards and of the operators
        raise SourceModelError(
            f"The program does not take these lengths: {said(error)}.",
            where=place,
            next_step=f"Correct {PLAN_KEY}, or export the model with fixed axes.",
        ) from error
