"""Write docs/recipes.md out of the table of recipes. With --check only say whether it is up to date."""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from phoneproof.plan.build_section import TARGET_KEYS
from phoneproof.recipes.rows import BASELINE_RECIPES, FILE_RECIPES, RECIPES
from phoneproof.recipes.runtime_table import ONNX_EXPORTERS, READER_OF, RUNTIMES
from phoneproof.recipes.table import (
    Format,
    Method,
    Mode,
    Precision,
    Recipe,
    RecipeOptions,
    Representation,
    Route,
    SourceFormat,
)
from phoneproof.recipes.toolchain_table import TOOLCHAINS

PAGE = Path(__file__).parents[1] / "docs" / "recipes.md"

BEGINNING = """\
# Recipes

Written by `scripts/recipe_reference.py` out of the table of recipes (`toolkit/phoneproof/recipes/rows.py`);
do not edit it by hand.

A recipe says how a source model is quantized. The table is closed: a name that is not in it is refused, and
nothing is read out of a name. Options of a recipe are keys of `[[builds]]` in the [plan](plan.md#builds).
"""

CHOICES = {
    "vision (convolutions)": (
        "a static int8 recipe: `tflite-int8`, `executorch-int8`, `coreml-int8`, `onnx-int8`. A few hundred "
        "images show the ranges of activations well."
    ),
    "text (attention, large linear layers)": (
        "a dynamic recipe: `tflite-int8-dynamic`, `executorch-int8-dynamic`, `onnx-int8-dynamic`. "
        "Activations have outliers that depend on the text, so their ranges are taken at run time."
    ),
    "no data like what the app will see": "a dynamic recipe, or `coreml-int8-weights`.",
    "GPUs and the Neural Engine": (
        "`tflite-float16`, `coreml-float16`: half the size, and they compute in float16. Not for CPUs: "
        "those widen the weights again, and nothing gets faster."
    ),
    "audio, regression: 8 bits are too few for activations": (
        "`tflite-int16x8`, or an int8 recipe with the last layers kept in float."
    ),
    "iPhones, with the least work": "`coreml-int8-weights`: a quarter of the size, the speed of float16.",
}

ADVICE = """\
Method of static recipes: begin with `minmax`. If accuracy falls, try `entropy` before `percentile` when time
allows: `entropy` finds for each tensor how much to clip, `percentile` clips the same share everywhere and has
to be tuned. Both cut outliers, which is wrong for outputs that are coordinates or other quantities whose
largest values count.

If accuracy still falls, keep in float what is most sensitive (often the first and the last layer) by
`keep_float_names`.

There is no int4 recipe: int4 is not for production today. Accuracy mostly falls without retraining, and what
can run it differs from one runtime to the next.
"""

REPRESENTATIONS = {
    Representation.PLAIN: "the float operators as they are",
    Representation.QDQ: "QDQ: operators between quantize and dequantize operators, which a runtime fuses",
    Representation.QOPERATOR: "operators that compute in int8 by themselves",
}
METHODS = {
    Method.MINMAX: "the least and the greatest value that was seen",
    Method.ENTROPY: "the range whose 256 levels lose the least information (Kullback-Leibler)",
    Method.PERCENTILE: "the range that holds `percentile` percent of the values",
}
SOURCES = {
    SourceFormat.PYTORCH: "`module:function` that gives a `torch.nn.Module`",
    SourceFormat.EXPORTED_PROGRAM: "a .pt2 file of `torch.export.save`",
    SourceFormat.KERAS: "a .keras file of Keras 3",
    SourceFormat.SAVEDMODEL: "a folder of `tf.saved_model.save` or `model.export`",
    SourceFormat.ONNX: "an .onnx file",
}
FILES = {
    Format.TFLITE: "one .tflite file",
    Format.COREML: "a .mlpackage folder (ML program)",
    Format.EXECUTORCH: "one .pte file",
    Format.ONNX: "one .onnx file",
    Format.TORCHSCRIPT: "a TorchScript file",
}


def page() -> str:
    """The whole page."""
    sections = [BEGINNING, _overview(), _choice(), *map(_section, RECIPES.values())]
    return "\n".join([*sections, _files(), _sources(), _methods(), _toolchains()])


def _table(head: str, rows: Iterable[str]) -> str:
    columns = head.count("|") - 1
    return f"{head}\n{'|---' * columns}|\n" + "".join(f"{row}\n" for row in rows)


def _overview() -> str:
    return _table(
        "| recipe | format | precision | mode | made from | calibration set |",
        (
            f"| [`{one.name}`](#{one.name}) | {one.format} | {one.precision} | {one.mode} "
            f"| {', '.join(one.routes)} | {'needed' if one.needs_calibration else 'not used'} |"
            for one in RECIPES.values()
        ),
    )


def _choice() -> str:
    rows = (f"| {what} | {recipes} |" for what, recipes in CHOICES.items())
    return f"## Which one\n\n{_table('| the model, the device | take |', rows)}\n{ADVICE}"


