"""Fixing the open axes of a source model: the first is the batch and becomes 1, others take the plan's."""

import difflib
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

from phoneproof.errors import SourceModelError

PLAN_KEY: Final = "[[models]] shapes"


def refuse_batch(
    inputs: Iterable[tuple[str, Sequence[int | None]]], place: str, given: Container[str] = ()
) -> None:
    """SourceModelError for an input whose first axis, the batch, is above 1: samples are run one by one.

    inputs: name and shape of each; None is a length that is left open. given: names of the inputs whose whole
    shape the plan gives: it says so that the first axis is no batch.
    """
    for name, shape in inputs:
        batch = shape[0] if shape else None
        if batch is not None and batch > 1 and name not in given:
            raise SourceModelError(
                f"The first axis of the input has length {batch}; a batch has 1, as samples run one by one.",
                where=f"{place}: input {name!r}",
                next_step="Export the model with a batch of 1 or a dynamic first axis. If this axis is no "
                f"batch, give the input's whole shape in {PLAN_KEY}.",
            )


def open_inputs(
    declared: Iterable[tuple[str, Sequence[int | None]]],
) -> Mapping[str, tuple[int | None, ...]]:
    """The shapes, by name, of the inputs among `declared` that leave a length open."""
    return {name: tuple(shape) for name, shape in declared if None in shape}


def refuse_unknown_inputs(shapes: Iterable[str], known: Sequence[str], place: str) -> None:
    """SourceModelError for a name among the plan's `shapes` that no input has."""
    for name in shapes:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
            raise SourceModelError(
                f"{PLAN_KEY} names {name[:80]!r}, which is not an input of the model.",
                where=place,
                next_step=f"The nearest input is {near[0]!r}." if near else None,
                inputs=tuple(known),
            )


def refuse_rank(wanted: Sequence[int] | None, rank: int, where: str) -> None:
    """SourceModelError where the plan's shape has another number of axes than the input."""
    if wanted is not None and len(wanted) != rank:
        raise SourceModelError(
            f"{PLAN_KEY} must give all {rank} axes of the input.",
            where=where,
            next_step=f"Set its whole shape, batch included, in {PLAN_KEY}.",
        )


def fixed_length(index: int, label: str, known: int | None, wanted: int | None, where: str) -> int:
    """Length of axis `index`.

    label: the source's own name of the axis. known: its length in the source, None where it is open.
    wanted: its length in the plan, None where the plan gives none. SourceModelError where neither says it,
    or they contradict each other.
    """
    length = known
    if index == 0 and known is None and wanted not in (None, 1):
        raise SourceModelError(
            f"The first axis is open, so it is the batch, and {wanted} is asked for; samples run one by one.",
            where=where,
            next_step=f"Set 1 for it in {PLAN_KEY}.",
        )
    if length is None:
        length = wanted if wanted is not None else (1 if index == 0 else None)
    if length is None:
        raise SourceModelError(
            f"Axis {index} ({label}) has no fixed length.",
            where=where,
            next_step=f"Set the input's shape in {PLAN_KEY}.",
        )
    if length < 1 or (wanted is not None and wanted != length):
        raise SourceModelError(
            f"Axis {index} ({label}) has length {length}, but {wanted} is asked for."
            if length > 0
            else f"Axis {index} ({label}) has length {length}.",
            where=where,
            next_step=f"Correct {PLAN_KEY}, or export the model with a dynamic axis.",
        )
    return length
