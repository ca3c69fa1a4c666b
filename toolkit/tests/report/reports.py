"""Builders of reports for the tests: small pieces with sensible facts, and the states a report can be in."""

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from phoneproof.builds.manifest import FloatOperator
from phoneproof.findings import Finding
from phoneproof.report.model import (
    Accuracy,
    BuildError,
    Calibration,
    CaseResult,
    Comparison,
    Configuration,
    Diagnosis,
    Latency,
    ModelRecommendation,
    NotMeasured,
    Parity,
    Recommendation,
    Report,
    ReportedBuild,
    ReportedDevice,
    ReportedModel,
    Reproduce,
    Result,
    RunFacts,
    Size,
    WorstSample,
    WorstSlice,
)
from phoneproof.verify.diagnosis import Leg
from phoneproof.verify.verdicts import GateResult, Reason

SHA = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
HOST = ReportedDevice("host", "Intel Xeon, 2 cores", "host", "Linux 6.1", {"int8": "avx512_vnni"})
PIXEL = ReportedDevice("pixel", "Pixel 8", "simulated", "Android 15")
FLOAT, INT8, DYNAMIC = "digits/onnx/onnx-float32", "digits/onnx/onnx-int8", "digits/onnx/onnx-int8-dynamic"


def latency(median_ms: float, runs: int = 200, seed: int = 1, **changes: Any) -> Latency:
    """A right-skewed distribution around the median."""
    draw = random.Random(seed)
    times = sorted(int(median_ms * 1e6 * (0.97 + draw.expovariate(25))) for _ in range(runs))
    at = {q: times[min(int(q * runs), runs - 1)] / 1e6 for q in (0.5, 0.9, 0.95, 0.99, 0.999)}
    facts: dict[str, Any] = {
        "median_ms": at[0.5],
        "p50_ms": at[0.5],
        "p90_ms": at[0.9],
        "p95_ms": at[0.95],
        "p99_ms": at[0.99],
        "p999_ms": at[0.999],
        "min_ms": times[0] / 1e6,
        "mean_ms": sum(times) / runs / 1e6,
        "first_ms": median_ms * 4,
        "load_ms": 14.2,
        "peak_memory_bytes": 9_800_000,
        "runs": tuple(times),
        "batch": 1,
        "validity": "VALID",
    }
    return Latency(**(facts | changes))


def build(build_id: str, size_bytes: int | None, **changes: Any) -> ReportedBuild:
    recipe = build_id.rsplit("/", 1)[1]
    int8 = "int8" in recipe
    facts: dict[str, Any] = {
        "build_id": build_id,
        "recipe": recipe,
        "source": "digits.onnx",
        "status": "built",
        "size_bytes": size_bytes,
        "sha256": SHA,
        "operators": {"int8": 14, "float32": 1} if int8 else {"float32": 15},
        "float_operators": (FloatOperator("head/softmax", "Softmax", "not_quantizable"),) if int8 else (),
        "cached": False,
        "error": None,
        "tool_versions": {"onnx": "1.19.0", "onnxruntime": "1.23.0"},
        "calibration": Calibration(200, "minmax", SHA) if recipe == "onnx-int8" else None,
    }
    return ReportedBuild(**(facts | changes))


def failed_build(build_id: str) -> ReportedBuild:
    error = BuildError(
        "The converter does not know the operator GridSample.",
        "model.onnx: /head/GridSample",
        "Keep the layer in float: add it to keep_float of the build.",
        {"toolchain": "onnxruntime", "exit_code": 1},
        'Traceback (most recent call last):\n  File "convert.py", line 12\nNotImplementedError: GridSample',
    )
    return build(build_id, None, status="failed", sha256=None, operators={}, float_operators=(), error=error,
                 calibration=None)  # fmt: skip


def parity(output: str = "logits", sqnr_db: float | None = 31.4, **changes: Any) -> Parity:
    worst = None if sqnr_db is None else sqnr_db - 4.2
    facts: dict[str, Any] = {
        "output": output,
        "n": 890,
        "sqnr_db": sqnr_db,
        "exact": False,
        "mse": 0.00181,
        "worst_slice_db": worst,
        "worst_slice": WorstSlice(1, 7),
        "worst_sample": WorstSample(412, worst),
    }
    return Parity(**(facts | changes))


def gate(name: Any, verdict: Any = "pass", reason: str = "gate_passed", **facts: Any) -> GateResult:
    return GateResult(name, verdict, Reason(reason, facts))


