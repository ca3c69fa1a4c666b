"""Deployment targets of Core ML builds."""

from typing import Final

from phoneproof.errors import RecipeError
from phoneproof.recipes.table import Recipe, RecipeOptions

TARGETS: Final = ("iOS15", "iOS16", "iOS17", "iOS18")
"""Deployment targets, the oldest first; macOS 12 to 15 take the same."""


def deployment_target(recipe: Recipe, options: RecipeOptions) -> str:
    """What the plan says the device has, else the recipe's floor. RecipeError if it is unknown or too old."""
    floor = str(recipe.floor.deployment_target)
    target = options.target.deployment_target or floor
    if target not in TARGETS:
        raise RecipeError(
            f"There is no deployment target {target[:40]!r}.",
            where="target.deployment_target",
            next_step=f"Targets: {', '.join(TARGETS)}.",
        )
    if TARGETS.index(target) < TARGETS.index(floor):
        raise RecipeError(
            f"{recipe.name} needs {floor}, and the plan's target is {target}.",
            where="target.deployment_target",
            next_step=f"Raise the target to {floor}, or choose another recipe.",
        )
    return target
