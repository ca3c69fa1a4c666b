"""Operators that builds name, checked against the source model as soon as that was inspected."""

import re
from collections.abc import Iterator
from typing import Final

from phoneproof.builds.source_facts import OperatorNames, SourceFacts
from phoneproof.errors import RecipeError, SeveralErrors
from phoneproof.plan.model import Plan, PlannedBuild
from phoneproof.plan.model_section import ModelSection
from phoneproof.recipes.selection import UnknownWord, unknown_words
from phoneproof.recipes.table import SourceFormat

_OWN_NAMES: Final = frozenset({"torch-qnnpack"})
"""Toolchains that name operators otherwise than the inspection: torch.fx traces the module anew."""

_TFLITE: Final = "tflite"
"""Operators of a TFLite file have TFLite's types, and names that the converter puts together as well."""


def check_selection(plan: Plan, section: ModelSection, facts: SourceFacts) -> None:
    """RecipeError, or SeveralErrors, where builds name operators or types that the source does not have.

    What only a toolchain can know is left to it: the nodes of an ONNX model that the source is exported to,
    those that torch.fx traces, and what TFLite's converter calls its results.
    """
    if facts.called is None:
        return
    called = facts.called
    errors = [
        error
        for place, build in enumerate(plan.planned_builds())
        if build.model == section
        for error in _unknown(plan, place, build, called)
    ]
    if len(errors) > 1:
        raise SeveralErrors(errors)
    if errors:
        raise errors[0]


def _unknown(plan: Plan, place: int, build: PlannedBuild, called: OperatorNames) -> Iterator[RecipeError]:
    route = build.route
    if build.file is not None or route is None:
        return
    if route.toolchain in _OWN_NAMES or route.through is SourceFormat.ONNX:
        return
    for unknown in unknown_words(called.names, called.types, build.options):
        if route.toolchain != _TFLITE or not _may_be_tflites(unknown, called):
            where = plan.where("builds", place, unknown.key)
            yield RecipeError(unknown.what, where=where, next_step=unknown.next_step)


def _may_be_tflites(unknown: UnknownWord, called: OperatorNames) -> bool:
    """Whether the converter may have made the word: CONV_2D, scope/MatMul;scope/BiasAdd, MatMul1."""
    if unknown.key.endswith("types"):
        return re.fullmatch(r"[A-Z0-9_]+", unknown.word) is not None
    return re.fullmatch(r"[\w-]+", unknown.word) is None or unknown.word.rstrip("0123456789") in called.names