def _section(recipe: Recipe) -> str:
    baseline = BASELINE_RECIPES[recipe.format]
    rows = {
        "good for": recipe.good_for,
        "mode": _mode(recipe),
        "representation": REPRESENTATIONS[recipe.representation],
        "gives": FILES[recipe.format],
        "float inputs and outputs": " or ".join(recipe.io),
        "runs on": _runtime(recipe),
        "compared with": "It is the baseline." if recipe.name == baseline else f"`{baseline}`",
        "target floor": _floor(recipe),
        "usual size": _size(recipe),
        "options": _options(recipe),
    }
    facts = _table("| | |", (f"| {name} | {value} |" for name, value in rows.items() if value))
    routes = _table(
        "| made from | route | toolchain |",
        (f"| {form} | {_route(form, route)} | {route.toolchain} |" for form, route in recipe.routes.items()),
    )
    return f"## {recipe.name}\n\n{facts}\n{routes}"


def _mode(recipe: Recipe) -> str:
    activations = "int16" if recipe.precision is Precision.INT16X8 else "int8"
    half = " in float16" if recipe.precision is Precision.FLOAT16 else ""
    return {
        Mode.NONE: f"nothing is quantized{': weights are stored' + half if half else ''}",
        Mode.WEIGHT_ONLY: "weights only: weights are int8; activations stay in float",
        Mode.STATIC: f"static: weights are int8, activations {activations}; "
        "a calibration set gives their ranges",
        Mode.DYNAMIC: "dynamic: weights are int8; activations get their ranges at run time",
    }[recipe.mode]


def _route(form: SourceFormat, route: Route) -> str:
    if route.through is SourceFormat.EXPORTED_PROGRAM:
        return "exported by `torch.export` when it is inspected"
    if route.through is SourceFormat.ONNX:
        first = "exported by `torch.export`, then" if form is SourceFormat.PYTORCH else "exported"
        return f"{first} to ONNX by {ONNX_EXPORTERS[form]}, once for all builds"
    return "as it is"


def _runtime(recipe: Recipe) -> str:
    row = RUNTIMES[recipe.runtime]
    if row.stand_in is None:
        return row.name
    other = RUNTIMES[row.stand_in]
    return f"{row.name} on macOS; elsewhere {other.name}, of fidelity `{other.fidelity}`: outputs, no speed"


def _floor(recipe: Recipe) -> str:
    floor = recipe.floor
    least = [
        floor.deployment_target,
        f"opset {floor.onnx_opset}" if floor.onnx_opset else None,
        f"IR version {floor.onnx_ir}" if floor.onnx_ir else None,
        f"{recipe.runtime} {floor.runtime_version}" if floor.runtime_version else None,
    ]
    return "; ".join(one for one in least if one)


def _size(recipe: Recipe) -> str:
    if recipe.size_band is None:
        return ""
    least, greatest = (f"{100 * share:.0f}" for share in recipe.size_band)
    return f"{least} to {greatest} % of the baseline's, where weights are most of the file"


def _options(recipe: Recipe) -> str:
    targets = ", ".join(f"`{key}`" for key in TARGET_KEYS[recipe.format])
    return ", ".join(f"`{name}` ({targets})" if name == "target" else f"`{name}`" for name in recipe.options)


def _files() -> str:
    rows = (
        f"| {FILES[format_]} | `{row.name}` | {_runtime(row)} | `{BASELINE_RECIPES[format_]}` |"
        for format_, row in FILE_RECIPES.items()
    )
    head = "| `file` | in its id | runs on | compared with |"
    return (
        "## Builds made elsewhere\n\n"
        "`file` in `[[builds]]` takes the place of a recipe. The file is inspected, and what is found in it\n"
        "(precision, inputs, outputs, operators left in float) is what it is judged by. It is compared with\n"
        "the float build that is made here of the same format, where a route leads from the model to one.\n\n"
        f"{_table(head, rows)}"
    )


def _sources() -> str:
    rows = (
        f"| `{form}` | {SOURCES[form]} | {READER_OF[form]} "
        f"| {', '.join(f'`{row.name}`' for row in RECIPES.values() if form in row.routes)} |"
        for form in SourceFormat
    )
    head = "| format | source | read by the packages of | recipes |"
    return (
        "## Sources\n\n"
        "A pair that is not here is refused in the preflight, naming what the recipe is made from.\n"
        "Where a plan has several forms of a network, one that a recipe takes as it is goes before one that\n"
        "is exported first.\n\n"
        f"{_table(head, rows)}"
    )


def _methods() -> str:
    default = RecipeOptions()
    lines = (f"| `{method}` | {METHODS[method]} |" for method in Method)
    return (
        "## Calibration methods\n\n"
        f"For static recipes; `method` in `[[builds]]`. Not set it is `{default.method}`.\n\n"
        f"{_table('| method | range of a tensor |', lines)}\n"
        f"`percentile` not set is {default.percentile}. Zero is in every range.\n"
        "One pass over the calibration set serves all methods that a plan asks for.\n"
        "The ranges do not depend on the order of the samples.\n"
    )


def _toolchains() -> str:
    lines = (
        f"| {name} | {package} | {least} | {toolchain.tested_versions[package]} |"
        for name, toolchain in TOOLCHAINS.items()
        for package, least in toolchain.least_versions.items()
    )
    return (
        "## Toolchains\n\n"
        "A toolchain runs in a process of its own: on the current interpreter if that has what is needed,\n"
        "else in the environment that `phoneproof toolchain install NAME` makes with the tested versions.\n"
        "litert-torch needs such an environment: its packages do not go together with the others'.\n"
        "An older package is refused. One of another version than tested is the finding\n"
        "[TOOL-UNTESTED-VERSION](findings.md#tool-untested-version).\n\n"
        f"{_table('| toolchain | package | least version | tested version |', lines)}"
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
