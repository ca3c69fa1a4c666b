import ast
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import phoneproof
from phoneproof.builds.manifest import FloatReason
from phoneproof.devices.device import DeviceKind
from phoneproof.findings import FINDING_IDS, Finding, Severity
from phoneproof.protocol.attempts import Outcome
from phoneproof.report import sentences, words
from phoneproof.report.model import Speed, Validity
from phoneproof.report.sentences import finding_sentence, outcomes_text, reason_sentence
from phoneproof.verify.accuracy import MissingInterval
from phoneproof.verify.comparison import NoiseReason
from phoneproof.verify.comparison import Speed as MeasuredSpeed
from phoneproof.verify.diagnosis import Cause, LegName, LegState
from phoneproof.verify.latency import ValidityReason
from phoneproof.verify.parity import ParityReason
from phoneproof.verify.verdicts import GateId, Reason, Verdict
from tests.report.edge_examples import EDGE_FINDINGS, EDGE_REASONS

PACKAGE = Path(phoneproof.__file__).parent
DROP = {"drop": 0.0123, "lo": 0.0041, "hi": 0.0205, "limit": 0.01, "n": 890, "metric": "top-1"}
LOSS = {"metric": "top1"}
RATIO = {"ratio": 1.31, "lo": 1.2, "hi": 1.43, "limit": 1.5}

