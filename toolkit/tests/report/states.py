"""The states that a report can be in: those of `reports`, and larger ones."""

import base64
import io
from dataclasses import replace

import numpy as np
from PIL import Image

from phoneproof.findings import Finding
from phoneproof.protocol.attempts import Outcome
from phoneproof.recipes.rows import RECIPES
from phoneproof.report.audited import (
    Advice,
    AuditedTensor,
    DoubtfulOperator,
    ModelAudit,
    PredictedSupport,
)
from phoneproof.report.edge import EdgeInput, EdgeRange, EdgeResult
from phoneproof.report.model import (
    Accuracy,
    CaseResult,
    Comparison,
    ModelRecommendation,
    Recommendation,
    Report,
    Result,
    Size,
)
from phoneproof.verify.verdicts import Reason, Verdict
from tests.report import reports
from tests.report.reports import DYNAMIC, FLOAT, HOST, PIXEL, build, latency, result

EDGE_INPUTS: dict[str, EdgeRange] = {
    "black": "in_range",
    "white": "in_range",
    "mid_grey": "in_range",
    "saturated_noise": "in_range",
    "checkerboard": "in_range",
    "one_pixel_lit": "in_range",
    "aspect_1_to_30": "in_range",
    "aspect_30_to_1": "in_range",
    "grey_file": "in_range",
    "alpha_file": "in_range",
    "cmyk_file": "in_range",
    "16_bit_file": "in_range",
    "1_by_1_file": "in_range",
    "very_large_file": "in_range",
    "smallest_value": "in_range",
    "largest_value": "in_range",
    "huge": "out_of_range",
    "denormal": "out_of_range",
    "nan": "not_finite",
    "plus_infinity": "not_finite",
    "minus_infinity": "not_finite",
}


