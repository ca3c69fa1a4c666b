"""What a quantized .tflite build may leave in float."""

from collections.abc import Mapping, Sequence

from phoneproof.builds.manifest import FloatOperator
from phoneproof.errors import ToolchainError
from phoneproof.recipes.table import Mode, Recipe


def refuse_float(
    counts: Mapping[str, int], left: Sequence[FloatOperator], recipe: Recipe, place: str, why_none: str
) -> None:
    """ToolchainError where the recipe promises integers and the plan does not keep what is in float.

    Beside operators that are kept, those that only move their values may be in float too. counts: operators
    by dtype. left: those in float. why_none: what to know where nothing at all is quantized.
    """
    is_kept = any(one.reason == "kept_by_plan" for one in left)
    allowed = {"kept_by_plan", "data_movement"} if is_kept else set()
    wrong = [one for one in left if one.reason not in allowed]
    if recipe.mode is Mode.STATIC and wrong:
        listed = ", ".join(f"{one.name} ({one.type})" for one in wrong[:5])
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        keep = (
            "Name them in keep_float_names if the device may run them in float, or use tflite-int8-dynamic."
        )
        raise ToolchainError(
            f"{recipe.name} is all integer, but these operators have no integer form: {listed}{more}.",
            where=place,
            next_step=keep if "keep_float_names" in recipe.options else "Use tflite-int8, or other layers.",
            operators=len(wrong),
        )
    if not counts.get("int8") and not counts.get("int16"):
        raise ToolchainError(
            f"{recipe.name} left every operator in float.",
            where=place,
            next_step=f"Check keep_float_names and keep_float_types; {why_none}",
        )
