"""Write docs/recipes.md out of the table of recipes. With --check only say whether it is up to date."""

import argparse
import sys
from pathlib import Path

from phoneproof.recipes.rows import RECIPES
from phoneproof.recipes.table import Method, Mode, Recipe, RecipeOptions, Representation
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.runs.wanted import BASELINE_RECIPES

PAGE = Path(__file__).parents[1] / "docs" / "recipes.md"

BEGINNING = """\
# Recipes

Written by `scripts/recipe_reference.py` out of the table of recipes (`toolkit/phoneproof/recipes/table.py`);
do not edit it by hand.

A recipe says how a source model is quantized. The table is closed: a name that is not in it is refused, and
nothing is read out of a name. Options of a recipe are keys of `[[builds]]` in the [plan](plan.md#builds).
"""

MODES = {
    Mode.NONE: "nothing is quantized",
    Mode.STATIC: "static: weights and activations are int8; a calibration set gives their ranges",
    Mode.DYNAMIC: "dynamic: weights are int8; activations get their ranges at run time",
}
REPRESENTATIONS = {
    Representation.PLAIN: "the float operators as they are",
    Representation.QDQ: "QDQ: operators between quantize and dequantize operators, which a runtime fuses",
    Representation.QOPERATOR: "QOperator: operators that compute in int8 by themselves",
}
METHODS = {
    Method.MINMAX: "the least and the greatest value that was seen",
    Method.ENTROPY: "the range whose 256 levels lose the least information (Kullback-Leibler)",
    Method.PERCENTILE: "the range that holds `percentile` percent of the values",
}


def page() -> str:
    """The whole page."""
    return "\n".join([BEGINNING, _overview(), *map(_section, RECIPES.values()), _methods(), _toolchains()])


def _overview() -> str:
    head = "| recipe | format | precision | mode | calibration set | good for |\n|---|---|---|---|---|---|\n"
    return head + "".join(
        f"| [`{one.name}`](#{one.name}) | {one.format} | {one.precision} | {one.mode} "
        f"| {'needed' if one.needs_calibration else 'not used'} | {one.good_for} |\n"
        for one in RECIPES.values()
    )


def _section(recipe: Recipe) -> str:
    baseline = BASELINE_RECIPES[recipe.format]
    floor = recipe.floor
    least = [
        f"opset {floor.onnx_opset}" if floor.onnx_opset else None,
        f"IR version {floor.onnx_ir}" if floor.onnx_ir else None,
        f"{recipe.runtime} {floor.runtime_version}" if floor.runtime_version else None,
    ]
    compared = "It is the baseline." if recipe.name == baseline else f"`{baseline}`"
    rows = {
        "good for": recipe.good_for,
        "mode": MODES[recipe.mode],
        "representation": REPRESENTATIONS[recipe.representation],
        "sources": ", ".join(sorted(recipe.sources)),
        "toolchain": recipe.toolchain,
        "runtime": recipe.runtime,
        "compared with": compared,
        "target floor": "; ".join(one for one in least if one),
    }
    table = "".join(f"| {name} | {value} |\n" for name, value in rows.items())
    return f"## {recipe.name}\n\n| | |\n|---|---|\n{table}"


def _methods() -> str:
    default = RecipeOptions()
    lines = "".join(f"| `{method}` | {METHODS[method]} |\n" for method in Method)
    return (
        "## Calibration methods\n\n"
        f"For static recipes; `method` in `[[builds]]`. Not set it is `{default.method}`.\n\n"
        f"| method | range of a tensor |\n|---|---|\n{lines}\n"
        f"`percentile` not set is {default.percentile}. Zero is in every range.\n"
        "One pass over the calibration set serves all methods that a plan asks for.\n"
        "The ranges do not depend on the order of the samples.\n"
    )


def _toolchains() -> str:
    lines = "".join(
        f"| {name} | {package} | {least} | {toolchain.tested_versions[package]} |\n"
        for name, toolchain in TOOLCHAINS.items()
        for package, least in toolchain.least_versions.items()
    )
    return (
        "## Toolchains\n\n"
        "An older package is refused. One of another version than tested is the finding\n"
        "[TOOL-UNTESTED-VERSION](findings.md#tool-untested-version).\n\n"
        f"| toolchain | package | least version | tested version |\n|---|---|---|---|\n{lines}"
    )


def run() -> int:
    """0 when the page is written, or is up to date; 1 when it is not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if the page is out of date")
    if parser.parse_args().check:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page():
            return 0
        sys.stderr.write(f"{PAGE} is out of date: run scripts/recipe_reference.py\n")
        return 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(run())
