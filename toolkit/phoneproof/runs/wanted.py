"""The builds of a run: those that the plan names, and the baselines that they are compared with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from phoneproof.plan.model import Plan, PlannedBuild
from phoneproof.recipes.rows import BASELINE_RECIPES, RECIPES
from phoneproof.recipes.runtime_table import RuntimeRow, runtime_on_host
from phoneproof.recipes.table import Recipe, RecipeOptions, Route


@dataclass(frozen=True)
class WantedBuild:
    """A build to make, or a file to judge.

    model: key of the source model's form. route: None for a file. baseline: build_id of the float build it
    is compared with; None for a baseline, and where there is none. asked: whether the plan names it, or the
    planner added it as a baseline. file: a build that was made elsewhere; names: see PlannedBuild.
    """

    build_id: str
    model: str
    recipe: Recipe
    route: Route | None
    options: RecipeOptions
    baseline: str | None
    is_baseline: bool
    asked: bool
    file: Path | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def toolchain(self) -> str:
        """The toolchain that makes it; for a file, that of the runtime, whose packages can read it."""
        return self.runtime.toolchain if self.route is None else self.route.toolchain

    @property
    def runtime(self) -> RuntimeRow:
        """What runs it on this host."""
        return runtime_on_host(self.recipe.runtime)


def wanted_builds(plan: Plan) -> tuple[WantedBuild, ...]:
    """The plan's builds, and before them each float baseline that the plan leaves out."""
    planned = plan.planned_builds()
    asked = {build.build_id for build in planned}
    wanted: dict[str, WantedBuild] = {}
    for build in planned:
        baseline = _baseline_of(build)
        if baseline is not None and baseline not in wanted and baseline not in asked:
            wanted[baseline] = _added(build, baseline)
    for build in planned:
        baseline = _baseline_of(build)
        is_baseline = build.build_id == baseline
        wanted[build.build_id] = WantedBuild(
            build.build_id,
            build.model.key,
            build.recipe,
            build.route,
            build.options,
            None if is_baseline else baseline,
            is_baseline,
            True,
            None if build.file is None else plan.locate(build.file),
            build.names,
        )
    return tuple(sorted(wanted.values(), key=lambda b: not b.is_baseline))


def _added(build: PlannedBuild, baseline: str) -> WantedBuild:
    recipe = RECIPES[BASELINE_RECIPES[build.recipe.format]]
    route = recipe.routes[build.model.format]
    options = RecipeOptions(io=recipe.io[0])
    return WantedBuild(baseline, build.model.key, recipe, route, options, None, True, False)


def _baseline_of(build: PlannedBuild) -> str | None:
    """None where no route leads from the model's form to a float build of that format."""
    name = BASELINE_RECIPES[build.recipe.format]
    if build.model.format not in RECIPES[name].routes:
        return None
    return f"{build.model.key}/{name}"
