"""Formats of builds and the platforms that can ship them."""

from collections.abc import Mapping
from typing import Final

from phoneproof.recipes.rows import FILE_RECIPES, RECIPES
from phoneproof.recipes.table import Format
from phoneproof.report.model import Platform

PLATFORMS_OF: Final[Mapping[Format, tuple[Platform, ...]]] = {
    Format.TFLITE: ("android", "ios"),
    Format.EXECUTORCH: ("android", "ios"),
    Format.ONNX: ("android", "ios"),
    Format.COREML: ("ios",),
    Format.TORCHSCRIPT: ("host",),
}
"""Where builds of each format can be shipped. TorchScript's mobile runtime is no longer published."""

_FORMATS: Final[Mapping[str, Format]] = {
    recipe.name: recipe.format for recipe in (*RECIPES.values(), *FILE_RECIPES.values())
}


def format_of(recipe: str | None) -> Format | None:
    """The format that a recipe makes; None for a recipe of another version, and for none."""
    return None if recipe is None else _FORMATS.get(recipe)
