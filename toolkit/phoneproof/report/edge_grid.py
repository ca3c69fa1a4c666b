"""Edge inputs against builds: which build took which input how."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from phoneproof.report.edge import EdgeInput, EdgeRange, EdgeResult
from phoneproof.report.model import Report, Result
from phoneproof.report.words import SHORT_OUTCOMES, VERDICTS
from phoneproof.verify.verdicts import Verdict

_RANGES: Final[tuple[EdgeRange, ...]] = ("in_range", "out_of_range", "not_finite")
_WORST_FIRST: Final[tuple[Verdict, ...]] = ("fail", "inconclusive", "pass")


@dataclass(frozen=True)
class GridRow:
    """How one build took the inputs of a grid, in their order; None for one that does not apply to it."""

    result: Result
    cells: tuple[EdgeResult | None, ...]


@dataclass(frozen=True)
class EdgeGrid:
    """The edge inputs of models, and the results of their builds.

    models: several where the forms of a network were given the same inputs.
    ranges: each range with the number of inputs that are of it, as they stand side by side.
    """

    models: tuple[str, ...]
    inputs: tuple[EdgeInput, ...]
    ranges: tuple[tuple[EdgeRange, int], ...]
    rows: tuple[GridRow, ...]


def edge_grids(report: Report) -> tuple[EdgeGrid, ...]:
    """The edge inputs by range, the plan's own ones last; one grid for all models that have the same."""
    models: dict[tuple[EdgeInput, ...], list[str]] = {}
    for model in dict.fromkeys(one.model for one in report.edge_inputs):
        own = (replace(one, model="") for one in report.edge_inputs if one.model == model)
        inputs = tuple(sorted(own, key=lambda one: (_RANGES.index(one.range), one.own)))
        models.setdefault(inputs, []).append(model)
    return tuple(_grid(report, inputs, tuple(same)) for inputs, same in models.items())


def _grid(report: Report, inputs: tuple[EdgeInput, ...], models: tuple[str, ...]) -> EdgeGrid:
    ranges = tuple((range_, len(list(same))) for range_, same in groupby(inputs, key=lambda one: one.range))
    rows = []
    for result in report.results:
        build_id = result.configuration.build_id
        if result.edge_results and any(is_of(model, build_id) for model in models):
            took = {one.name: one for one in result.edge_results}
            rows.append(GridRow(result, tuple(took.get(one.name) for one in inputs)))
    return EdgeGrid(models, inputs, ranges, tuple(rows))


def is_of(model: str, build_id: str) -> bool:
    """Whether a build is of a model, or of the form of one that an edge input names."""
    return build_id == model or build_id.startswith(f"{model}/")


def short_word(one: EdgeResult) -> str:
    """One word for a cell: how the case ended if it did not run through, else the verdict."""
    return VERDICTS[one.verdict].lower() if one.outcome == "passed" else SHORT_OUTCOMES[one.outcome]


def edge_troubles(report: Report) -> tuple[tuple[Result, EdgeResult], ...]:
    """What did not pass, failures first."""
    found: Iterator[tuple[Result, EdgeResult]] = (
        (result, one) for result in report.results for one in result.edge_results if one.verdict != "pass"
    )
    return tuple(sorted(found, key=lambda pair: _WORST_FIRST.index(pair[1].verdict)))