REASONS: Mapping[str, tuple[dict[str, Any], str]] = {
    "gate_passed": ({}, "Within the limits"),
    "not_measured": ({"why": "no_labels"}, "Not measured: the evaluation set has no labels."),
    "parity_below": (
        {"output": "boxes", "sqnr_db": 7.31, "limit_db": 10.0, "slice": "axis 1, index 4"},
        "Output boxes is 7.3 dB from the reference, in axis 1, index 4; 10.0 dB are asked.",
    ),
    "parity_doubtful": (
        {"output": "boxes", "sqnr_db": 14.0, "fail_db": 10.0, "pass_db": 20.0, "slice": None},
        "Output boxes is 14.0 dB from the reference: above 10.0 dB, where it would fail, but below 20.0 dB",
    ),
    "parity_rescued_by_accuracy": ({"output": "boxes", "sqnr_db": 14.0}, "Output boxes is only 14.0 dB"),
    "parity_undefined": ({"output": "boxes", "why": "zero_reference"}, "the reference is zero throughout"),
    "outputs_differ_in_form": ({"what": "2 outputs, not 1."}, "from the reference's: 2 outputs, not 1."),
    "labels_differ": ({"output": "labels", "agreement": 0.985}, "98.50 % of them equal"),
    "accuracy_dropped": (
        DROP,
        "In top-1, accuracy dropped by 1.23 points on 890 samples (95 % interval 0.41 to 2.05);",
    ),
    "accuracy_undecided": (DROP, "890 samples do not decide: the drop in top-1 is 1.23 points"),
    "accuracy_without_interval": (
        {"metric": "map", "n": 890, "why": "one_number_for_the_set"},
        "The drop in map has no interval, so 890 samples do not decide: the metric gives one number",
    ),
    "speed_below": (RATIO, "1.31\N{MULTIPLICATION SIGN} the baseline's speed"),
    "speed_undecided": (RATIO, "1.20\N{MULTIPLICATION SIGN} to 1.43\N{MULTIPLICATION SIGN}"),
    "speed_disturbed": (
        {"ratio": 7.4, "share": 0.31, "largest": 0.02, "limit": 2.0},
        "waited for a processor 31.00 % of their time, 2.00 % at most is accepted. Close other programs",
    ),
    "speed_not_shown": ({}, "does not count"),
    "latency_above": ({"median_ms": 12.5, "limit_ms": 10.0}, "12.5 ms; at most 10.0 ms"),
    "latency_undecided": ({"median_ms": 0.5, "limit_ms": 0.51}, "500 µs, too close to the limit of 510 µs"),
    "latency_disturbed": (
        {"median_ms": 12.5, "limit_ms": 10.0, "share": 0.31, "largest": 0.02},
        "12.5 ms is above 10.0 ms, but the timed threads waited for a processor 31.00 % of their time",
    ),
    "size_above": ({"ratio": 0.55, "limit": 0.5}, "0.55\N{MULTIPLICATION SIGN} the baseline's size"),
    "cases_ended_badly": (
        {"crashed": 2, "failed": 1, "timed_out": 0},
        "Not every case passed: 1 failed, 2 crashed.",
    ),
    "fallback_used": ({"requested": "nnapi", "actual": "cpu"}, "to run on nnapi but ran on cpu"),
    "accelerator_unknown": ({"requested": "nnapi"}, "unknown does not pass"),
    "build_failed": ({}, "build failed"),
    "load_failed": ({}, "did not load"),
    "reference_failed": ({}, "source model did not run"),
    "best_passing": (
        {"size_ratio": 0.26, "speed_ratio": 2.31, "drop": 0.0023},
        "accuracy drop 0.23 points.",
    ),
    "best_for_size": (
        {"size_ratio": 0.26, "speed_ratio": 0.8, "drop": 0.0023},
        "for its size alone: it is slower than the baseline",
    ),
    "several_models": ({"models": ("a", "b")}, "a recommendation of its own: a, b."),
    "several_platforms": ({"platforms": ("android", "ios")}, "recommendations of their own: android, ios."),
    "none_passes": ({}, "No build passes"),
    "none_gains": ({}, "No build that passes every gate is smaller"),
    "only_baseline": ({}, "Only the float baseline"),
    "nothing_measured": ({}, "Nothing was measured"),
    "advice_convolutional": ({"share": 0.62}, "62.00 % of the weights are in convolutions: static int8"),
    "advice_plain": ({"share": 0.2}, "Nothing speaks against static int8"),
    "advice_text": ({"vocabulary": 20_000}, "looks up 20,000 rows"),
    "advice_recurrent": ({"operators": ("lstm",), "count": 2}, "recurrent layers (lstm, 2 in all)"),
    "advice_generative": ({"evidence": ("a mask",)}, "writes sequences (a mask)"),
    "advice_normalising": ({"share": 0.5, "operators": ("gelu: 4",)}, "50.00 % of the operators"),
    "advice_without_data": ({}, "There is no calibration set"),
    "advice_older_iphones": ({}, "iPhones before A17 Pro"),
    "advice_float16": ({}, "Not for CPUs"),
    "loss_small": ({**LOSS, "drop": 0.015}, "1.50 points lost: try another calibration method"),
    "loss_layers": ({**LOSS, "drop": 0.025}, "2.50 points lost: keep the most sensitive layers in float"),
    "loss_calibration": (
        {**LOSS, "drop": 0.05, "findings": ("DATA-CONSTANT",)},
        "5.00 points lost: mend the calibration set first (DATA-CONSTANT); then",
    ),
    "operator_unknown": ({"operators": "lstm2 (a)"}, "does not know operators of this build"),
    **EDGE_REASONS,
}

