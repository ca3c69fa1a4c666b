"""Which recipes to try with a source model, on which platform, and why."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from phoneproof.builds.source_facts import SourceFacts
from phoneproof.errors import Fact
from phoneproof.recipes.rows import RECIPES
from phoneproof.recipes.table import Method, Mode, SourceFormat
from phoneproof.report.audited import Advice, ModelAudit
from phoneproof.report.formats import PLATFORMS_OF
from phoneproof.report.model import Platform
from phoneproof.runs.model_audit import (
    inputs_of,
    model_findings,
    operators_of,
    outputs_of,
    predicted_support,
)
from phoneproof.verify.verdicts import Reason

Nature = Literal["generative", "recurrent", "normalising", "text", "convolutional", "other"]

CONVOLUTIONAL_SHARE: Final = 0.5
"""Of the weights in convolutions: MobileNetV2 0.62, ResNet-50 0.92, DigitsNet 0.98; ViT-B/16 0.01."""

_STATIC: Final[Mapping[Platform, Sequence[str]]] = {
    "android": ("executorch-int8", "tflite-int8", "onnx-int8"),
    "ios": ("coreml-int8", "coreml-int8-weights", "executorch-int8", "tflite-int8", "onnx-int8"),
}
_DYNAMIC: Final[Mapping[Platform, Sequence[str]]] = {
    "android": ("executorch-int8-dynamic", "tflite-int8-dynamic", "onnx-int8-dynamic"),
    "ios": ("coreml-int8-weights", "executorch-int8-dynamic", "tflite-int8-dynamic", "onnx-int8-dynamic"),
}
_WEIGHTS: Final[Mapping[Platform, Sequence[str]]] = {
    "android": ("executorch-int8-dynamic", "tflite-int8-dynamic", "onnx-int8-dynamic"),
    "ios": ("coreml-int8-weights", "coreml-float16", "executorch-int8-dynamic", "onnx-int8-dynamic"),
}
_HALF: Final[Mapping[Platform, Sequence[str]]] = {"android": ("tflite-float16",), "ios": ("coreml-float16",)}
"""Recipes by platform. The first that the source has a route to is named: PyTorch's own runtime before the
one that needs a toolchain of its own, TFLite for what only it takes."""

_PREFERENCE: Final[Mapping[Nature, Mapping[Platform, Sequence[str]]]] = {
    "generative": _WEIGHTS,
    "normalising": _WEIGHTS,
    "recurrent": _DYNAMIC,
    "text": _DYNAMIC,
    "convolutional": _STATIC,
    "other": _STATIC,
}
_REASONS: Final[Mapping[Nature, str]] = {
    "generative": "advice_generative",
    "normalising": "advice_normalising",
    "recurrent": "advice_recurrent",
    "text": "advice_text",
    "convolutional": "advice_convolutional",
    "other": "advice_plain",
}


@dataclass(frozen=True)
class Judged:
    """What a model is, and the facts that say so."""

    nature: Nature
    facts: Mapping[str, Fact]


def nature_of(facts: SourceFacts) -> Judged:
    """What decides how a model is quantized."""
    found = {finding.id: finding.facts for finding in model_findings("", facts)}
    if "MODEL-GENERATIVE" in found:
        return Judged("generative", {"evidence": found["MODEL-GENERATIVE"]["evidence"]})
    counted = operators_of(facts)
    recurrent = {word: counted[word] for word in ("gru", "lstm", "rnn") if word in counted}
    if recurrent:
        return Judged("recurrent", {"count": sum(recurrent.values()), "operators": tuple(recurrent)})
    if facts.anatomy.vocabularies:
        return Judged("text", {"vocabulary": facts.anatomy.vocabularies[0]})
    if "MODEL-NORMALISATION-HEAVY" in found:
        told = found["MODEL-NORMALISATION-HEAVY"]
        return Judged("normalising", {"share": told["share"], "operators": told["operators"]})
    whole = sum(facts.anatomy.weights.values())
    share = facts.anatomy.weights.get("convolution", 0) / whole if whole else 0.0
    return Judged("convolutional" if share >= CONVOLUTIONAL_SHARE else "other", {"share": share})


def model_audit(facts: SourceFacts, form: SourceFormat, calibrated: bool) -> ModelAudit:
    """All that the audit tells of a model. calibrated: as for `advice`."""
    return ModelAudit(
        operators_of(facts),
        facts.parameters,
        inputs_of(facts),
        outputs_of(facts),
        predicted_support(facts),
        advice(facts, form, calibrated),
    )


def advice(facts: SourceFacts, form: SourceFormat, calibrated: bool) -> tuple[Advice, ...]:
    """What to try first on each platform that the source has a route to, and what else deserves a trial.

    calibrated: whether there are samples to calibrate with. A recipe is named only where the source can
    become it and the platform runs its format.
    """
    judged = nature_of(facts)
    return tuple(one for platform in _STATIC for one in _on(platform, judged, form, calibrated))


def _on(platform: Platform, judged: Judged, form: SourceFormat, calibrated: bool) -> Iterator[Advice]:
    preferred = _PREFERENCE[judged.nature][platform]
    first = _first(preferred, platform, form)
    without_data = not calibrated and first is not None and RECIPES[first].mode is Mode.STATIC
    if without_data:
        first = _first(_DYNAMIC[platform], platform, form)
    if first is not None:
        reason = "advice_without_data" if without_data else _REASONS[judged.nature]
        yield _advised(platform, first, Reason(reason, {} if without_data else judged.facts))
    if platform == "ios" and first == "coreml-int8":
        yield _advised(platform, "coreml-int8-weights", Reason("advice_older_iphones"))
    half = _first(_HALF[platform], platform, form)
    if half is not None and half != first:
        yield _advised(platform, half, Reason("advice_float16"))


def _advised(platform: Platform, recipe: str, reason: Reason) -> Advice:
    """With the method to begin with: of static recipes only, since only they have a calibration."""
    static = RECIPES[recipe].needs_calibration
    return Advice(platform, recipe, Method.MINMAX.value if static else None, reason)


def _first(recipes: Sequence[str], platform: Platform, form: SourceFormat) -> str | None:
    for name in recipes:
        if form in RECIPES[name].routes and platform in PLATFORMS_OF[RECIPES[name].format]:
            return name
    return None
