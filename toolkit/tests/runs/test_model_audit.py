"""What the audit says of models: doubts, predictions and advice, on models that have it and others."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from phoneproof.builds.source_facts import Anatomy, OperatorUse, SourceFacts
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.rows import RECIPES
from phoneproof.recipes.table import SourceFormat
from phoneproof.report.formats import PLATFORMS_OF
from phoneproof.runs.advising import advice, model_audit, nature_of
from phoneproof.runs.model_audit import model_findings, predicted_support

IMAGE = TensorSpec("image", "float32", (1, 3, 224, 224))
IDS = TensorSpec("ids", "int64", (1, 128))


def facts(
    operators: Mapping[str, int],
    weights: Mapping[str, int],
    multiplications: int = 300_000_000,
    inputs: Sequence[TensorSpec] = (IMAGE,),
    outputs: Sequence[TensorSpec] = (TensorSpec("scores", "float32", (1, 1000)),),
    open_inputs: Mapping[str, tuple[int | None, ...]] | None = None,
    **more: Any,
) -> SourceFacts:
    uses = tuple(OperatorUse(word, count, 4) for word, count in operators.items())
    anatomy = Anatomy(uses, {}, weights, multiplications, **more)
    return SourceFacts(
        "0" * 64,
        1,
        (),
        tuple(inputs),
        tuple(outputs),
        {},
        sum(weights.values()),
        open_inputs=open_inputs or {},
        anatomy=anatomy,
    )


MOBILENET = facts(
    {
        "add": 10,
        "batch_norm": 52,
        "conv2d": 35,
        "depthwise_conv2d": 17,
        "global_avg_pool": 1,
        "linear": 1,
        "relu6": 35,
    },
    {"convolution": 2_189_760, "linear": 1_281_000, "normalisation": 68_224},
    open_inputs={"image": (None, 3, 224, 224)},
)
DIGITS = facts(
    {"batch_norm": 10, "conv2d": 7, "depthwise_conv2d": 3, "global_avg_pool": 1, "linear": 1, "relu": 10},
    {"convolution": 280_800, "linear": 1_450, "normalisation": 3_648},
    multiplications=9_500_000,
)
VIT = facts(
    {"add": 25, "attention": 12, "conv2d": 1, "gelu": 12, "layer_norm": 25, "linear": 49},
    {"convolution": 590_592, "linear": 85_786_600, "normalisation": 38_400},
)
ENCODER = facts(
    {"embedding": 2, "linear": 13, "matmul": 4, "softmax": 2, "layer_norm": 5, "gelu": 2, "add": 9},
    {"lookup": 1_000_000, "linear": 500_000},
    inputs=(IDS,),
    outputs=(TensorSpec("scores", "float32", (1, 2)),),
    vocabularies=(30_522,),
)
WRITER = facts(
    {"embedding": 1, "linear": 3},
    {"lookup": 1_000_000, "linear": 500_000},
    inputs=(IDS,),
    outputs=(TensorSpec("logits", "float32", (1, 128, 30_522)),),
    vocabularies=(30_522,),
)
RECURRENT = facts({"lstm": 2, "linear": 1}, {"recurrent": 100_000})
TINY = facts({"conv2d": 2, "linear": 1}, {"convolution": 300, "linear": 48}, multiplications=11_676)


def ids(one: SourceFacts) -> list[str]:
    return [finding.id for finding in model_findings("m/onnx", one)]


@pytest.mark.parametrize("one", [MOBILENET, DIGITS], ids=["mobilenet", "digits"])
def test_usual_vision_networks_raise_nothing(one: SourceFacts) -> None:
    assert ids(one) == []


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (TINY, ["MODEL-SMALL"]),
        (WRITER, ["MODEL-GENERATIVE"]),
        (VIT, ["MODEL-NORMALISATION-HEAVY"]),
        (ENCODER, ["MODEL-NORMALISATION-HEAVY"]),
        (RECURRENT, []),
    ],
    ids=["tiny", "writer", "vit", "encoder", "recurrent"],
)
def test_poor_candidates_are_told(one: SourceFacts, expected: Sequence[str]) -> None:
    assert ids(one) == expected


def test_few_weights_that_are_used_often_are_not_too_small() -> None:
    assert ids(facts({"conv2d": 2}, {"convolution": 300}, multiplications=5_000_000)) == []
    assert ids(facts({"linear": 1}, {"linear": 50_000}, multiplications=50_000)) == []


@pytest.mark.parametrize(
    ("change", "evidence"),
    [
        ({"causal": True}, "no position sees later ones"),
        (
            {
                "inputs": (IDS, TensorSpec("past_key_values.0.key", "float32", (1, 4, 8, 16))),
                "outputs": (TensorSpec("present.0.key", "float32", (1, 4, 9, 16)),),
            },
            "input past_key_values.0.key takes what output present.0.key gave",
        ),
    ],
)
def test_each_sign_of_writing_is_evidence(change: dict[str, Any], evidence: str) -> None:
    (found,) = model_findings("m/onnx", facts({"linear": 3}, {"linear": 500_000}, **change))
    assert found.id == "MODEL-GENERATIVE"
    assert evidence in str(found.facts["evidence"])


def test_a_classifier_with_as_many_classes_as_it_has_words_of_another_kind_writes_nothing() -> None:
    classes = (TensorSpec("scores", "float32", (1, 1000)),)
    found = facts({"embedding": 1, "linear": 1}, {"linear": 500_000}, outputs=classes, vocabularies=(30_522,))
    assert ids(found) == []


def test_open_lengths_are_told_with_what_they_were_given_and_the_batch_is_not_one() -> None:
    one = facts({"linear": 1}, {"linear": 500_000}, inputs=(IDS,), open_inputs={"ids": (None, None)})
    (found,) = model_findings("m/onnx", one)
    assert found.id == "MODEL-DYNAMIC-SHAPES"
    assert found.facts == {"axes": ("ids axis 1 = 128",)}


def test_every_operator_counts_once_for_each_accelerator() -> None:
    odd = Anatomy(
        (OperatorUse("conv3d", 2, 5), OperatorUse("conv2d", 3, 4), OperatorUse("stft", 1)), {"Odd": 4}
    )
    one = SourceFacts("0" * 64, 1, (), (IMAGE,), (), {}, 0, anatomy=odd)
    for support in predicted_support(one):
        doubtful = sum(found.count for found in support.doubtful)
        assert support.supported + doubtful + sum(support.unlisted.values()) == 10, support
        assert support.unlisted["Odd"] == 4
    lacking = {support.accelerator: support.doubtful for support in predicted_support(one)}
    (found,) = lacking["LiteRT GPU delegate"]
    assert (found.operator, found.count, found.doubt) == ("conv3d", 2, "absent")
    assert found.url.startswith("https://")


@pytest.mark.parametrize(
    ("one", "nature"),
    [
        (MOBILENET, "convolutional"),
        (DIGITS, "convolutional"),
        (VIT, "normalising"),
        (ENCODER, "text"),
        (WRITER, "generative"),
        (RECURRENT, "recurrent"),
        (facts({"linear": 2}, {"linear": 500_000}), "other"),
    ],
)
def test_what_a_model_is(one: SourceFacts, nature: str) -> None:
    assert nature_of(one).nature == nature


def first(one: SourceFacts, form: SourceFormat, calibrated: bool = True) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in advice(one, form, calibrated):
        found.setdefault(each.platform, each.recipe)
    return found


@pytest.mark.parametrize(
    ("one", "form", "calibrated", "expected"),
    [
        (MOBILENET, SourceFormat.PYTORCH, True, {"android": "executorch-int8", "ios": "coreml-int8"}),
        (MOBILENET, SourceFormat.KERAS, True, {"android": "tflite-int8", "ios": "coreml-int8-weights"}),
        (MOBILENET, SourceFormat.ONNX, True, {"android": "onnx-int8", "ios": "onnx-int8"}),
        (MOBILENET, SourceFormat.ONNX, False, {"android": "onnx-int8-dynamic", "ios": "onnx-int8-dynamic"}),
        (
            MOBILENET,
            SourceFormat.PYTORCH,
            False,
            {"android": "executorch-int8-dynamic", "ios": "coreml-int8-weights"},
        ),
        (
            ENCODER,
            SourceFormat.PYTORCH,
            True,
            {"android": "executorch-int8-dynamic", "ios": "coreml-int8-weights"},
        ),
        (WRITER, SourceFormat.KERAS, True, {"android": "tflite-int8-dynamic", "ios": "coreml-int8-weights"}),
        (
            RECURRENT,
            SourceFormat.SAVEDMODEL,
            True,
            {"android": "tflite-int8-dynamic", "ios": "coreml-int8-weights"},
        ),
    ],
)
def test_what_is_tried_first(
    one: SourceFacts, form: SourceFormat, calibrated: bool, expected: dict[str, str]
) -> None:
    assert first(one, form, calibrated) == expected


@pytest.mark.parametrize("one", [MOBILENET, VIT, ENCODER, WRITER, RECURRENT, TINY])
@pytest.mark.parametrize("form", list(SourceFormat))
@pytest.mark.parametrize("calibrated", [True, False])
def test_nothing_is_advised_that_cannot_be_made_or_shipped(
    one: SourceFacts, form: SourceFormat, calibrated: bool
) -> None:
    every = advice(one, form, calibrated)
    assert {each.platform for each in every} == {"android", "ios"}
    assert len({(each.platform, each.recipe) for each in every}) == len(every)
    for each in every:
        recipe = RECIPES[each.recipe]
        assert form in recipe.routes
        assert each.platform in PLATFORMS_OF[recipe.format]
        assert (each.method is not None) == recipe.needs_calibration
        assert calibrated or not recipe.needs_calibration


def test_float16_is_for_gpus_and_named_beside() -> None:
    every = advice(MOBILENET, SourceFormat.KERAS, True)
    assert [each.recipe for each in every if each.reason.id == "advice_float16"] == [
        "tflite-float16",
        "coreml-float16",
    ]


def test_the_audit_keeps_lengths_open_that_the_model_leaves_open() -> None:
    found = model_audit(MOBILENET, SourceFormat.ONNX, True)
    assert found.inputs[0].shape == (None, 3, 224, 224)
    assert found.operators["conv2d"] == 35
    assert len(found.support) == 6