def result(build_id: str, device: ReportedDevice = HOST, **changes: Any) -> Result:
    """A passing int8 result, 2.3 times as fast and 0.26 times the size of the float one."""
    facts: dict[str, Any] = {
        "configuration": Configuration(build_id, "onnxruntime", "cpu", False, 1),
        "recipe": build_id.rsplit("/", 1)[1],
        "device": device,
        "accelerator_actual": "cpu",
        "latency": latency(0.81, seed=2),
        "comparison": Comparison(FLOAT, 2.31, (2.2, 2.43), "faster", 24),
        "size": Size(1_122_000, 291_000, 0.259),
        "accuracy": Accuracy("top-1", 890, 0.9775, 0.9798, 0.0023, (-0.0031, 0.0089)),
        "parity": (parity(),),
        "edge": {"passed": 11},
        "outcomes": {"passed": 14},
        "cases": (CaseResult("load", "load", "passed"),),
        "gates": tuple(
            gate(name) for name in ("outcomes", "fallback", "parity", "accuracy", "speed", "size")
        ),
        "verdict": "pass",
        "reason": Reason("gate_passed"),
    }
    return Result(**(facts | changes))


def baseline(device: ReportedDevice = HOST, **changes: Any) -> Result:
    facts: dict[str, Any] = {
        "latency": latency(1.87),
        "comparison": None,
        "size": Size(1_122_000, 1_122_000, 1.0),
        "accuracy": Accuracy("top-1", 890, 0.9798, 0.9798, 0.0, (-0.0043, 0.0043)),
        "parity": (parity(sqnr_db=118.0),),
        "baseline": True,
    }
    return result(FLOAT, device, **(facts | changes))


def report(builds: Iterable[ReportedBuild], results: Iterable[Result], **changes: Any) -> Report:
    facts: dict[str, Any] = {
        "run": RunFacts(
            "2026-11-30-digits", "2026-11-30T13:08:03+00:00", "0.1.0", SHA,
            ("phoneproof", "run", "-p", "phoneproof.toml"), 7,
            {"cpu": "Intel Xeon", "cores": 2, "int8": "avx512_vnni"},
        ),
        "models": (ReportedModel("digits", "digits.onnx", "onnx", SHA, 1_121_804),),
        "findings": (),
        "builds": tuple(builds),
        "results": tuple(results),
        "diagnosis": (),
        "recommendation": Recommendation(None, None, Reason("nothing_measured")),
        "not_measured": (
            NotMeasured("phones", Reason("not_measured", {"why": "no_device"})),
            NotMeasured("energy", Reason("not_measured", {"why": "not_supported"})),
        ),
        "reproduce": Reproduce(
            ("phoneproof", "run", "--clone", "runs/2026-11-30 digits"),
            {"digits.onnx": SHA, "calibration set": SHA},
            {"phoneproof": "0.1.0", "onnxruntime": "1.23.0", "numpy": "2.4.0"}, 7,
        ),
    }  # fmt: skip
    return Report(**(facts | changes))


def chain(build_id: str, cause: Any, *states: Any, device: str = "host") -> Diagnosis:
    names: tuple[Any, ...] = (
        "source_host",
        "float_host",
        "quantized_host",
        "device_cpu",
        "device_accelerator",
    )
    padded = (*states, *["missing"] * (len(names) - len(states)))
    decibels = (None, 118.0, 31.4, 60.2, 22.0)
    legs = tuple(
        Leg(name, state, build_id if name != "source_host" else None, db if state != "missing" else None)
        for name, state, db in zip(names, padded, decibels, strict=True)
    )
    return Diagnosis(build_id, device, cause, legs)


def all_pass() -> Report:
    best = Reason("best_passing", {"size_ratio": 0.259, "speed_ratio": 2.31, "drop": 0.0023})
    return report(
        [build(FLOAT, 1_122_000), build(INT8, 291_000), build(DYNAMIC, 302_000, cached=True)],
        [
            baseline(),
            result(INT8, findings=("DATA-OVERLAP",)),
            result(
                DYNAMIC,
                latency=latency(1.12, seed=3),
                comparison=Comparison(FLOAT, 1.66, (1.6, 1.73), "faster", 24),
                size=Size(1_122_000, 302_000, 0.269),
                accuracy=Accuracy("top-1", 890, 0.9787, 0.9798, 0.0011, (-0.0035, 0.0069)),
            ),
        ],
        findings=(
            Finding.of("DATA-OVERLAP", "calibration", samples=3, total=200, fraction=0.015),
            Finding.of("BUILD-FLOAT-OPERATORS", INT8, count=1),
        ),
        diagnosis=(chain(INT8, "none", "agrees", "agrees", "agrees"),),
        recommendation=Recommendation(INT8, "host", best),
        recommendations=(ModelRecommendation(INT8, "host", best, "digits", "android"),),
    )