COUNTED = {"samples": 3, "total": 200, "fraction": 0.015, "examples": ("a.png", "b.png")}
FINDINGS: Mapping[str, tuple[dict[str, Any], str]] = {
    "ACCURACY-AT-CHANCE": (
        {"metric": "top1", "accuracy": 0.015, "samples": 200, "chance": 0.01, "classes": 100},
        "top1 is 1.50 % on 200 samples, guessing among 100 classes gives 1.00 %",
    ),
    "DATA-BROKEN-FILE": ({"broken": 2, "total": 90, "examples": ("x.png: torn",)}, "2 of 90 files"),
    "DATA-CALIBRATION-FEW": ({"samples": 40, "advised": 100}, "100 are advised"),
    "DATA-CALIBRATION-TOO-FEW": ({"samples": 4, "least": 10}, "at least 10 are needed"),
    "DATA-BORDERS": (
        {"calibration_share": 0.9, "evaluation_share": 0.0, "border": 0.25, "input": "image"},
        "90.00 % of the calibration images of the input image have borders of one colour, and 0.00 % of the",
    ),
    "DATA-COLOUR-ORDER": (
        {
            "input": "image",
            "distance": 12.3,
            "distance_swapped": 1.1,
            "calibration_first": 90.0,
            "calibration_third": 120.0,
            "evaluation_first": 121.0,
            "evaluation_third": 91.0,
        },
        "12.3 standard errors lie between their colours and the evaluation set's, 1.10 after a swap",
    ),
    "DATA-CONSTANT": (COUNTED | {"nearly": 2}, "3 of 200 samples (1.50 %) have one value throughout, 2 of"),
    "DATA-DUPLICATES": (COUNTED | {"distinct": 197}, "copies of others, which leaves 197;"),
    "DATA-LAYOUT": (
        {"input": "image", "given": "NCHW", "found": "NHWC", "roughness": 0.31},
        "have the shape of NCHW, and read as NHWC neighbours differ only 31.00 % as much",
    ),
    "DATA-NEAR-DUPLICATES": (COUNTED | {"distinct": 20}, "like frames of one video, which leaves 20;"),
    "DATA-NEAR-OVERLAP": (COUNTED | {"compared": 500}, "nearly equal one of 500 evaluation images"),
    "DATA-NOISE": (COUNTED | {"likeness": 0.02}, "look like random noise"),
    "DATA-NONFINITE": (COUNTED, "for example a.png, b.png"),
    "DATA-NORMALISATION": (
        {
            "input": "image",
            "why": "divided_by_255_again",
            "calibration_low": 0.0,
            "calibration_high": 0.00392,
            "evaluation_low": 0.0,
            "evaluation_high": 1.0,
        },
        "of the input image look divided by 255 once too often: they go from 0 to 0.00392, those of",
    ),
    "DATA-ONE-CLASS": ({"samples": 200, "classes": 10, "examples": ("cat",)}, "of one class, cat, of 10."),
    "DATA-OVERLAP": (COUNTED, "in the evaluation set too"),
    "DATA-RANGE": (
        {
            "input": "image",
            "channel": 2,
            "ratio": 0.3,
            "calibration_low": 0.1,
            "calibration_high": 0.4,
            "evaluation_low": 0.0,
            "evaluation_high": 1.0,
        },
        "of the input image, channel 2, spread over 0.30",
    ),
    "DATA-STATISTICS": (
        {"input": "x", "channel": None, "calibration_mean": 0.2, "evaluation_mean": 0.6, "effect": 1.7},
        "The mean of the input x is 0.200 in the calibration set and 0.600",
    ),
    "DATA-UNBALANCED": (
        {
            "misplaced": 0.45,
            "chance": 0.08,
            "classes": 10,
            "missing": 3,
            "largest_share": 0.55,
            "evaluation_share": 0.1,
            "equal_share": None,
        },
        "55.00 % of the samples, in the evaluation set 10.00 %, and 3 of 10 classes are missing",
    ),
    "HOST-BUSY": (
        {"share": 0.31, "builds": ("m/onnx-int8",)},
        "up to 31.00 % of the time. Speeds of m/onnx-int8",
    ),
    "HOST-SATURATES": ({}, "saturation"),
    "OUTPUT-CLASSES": (
        {"output": "scores", "scores": 1001, "classes": 1000},
        "has 1,000 classes, and the output scores has 1,001 scores",
    ),
    "MODEL-DYNAMIC-SHAPES": ({"axes": ("ids axis 1 = 128",)}, "its builds fix: ids axis 1 = 128. For other"),
    "MODEL-GENERATIVE": ({"evidence": ("a mask",)}, "looks generative (a mask)"),
    "MODEL-NORMALISATION-HEAVY": (
        {"share": 0.5, "count": 4, "weighing": 4, "operators": ("gelu: 4",)},
        "4 normalisations (gelu: 4) against 4 convolutions and matrix products, 50.00 %: int8",
    ),
    "MODEL-SMALL": (
        {"weights": 200, "least_weights": 10_000, "multiplications": 9, "least_multiplications": 1_000_000},
        "too small to gain: 200 weights and 9 multiplications, where networks below 10,000",
    ),
    "OUTPUT-LABELS-SHIFTED": (
        {"by": 1, "shifted": 0.91, "accuracy": 0.02, "samples": 400},
        "with 1 added to each, the source model is right on 91.00 % of 400 samples, as they are on 2.00 %",
    ),
    "OUTPUT-NONFINITE": ({"output": "scores", "numbers": 7}, "7 numbers of the output scores"),
    "OUTPUT-CONSTANT": (
        {"output": "scores", "value": 0.25, "samples": 40, "low": 0.0, "high": 0.97},
        "Output scores is 0.250 in all of 40 samples; the source model's goes from 0 to 0.970.",
    ),
    "OUTPUT-UNCHANGING": (
        {"output": "scores", "change": 0.31, "samples": 40, "low": 0.0, "high": 0.97},
        "Output scores is the same for each of 40 samples; the source model's, which goes from 0",
    ),
    "OUTPUT-DEAD-CHANNELS": (
        {"output": "map", "axis": 1, "slices": "2-3", "count": 2, "of": 8, "kept": 0.0, "samples": 30},
        "Output map is dead in 2 of 8 slices of axis 1 (2-3): over 30 samples they keep 0.00 % at most",
    ),
    "OUTPUT-SCORES-CRUSHED": (
        {
            "output": "detections",
            "axis": 1,
            "slices": "4-83",
            "count": 80,
            "of": 84,
            "low": 0.0,
            "high": 0.93,
            "largest": 638.0,
            "levels": 1,
            "reference_levels": 65,
            "scale": 2.51,
        },
        "share one scale of 2.51, which leaves, of 65 different values or more, 1. Give boxes",
    ),
    "OUTPUT-RAILED": (
        {"output": "y", "end": "largest", "value": 1.0, "share": 0.16, "excess": 0.1, "reached": 3.6},
        "16.00 % of the numbers of output y lie at the largest that the build can give, 1.00; the source",
    ),
    "TOOL-UNTESTED-VERSION": (
        {"package": "onnx", "version": "9.9", "tested": "1.19.0"},
        "onnx 9.9 was not tested",
    ),
    "BUILD-NOT-DELEGATED": ({"count": 2, "operators": ("topk: 2",)}, "2 operators are not delegated"),
    "BUILD-SIZE-UNUSUAL": (
        {"ratio": 0.8, "least": 0.2, "most": 0.35, "tensors": ("fc.weight (float32, 4000 B)",)},
        "left wide: fc.weight (float32, 4000 B)",
    ),
    "BUILD-KEPT-IN-INT8": ({"operators": ("pool", "relu")}, "neighbours are quantized: pool, relu."),
    "BUILD-FLOAT-OPERATORS": (
        {"count": 2, "operators": ("a", "b"), "reasons": ("kept_by_plan",)},
        "2 (a, b)",
    ),
    **EDGE_FINDINGS,
}