def picture(name: str) -> tuple[str, int, int]:
    """A small PNG in base64 with its size: something to look at for each name."""
    draw = np.random.default_rng(len(name))
    square = np.zeros((32, 32), np.uint8)
    pixels = {
        "white": square + 255,
        "mid_grey": square + 128,
        "saturated_noise": (draw.integers(0, 2, (32, 32)) * 255).astype(np.uint8),
        "checkerboard": ((np.indices((32, 32)).sum(0) // 4 % 2) * 255).astype(np.uint8),
        "aspect_1_to_30": np.full((60, 2), 90, np.uint8),
        "aspect_30_to_1": np.full((2, 60), 90, np.uint8),
    }.get(name, square)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode(), pixels.shape[1], pixels.shape[0]


def edge_inputs(model: str = "digits") -> tuple[EdgeInput, ...]:
    """Pictures for what can be looked at, and one input of the plan's own."""
    drawn = [
        EdgeInput(model, name, range_, False, *picture(name))
        if list(EDGE_INPUTS).index(name) < 14
        else EdgeInput(model, name, range_)
        for name, range_ in EDGE_INPUTS.items()
    ]
    return (*drawn, EdgeInput(model, "customers/<b>blurred</b>.png", "in_range", own=True))


def edge_results(**troubles: tuple[Outcome, Verdict, Reason]) -> tuple[EdgeResult, ...]:
    """How one build took every edge input; those that are not named passed."""
    fine: tuple[Outcome, Verdict, Reason] = ("passed", "pass", Reason("gate_passed"))
    names = [one.name for one in edge_inputs()]
    return tuple(
        EdgeResult(name, "c003.edge", sample, *troubles.get(name, fine)) for sample, name in enumerate(names)
    )


def edge_failures() -> Report:
    """A crash, a hang and a flipped class in one build, doubts in another, none in the baseline."""
    report = reports.all_pass()
    bad = edge_results(
        nan=("crashed", "fail", Reason("cases_ended_badly", {"crashed": 1})),
        huge=("timed_out", "fail", Reason("cases_ended_badly", {"timed_out": 1})),
        checkerboard=("passed", "fail", Reason("labels_differ", {"output": "logits", "agreement": 0.0})),
    )
    doubtful = edge_results(black=("not_run", "inconclusive", Reason("not_measured", {"why": "not_run"})))
    failed = reports.gate("edge", "fail", "cases_ended_badly", crashed=1, timed_out=1, failed=1)
    first, second, third = report.results
    return replace(
        report,
        results=(
            replace(first, edge_results=edge_results(), edge={"passed": 22}),
            replace(
                second, edge_results=bad, edge={"passed": 20, "crashed": 1, "timed_out": 1}, verdict="fail",
                reason=failed.reason, gates=(*second.gates, failed),
            ),
            replace(third, edge_results=doubtful, edge={"passed": 21, "not_run": 1}),
        ),
        edge_inputs=edge_inputs(),
        recommendation=Recommendation(DYNAMIC, "host", report.recommendation.reason),
        recommendations=tuple(
            ModelRecommendation(DYNAMIC, "host", report.recommendation.reason, "digits", platform)
            for platform in ("android", "ios")
        ),
    )  # fmt: skip


def two_platforms() -> Report:
    """One model, and a build for each kind of phone; an audit of the model; a waived finding."""
    report = edge_failures()
    core, core_float = "digits/onnx/coreml-int8", "digits/onnx/coreml-float32"
    reason = Reason("best_for_size", {"size_ratio": 0.27, "speed_ratio": 0.96, "drop": 0.0})
    asks = replace(result(core).configuration, runtime="mil_interpreter")
    waived = replace(Finding.of("DATA-CALIBRATION-TOO-FEW", "calibration", samples=8, least=10), waived=True)
    return replace(
        report,
        models=(replace(report.models[0], audit=audit()),),
        builds=(*report.builds, build(core_float, 1_150_000), build(core, 310_000)),
        results=(
            *report.results,
            reports.baseline(configuration=replace(asks, build_id=core_float), recipe="coreml-float32"),
            result(
                core, configuration=asks, latency=None, comparison=None, findings=(waived.id,),
                operators_by_accelerator={"cpu": 3, "neural_engine": 12},
            ),
        ),
        findings=(waived, *report.findings),
        recommendation=Recommendation(
            None, None, Reason("several_platforms", {"platforms": ("android", "ios")})
        ),
        recommendations=(
            report.recommendations[0],
            ModelRecommendation(core, "host", reason, "digits", "ios"),
        ),
    )  # fmt: skip


def audit() -> ModelAudit:
    """Of a small network with one operator that an accelerator is said not to run."""
    doubt = DoubtfulOperator(
        "softmax", 1, "refused", "only on the last axis", "https://example.org/neural-engine"
    )
    return ModelAudit(
        operators={"Conv": 9, "Relu": 9, "GlobalAveragePool": 1, "Gemm": 1, "Softmax": 1},
        parameters=278_410,
        inputs=(AuditedTensor("image", "float32", (None, 1, 8, 8)),),
        outputs=(AuditedTensor("logits", "float32", (None, 10)),),
        support=(
            PredictedSupport("XNNPACK", 21, (), {}),
            PredictedSupport("Neural Engine", 19, (doubt,), {"mean": 1}),
        ),
        advice=(Advice("android", "tflite-int8", "percentile", Reason("best_passing")),),
    )


def fifty_builds() -> Report:
    """Every recipe from several sources, some with long variants, on two devices, with all verdicts."""
    verdicts: tuple[Verdict, ...] = ("pass", "pass", "pass", "inconclusive", "fail")
    ids = [
        f"digits/{source}/{recipe}{variant}"
        for source in ("keras", "pytorch", "onnx")
        for recipe in RECIPES
        for variant in ("", "/a_long_name_of_a_variant_with_per_tensor_scales")
    ][:50]
    results = []
    for number, build_id in enumerate(ids):
        is_float = build_id.endswith("float32")
        verdict = verdicts[number % 5]
        own: Result = result(
            build_id, PIXEL if number % 4 == 3 else HOST,
            recipe=build_id.split("/")[2], baseline=is_float, comparison=None
            if is_float
            else Comparison(FLOAT, 0.4 + number % 7, (0.3 + number % 7, 0.5 + number % 7), "faster", 24),
            latency=latency(0.3 + number % 7 * 0.6, seed=number),
            size=Size(1_122_000, 280_000 + number * 9_000, 0.3),
            verdict="pass" if is_float else verdict,
            reason=Reason("gate_passed") if verdict == "pass" or is_float else Reason(
                "accuracy_undecided",
                {"drop": 0.0089, "lo": -0.001, "hi": 0.021, "limit": 0.01, "n": 890, "metric": "top-1"},
            ),
            gates=(
                reports.gate("parity"),
                reports.gate(
                    "accuracy", "inconclusive", "accuracy_undecided", drop=0.0089, lo=-0.001, hi=0.021,
                    limit=0.01, n=890, metric="top-1", needed_samples=5_200,
                ) if verdict == "inconclusive" else reports.gate("accuracy"),
            ),
            accuracy=Accuracy(
                "top-1", 890, 0.95 + number % 5 / 100, 0.9798, 0.0298 - number % 5 / 100, (-0.01, 0.04)
            ),
            edge_results=edge_results(),
        )  # fmt: skip
        results.append(own)
    report = reports.report(
        [
            build(build_id, 280_000 + number * 9_000, recipe=build_id.split("/")[2])
            for number, build_id in enumerate(ids)
        ],
        results,
        diagnosis=tuple(reports.chain(build_id, "none", "agrees", "agrees", "agrees") for build_id in ids),
        edge_inputs=edge_inputs(),
        recommendation=Recommendation(ids[4], "host", Reason("best_passing", {"size_ratio": 0.3})),
    )
    platforms = tuple(
        ModelRecommendation(ids[4], "host", report.recommendation.reason, "digits", platform)
        for platform in ("android", "ios")
    )
    return replace(report, recommendations=platforms)


def many_outcomes(outcomes: int = 10_000) -> Report:
    """Fifty builds whose cases end in so many outcomes, half of them bad."""
    report = fifty_builds()
    each = outcomes // len(report.results)
    results = []
    for number, one in enumerate(report.results):
        cases = tuple(
            CaseResult(
                "c002.infer", "infer", "crashed" if i % 4 == 0 else "failed" if i % 4 == 1 else "passed",
                "signal 11" if i % 4 == 0 else None, "certain" if i % 4 == 0 else None,
                f"{i}, digit_{i:05}.png",
                None if i % 4 else f"RuntimeError: sample {i} of build {number}: invalid dimensions",
            )
            for i in range(each)
        )  # fmt: skip
        results.append(replace(one, cases=cases, outcomes={"passed": each // 2, "failed": each // 2}))
    return replace(report, results=tuple(results))


STATES = reports.STATES | {f.__name__: f for f in (edge_failures, two_platforms, fifty_builds)}
