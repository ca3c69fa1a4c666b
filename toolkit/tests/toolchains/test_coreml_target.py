"""Deployment targets: the plan's, else the recipe's, and never too old."""

import pytest

from phoneproof.errors import RecipeError
from phoneproof.recipes.rows import RECIPES
from phoneproof.recipes.table import Format, RecipeOptions, TargetFloor
from phoneproof.toolchains.coreml_target import TARGETS, deployment_target

COREML = [name for name, recipe in RECIPES.items() if recipe.format is Format.COREML]


@pytest.mark.parametrize("name", COREML)
def test_the_target_is_the_plans_else_the_recipes_own(name: str) -> None:
    recipe = RECIPES[name]
    own = recipe.floor.deployment_target
    assert own in TARGETS
    for target in TARGETS:
        options = RecipeOptions(target=TargetFloor(deployment_target=target))
        if TARGETS.index(target) >= TARGETS.index(own):
            assert deployment_target(recipe, options) == target
            continue
        with pytest.raises(RecipeError) as caught:
            deployment_target(recipe, options)
        assert own in str(caught.value)
        assert target in str(caught.value)
    assert deployment_target(recipe, RecipeOptions()) == own


@pytest.mark.parametrize("target", ["ios16", "iOS13", "macOS13", ""])
def test_an_unknown_target_is_refused(target: str) -> None:
    options = RecipeOptions(target=TargetFloor(deployment_target=target))
    if not target:
        assert deployment_target(RECIPES["coreml-int8"], options) == "iOS17"
        return
    with pytest.raises(RecipeError, match="no deployment target"):
        deployment_target(RECIPES["coreml-int8"], options)