def two_models() -> Report:
    """Two networks of one run: a small one, and one ten times as slow without a build that passes."""
    ship = Reason("best_passing", {"size_ratio": 0.259, "speed_ratio": 2.31, "drop": 0.0023})
    other_float, other = "faces/onnx/onnx-float32", "faces/onnx/onnx-int8"
    slow = latency(18.7)
    asks = replace(result(INT8).configuration, build_id=other_float)
    return report(
        [
            build(FLOAT, 1_122_000), build(INT8, 291_000), build(other_float, 9_000_000),
            build(other, 2_300_000), failed_build("faces/onnx/onnx-int8-dynamic"),
        ],
        [
            baseline(), result(INT8),
            baseline(configuration=asks, size=Size(9_000_000, 9_000_000, 1.0), latency=slow),
            result(
                other, verdict="fail", reason=Reason("load_failed"), size=Size(9_000_000, 2_300_000, 0.256),
                comparison=Comparison(other_float, 1.0, (0.99, 1.01), "no_difference", 24), latency=slow,
            ),
        ],
        recommendation=Recommendation(None, None, Reason("several_models", {"models": ("digits", "faces")})),
        recommendations=(
            ModelRecommendation(INT8, "host", ship, "digits", "android"),
            ModelRecommendation(None, None, Reason("none_passes"), "faces", "android"),
        ),
    )  # fmt: skip


def failures() -> Report:
    """A crash, a parity failure that looks fast, a fallback, a failed build, a simulated device."""
    crash = CaseResult("edge:all-nan", "infer", "crashed", "signal SIGSEGV", "high", "all-nan", None)
    error = CaseResult(
        "edge:empty", "infer", "failed", None, None, "empty", "Got invalid dimensions for input: x"
    )
    wrong = Reason(
        "parity_below", {"output": "boxes", "sqnr_db": 7.3, "limit_db": 10.0, "slice": "axis 1, index 4"}
    )
    fallback = Reason("accelerator_unknown", {"requested": "nnapi"})
    undecided = Reason(
        "accuracy_undecided",
        {"drop": 0.0089, "lo": -0.001, "hi": 0.021, "limit": 0.01, "n": 890, "metric": "top-1"},
    )
    bad = Reason("cases_ended_badly", {"crashed": 1, "failed": 1})
    waived = replace(Finding.of("DATA-CALIBRATION-TOO-FEW", "calibration", samples=8, least=10), waived=True)
    return report(
        [
            build(FLOAT, 1_122_000), build(INT8, 291_000), build(DYNAMIC, 302_000),
            failed_build("digits/onnx/onnx-int8-qoperator"),
        ],
        [
            baseline(),
            result(
                INT8, parity=(parity(), parity("boxes", 11.5)), verdict="fail", reason=wrong,
                gates=(
                    gate("parity", "fail", wrong.id, **wrong.facts),
                    gate("outcomes", "fail", bad.id, **bad.facts),
                ),
                outcomes={"passed": 12, "crashed": 1, "failed": 1},
                edge={"passed": 9, "crashed": 1, "failed": 1},
                cases=(crash, error), findings=("DATA-CALIBRATION-TOO-FEW",),
            ),
            result(
                DYNAMIC, latency=latency(1.82, seed=3),
                comparison=Comparison(FLOAT, 1.02, (0.93, 1.12), "too_noisy", 24, Reason("wide_interval")),
                size=Size(1_122_000, 302_000, 0.269), verdict="inconclusive", reason=undecided,
                accuracy=Accuracy("top-1", 890, 0.9709, 0.9798, 0.0089, (-0.001, 0.021)),
            ),
            baseline(PIXEL, latency=latency(4.4)),
            result(
                INT8, PIXEL, accelerator_actual=None, verdict="fail", reason=fallback, latency=latency(1.9),
                configuration=Configuration(INT8, "onnxruntime", "nnapi", False, 4), accuracy=None,
            ),
        ],
        findings=(
            waived, Finding.of("HOST-SATURATES", "host"),
            Finding.of("BUILD-FLOAT-OPERATORS", "onnx-int8", count=1, operators=("head/softmax",)),
        ),
        diagnosis=(
            chain(INT8, "quantization", "agrees", "agrees", "disagrees"),
            chain(INT8, "not_separable", "agrees", "agrees", "agrees", device="pixel"),
        ),
        recommendation=Recommendation(None, None, Reason("none_passes")),
    )  # fmt: skip


def nothing_measured() -> Report:
    return report([], [], models=())


def nothing_ran() -> Report:
    return report([build(FLOAT, 1_122_000), build(INT8, 291_000)], [])


def one_build() -> Report:
    return report(
        [build(FLOAT, 1_122_000)],
        [baseline(accuracy=None)],
        recommendation=Recommendation(None, None, Reason("only_baseline")),
    )


STATES = {f.__name__: f for f in (all_pass, two_models, failures, nothing_measured, nothing_ran, one_build)}
