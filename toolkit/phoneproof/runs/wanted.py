"""The builds of a run: those that the plan names, and the baselines that they are compared with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from phoneproof.plan.model import Plan, PlannedBuild
from phoneproof.plan.sections import ModelSection
from phoneproof.recipes.rows import recipe_named
from phoneproof.recipes.table import Format, Recipe, RecipeOptions

BASELINE_RECIPES: Final[Mapping[Format, str]] = {Format.ONNX: "onnx-float32"}
"""The float recipe that builds of a format are compared with."""


@dataclass(frozen=True)
class WantedBuild:
    """A build to make. baseline: build_id of the float build it is compared with; None for a baseline.

    asked: whether the plan names it, or the planner added it as a baseline.
    """

    build_id: str
    model: str
    recipe: Recipe
    options: RecipeOptions
    baseline: str | None
    asked: bool


def wanted_builds(plan: Plan) -> tuple[WantedBuild, ...]:
    """The plan's builds, and before them each float baseline that the plan leaves out."""
    planned = plan.planned_builds()
    asked = {build.build_id for build in planned}
    wanted: dict[str, WantedBuild] = {}
    for build in planned:
        baseline = _baseline_of(build)
        if baseline not in wanted and baseline not in asked:
            recipe = recipe_named(BASELINE_RECIPES[build.recipe.format])
            key = model_key(build.model)
            wanted[baseline] = WantedBuild(baseline, key, recipe, RecipeOptions(), None, False)
    for build in planned:
        baseline = _baseline_of(build)
        wanted[build.build_id] = WantedBuild(
            build.build_id,
            model_key(build.model),
            build.recipe,
            build.options,
            None if build.build_id == baseline else baseline,
            True,
        )
    baselines_first = sorted(wanted.values(), key=lambda b: b.baseline is not None)
    return tuple(baselines_first)


def model_key(section: ModelSection) -> str:
    """name/format: which form of which network."""
    return f"{section.name}/{section.format.value}"


def _baseline_of(build: PlannedBuild) -> str:
    parts = [build.model.name, build.model.format.value, BASELINE_RECIPES[build.recipe.format]]
    return "/".join(parts)