@pytest.mark.parametrize("reason", sentences.REASON_SENTENCES)
def test_a_reason_is_told_with_its_facts(reason: str) -> None:
    facts, expected = REASONS[reason]
    said = reason_sentence(Reason(reason, facts))
    assert expected in said
    assert said.endswith(".")
    assert "{" not in said
    assert "[" not in said


@pytest.mark.parametrize("finding", FINDING_IDS)
def test_a_finding_is_told_with_its_facts(finding: str) -> None:
    facts, expected = FINDINGS[finding]
    said = finding_sentence(Finding.of(finding, "calibration", **facts))
    assert expected in said
    assert "unknown" not in said
    assert said.endswith(".")


def test_every_finding_has_a_sentence_and_no_sentence_is_of_another() -> None:
    assert set(sentences.FINDING_SENTENCES) == set(FINDING_IDS)


def test_every_reason_of_a_measurement_has_a_sentence_and_no_other() -> None:
    kinds = (ValidityReason, NoiseReason, ParityReason, MissingInterval)
    expected = {name for kind in kinds for name in typing.get_args(kind)}
    assert set(sentences.MEASURE_SENTENCES) == expected
    assert all(reason_sentence(Reason(name)).endswith(".") for name in expected)


def _constants(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _raised(path: Path) -> Iterator[str]:
    """First arguments of Reason(...) and Reason.of(...) that are written out."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in ("Reason", "Reason.of"):
            for part in ast.walk(node.args[0]):
                if (
                    isinstance(part, ast.Constant)
                    and isinstance(part.value, str)
                    and part.value not in VERDICTS
                ):
                    yield part.value


VERDICTS = frozenset(typing.get_args(Verdict))
SOURCES = [path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE / "report"]


def test_every_reason_that_the_package_raises_has_a_sentence() -> None:
    known = set(sentences.REASON_SENTENCES) | set(sentences.MEASURE_SENTENCES)
    raised = {name for path in SOURCES for name in _raised(path)}
    assert "parity_below" in raised
    assert raised - known == set()


def test_no_sentence_is_of_a_reason_that_nothing_raises() -> None:
    written = {text for path in SOURCES for text in _constants(path)}
    assert set(sentences.REASON_SENTENCES) - written == set()
    assert set(sentences.WHY_SENTENCES) - written == set()


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (words.VERDICTS, Verdict),
        (words.OUTCOMES, Outcome),
        (words.GATES, GateId),
        (words.SPEEDS, Speed),
        (words.VALIDITIES, Validity),
        (words.DEVICE_KINDS, DeviceKind),
        (words.CAUSES, Cause),
        (words.LEGS, LegName),
        (words.LEG_STATES, LegState),
        (words.FLOAT_REASONS, FloatReason),
    ],
)
def test_a_closed_set_has_a_word_for_each_member(table: Mapping[str, str], kind: Any) -> None:
    assert set(table) == set(typing.get_args(kind))


def test_every_severity_has_a_word() -> None:
    assert set(words.SEVERITIES) == set(Severity)


def test_the_report_knows_the_speeds_that_are_measured() -> None:
    assert typing.get_args(Speed) == typing.get_args(MeasuredSpeed)


def test_an_id_of_another_version_is_shown_with_its_facts() -> None:
    assert reason_sentence(Reason("brand_new", {"n": 3})) == "brand_new (n: 3)"
    finding = Finding("NEW-ONE", Severity.INFO, "x", {"a": None})
    assert finding_sentence(finding) == "NEW-ONE (a: unknown)"


def test_facts_that_a_sentence_does_not_name_are_added() -> None:
    assert reason_sentence(Reason("build_failed", {"exit_code": 3})) == "The build failed. (exit_code: 3)"


def test_a_missing_fact_is_said_to_be_unknown() -> None:
    assert "unknown" in reason_sentence(Reason("latency_above", {"limit_ms": 3.0}))


def test_metrics_that_are_no_share_are_not_called_points() -> None:
    facts: dict[str, Any] = {
        "metric": "mean error",
        "drop": 1.25,
        "lo": 0.5,
        "hi": 2.0,
        "limit": 1.0,
        "n": 90,
    }
    assert "points" not in reason_sentence(Reason("accuracy_dropped", facts))


@given(st.text())
def test_a_fact_is_taken_as_text_never_as_a_template(text: str) -> None:
    said = reason_sentence(Reason("fallback_used", {"requested": text, "actual": "{requested}[{x:ms}]"}))
    assert said == f"It was to run on {text} but ran on {{requested}}[{{x:ms}}]."


def test_outcomes_leave_out_what_did_not_happen() -> None:
    assert outcomes_text({"passed": 1200, "crashed": 0, "timed_out": 1}) == "1,200 passed, 1 timed out"
    assert outcomes_text({}) == "no cases"
