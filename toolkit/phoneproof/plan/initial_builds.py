"""The builds of a first plan: what suits the form of the source, and what else there is as comments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from phoneproof.recipes.rows import BASELINE_RECIPES, RECIPES
from phoneproof.recipes.table import SourceFormat


@dataclass(frozen=True)
class _Offer:
    """Recipes for one form. name_of_operator: how a user of that form calls an operator."""

    made: Sequence[str]
    commented: Mapping[str, str]
    name_of_operator: str


_TORCH: Final = _Offer(
    ("executorch-int8", "coreml-int8-weights", "onnx-int8"),
    {
        "executorch-int8-dynamic": "needs no calibration set; for text models",
        "coreml-int8": "activations in int8 too; iOS 17",
        "tflite-int8": "needs `phoneproof toolchain install litert-torch`",
    },
    "path.of.a.module",
)
_TENSORFLOW: Final = _Offer(
    ("tflite-int8",),
    {
        "tflite-int8-dynamic": "needs no calibration set; for text models",
        "tflite-float16": "half the size, for GPUs",
    },
    "name_of_a_layer",
)
_ONNX: Final = _Offer(
    ("onnx-int8",), {"onnx-int8-dynamic": "needs no calibration set; for text models"}, "name_of_a_node"
)
_OFFERS: Final[Mapping[SourceFormat, _Offer]] = {
    SourceFormat.PYTORCH: _TORCH,
    SourceFormat.EXPORTED_PROGRAM: _TORCH,
    SourceFormat.KERAS: _TENSORFLOW,
    SourceFormat.SAVEDMODEL: _TENSORFLOW,
    SourceFormat.ONNX: _ONNX,
}


def initial_builds(form: SourceFormat) -> str:
    """The `[[builds]]` of a first plan for a source of this form."""
    offer = _OFFERS[form]
    baselines = list(dict.fromkeys(BASELINE_RECIPES[RECIPES[name].format] for name in offer.made))
    added = (
        f"# The float baseline, {baselines[0]}, is added by itself."
        if len(baselines) == 1
        else f"# The float baselines, {', '.join(baselines)}, are added by themselves."
    )
    first, *others = offer.made
    lines = [
        added,
        "[[builds]]",
        f'recipe = "{first}"',
        '# method = "minmax"  # or "entropy"; or "percentile" with percentile = 99.999',
        "# per_channel = true",
        f'# keep_float_names = ["{offer.name_of_operator}"]  # operators left in float',
    ]
    for name in others:
        lines += ["", "[[builds]]", f'recipe = "{name}"']
    for name, why in offer.commented.items():
        lines += ["", "# [[builds]]", f'# recipe = "{name}"  # {why}']
    return "\n".join(lines)
