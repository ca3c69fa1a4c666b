"""Each gate at, inside and beyond its limit, and with what it judges unknown."""

import math
from typing import Any

import numpy as np
import pytest

from phoneproof.verify.accuracy import AccuracyDrop
from phoneproof.verify.comparison import Comparison
from phoneproof.verify.gates import (
    Limits,
    OutputParityOf,
    PrecisionClass,
    accuracy_gate,
    fallback_gate,
    latency_gate,
    outcomes_gate,
    parity_gate,
    size_gate,
    speed_gate,
)
from phoneproof.verify.intervals import Interval
from phoneproof.verify.parity import (
    LabelParity,
    OutputParity,
    ParityAccumulator,
    label_parity_of_chunks,
)
from phoneproof.verify.slices import WorstSlice
from phoneproof.verify.verdicts import GateResult, Reason, overall

PASSED = GateResult("accuracy", "pass", Reason("gate_passed"))
UNDECIDED = GateResult("accuracy", "inconclusive", Reason("accuracy_undecided"))
LOST = GateResult("accuracy", "fail", Reason("accuracy_dropped"))


def parity(sqnr_db: float | None, worst_slice_db: float | None = None, **changes: Any) -> OutputParity:
    worst = () if worst_slice_db is None else (WorstSlice(1, 4, worst_slice_db),)
    facts: dict[str, Any] = {
        "samples": 10,
        "sqnr_db": sqnr_db,
        "exact": False,
        "reason": None,
        "mse": 0.1,
        "max_abs_error": 0.1,
        "cosine": 0.9,
        "worst_sample": None,
        "worst_slices": worst,
        "reference_nonfinite": 0,
        "build_nonfinite": 0,
        "nonfinite_mismatches": 0,
        "first_nonfinite_sample": None,
    }
    return OutputParity(**(facts | changes))


def judge(
    *outputs: OutputParity | LabelParity,
    precision: PrecisionClass = "int8",
    accuracy: GateResult | None = None,
    limits: Limits | None = None,
) -> GateResult:
    named = [OutputParityOf(f"y{i}", one) for i, one in enumerate(outputs)]
    return parity_gate(named, precision, limits or Limits(), accuracy)


@pytest.mark.parametrize(
    ("precision", "sqnr_db", "verdict"),
    [
        ("float32", 60.0, "pass"),
        ("float32", 59.999, "fail"),
        ("float16", 40.0, "pass"),
        ("float16", 39.999, "fail"),
        ("int8", 20.0, "pass"),
        ("int8", 19.999, "inconclusive"),
        ("int8", 10.0, "inconclusive"),
        ("int8", 9.999, "fail"),
        ("int8", -3.0, "fail"),
    ],
)
def test_parity_at_its_limits(precision: PrecisionClass, sqnr_db: float, verdict: str) -> None:
    assert judge(parity(sqnr_db), precision=precision).verdict == verdict


@pytest.mark.parametrize(
    ("accuracy", "verdict"),
    [(PASSED, "pass"), (UNDECIDED, "inconclusive"), (LOST, "inconclusive"), (None, "inconclusive")],
)
def test_only_a_passing_accuracy_rescues_a_doubtful_parity(accuracy: GateResult | None, verdict: str) -> None:
    found = judge(parity(15.0), accuracy=accuracy)
    assert found.verdict == verdict
    if verdict == "pass":
        assert found.reason == Reason("parity_rescued_by_accuracy", {"output": "y0", "sqnr_db": 15.0})


def test_accuracy_rescues_no_failed_parity() -> None:
    assert judge(parity(15.0), parity(9.0), accuracy=PASSED).verdict == "fail"


def test_the_limits_of_the_plan_are_used() -> None:
    limits = Limits(float32_db=90.0, int8_db=30.0, int8_fail_db=25.0)
    assert judge(parity(80.0), precision="float32", limits=limits).verdict == "fail"
    assert judge(parity(27.0), limits=limits).verdict == "inconclusive"
    assert judge(parity(24.0), limits=limits).verdict == "fail"


def test_the_worst_output_gives_the_reason() -> None:
    found = judge(parity(40.0), parity(8.0), parity(2.0), parity(15.0))
    assert found.reason.facts["output"] == "y2"
    assert found.reason.facts["sqnr_db"] == 2.0
    undefined = judge(parity(2.0), parity(None, reason="non_finite_build"))
    assert undefined.reason == Reason("parity_undefined", {"output": "y1", "why": "non_finite_build"})


def test_a_worst_slice_above_the_whole_is_not_told_as_the_place() -> None:
    assert judge(parity(5.0, 6.0)).reason.facts["slice"] is None
    assert judge(parity(30.0, 6.0)).reason.facts["slice"] == "axis 1, index 4"


@pytest.mark.parametrize(
    ("reason", "verdict"),
    [("non_finite_build", "fail"), ("zero_reference", "fail"), ("non_finite_reference", "inconclusive")],
)
def test_a_distance_that_is_not_defined_never_passes(reason: str, verdict: str) -> None:
    assert judge(parity(None, reason=reason), accuracy=PASSED).verdict == verdict


def test_equal_outputs_pass_and_nothing_measured_does_not() -> None:
    assert judge(parity(None, exact=True)).verdict == "pass"
    assert judge().reason == Reason("not_measured", {"why": "not_run"})
    assert judge().verdict == "inconclusive"


def test_labels_that_differ_are_for_accuracy_to_judge() -> None:
    labels = np.arange(6).reshape(6, 1)
    other = labels.copy()
    other[2] = 0
    differ = label_parity_of_chunks([(labels, other)])
    assert judge(label_parity_of_chunks([(labels, labels)])).verdict == "pass"
    assert judge(differ).reason.id == "labels_differ"
    assert judge(differ).verdict == "inconclusive"
    assert judge(differ, accuracy=PASSED).verdict == "pass"


def detections(draw: np.random.Generator, scores: bool) -> np.ndarray[Any, np.dtype[np.float32]]:
    """20 samples of 6 rows (centre, size in pixels, two scores) for 50 boxes."""
    boxes = draw.uniform(0, 640, (20, 4, 50))
    found = draw.uniform(0, 1, (20, 2, 50)) if scores else np.zeros((20, 2, 50))
    return np.concatenate([boxes, found], axis=1).astype(np.float32)


def test_scores_that_are_all_zero_beside_right_boxes_fail_by_their_slice() -> None:
    reference = detections(np.random.default_rng(0), scores=True)
    build = reference.copy()
    build[:, 4:] = 0
    accumulator = ParityAccumulator(reference.shape[1:])
    accumulator.add(reference, build)
    whole = accumulator.result()
    assert whole.sqnr_db is not None
    assert whole.sqnr_db > 40
    found = judge(whole, accuracy=PASSED)
    assert found.verdict == "fail"
    assert found.reason.id == "parity_below"
    assert str(found.reason.facts["slice"]) in ("axis 0, index 4", "axis 0, index 5")


@pytest.mark.parametrize(
    ("outcomes", "load_failed", "verdict", "reason"),
    [
        ({"passed": 3}, False, "pass", "gate_passed"),
        ({"passed": 3, "failed": 0}, False, "pass", "gate_passed"),
        ({"passed": 3, "failed": 1}, False, "fail", "cases_ended_badly"),
        ({"passed": 3, "crashed": 1, "not_run": 9}, False, "fail", "cases_ended_badly"),
        ({"passed": 3, "killed_low_memory": 1}, False, "fail", "cases_ended_badly"),
        ({"passed": 3, "timed_out": 1}, False, "fail", "cases_ended_badly"),
        ({"passed": 3, "device_lost": 1, "not_run": 9}, False, "inconclusive", "cases_ended_badly"),
        ({"passed": 3, "not_run": 1}, False, "inconclusive", "cases_ended_badly"),
        ({"failed": 1, "not_run": 2}, True, "fail", "load_failed"),
        ({}, False, "inconclusive", "not_measured"),
    ],
)
def test_outcomes(outcomes: Any, load_failed: bool, verdict: str, reason: str) -> None:
    found = outcomes_gate(outcomes, load_failed)
    assert (found.verdict, found.reason.id) == (verdict, reason)


@pytest.mark.parametrize(
    ("actual", "allowed", "verdict"),
    [
        ("nnapi", False, "pass"),
        ("cpu", False, "fail"),
        ("cpu+nnapi", False, "fail"),
        (None, False, "inconclusive"),
        ("", False, "fail"),
        (None, True, None),
        ("cpu", True, None),
    ],
)
def test_fallback(actual: str | None, allowed: bool, verdict: str | None) -> None:
    found = fallback_gate("nnapi", actual, allowed)
    assert (found.verdict if found else None) == verdict


def drop(
    value: float | None, lo: float | None = None, hi: float | None = None, **changes: Any
) -> AccuracyDrop:
    interval = None if lo is None or hi is None else Interval(lo, hi)
    return AccuracyDrop(100, 0.9, 0.9 - (value or 0.0), value, interval, "tango", **changes)


@pytest.mark.parametrize(
    ("one", "verdict", "reason"),
    [
        (drop(0.0, -0.01, 0.01), "pass", "gate_passed"),
        (drop(0.0, -0.01, 0.0100001), "inconclusive", "accuracy_undecided"),
        (drop(0.02, 0.01, 0.03), "inconclusive", "accuracy_undecided"),
        (drop(0.02, 0.0100001, 0.03), "fail", "accuracy_dropped"),
        (drop(-0.05, -0.08, -0.02), "pass", "gate_passed"),
        (drop(0.5, missing="one_number_for_the_set"), "inconclusive", "accuracy_without_interval"),
        (drop(None, missing="non_finite_score"), "inconclusive", "accuracy_without_interval"),
    ],
)
def test_accuracy_at_its_limit(one: AccuracyDrop, verdict: str, reason: str) -> None:
    found = accuracy_gate({"top1": one}, 0.01, {})
    assert found is not None
    assert (found.verdict, found.reason.id) == (verdict, reason)


def test_all_metrics_are_judged_and_the_worst_decides() -> None:
    good, doubtful, bad = drop(0.0, -0.01, 0.0), drop(0.01, 0.0, 0.03), drop(0.2, 0.1, 0.3)
    for order in ([good, doubtful, bad], [bad, good, doubtful]):
        found = accuracy_gate({f"m{i}": one for i, one in enumerate(order)}, 0.01, {})
        assert found is not None
        assert found.verdict == "fail"
        assert found.reason.facts["metric"] == f"m{order.index(bad)}"


def test_one_metric_that_is_missing_is_enough_not_to_pass() -> None:
    missing = {"own:metric": Reason.of("not_measured", why="metric_failed")}
    found = accuracy_gate({"top1": drop(0.0, -0.01, 0.0)}, 0.01, missing)
    assert found is not None
    assert (found.verdict, found.reason) == ("inconclusive", missing["own:metric"])
    failed = accuracy_gate({"top1": drop(0.2, 0.1, 0.3)}, 0.01, missing)
    assert failed is not None
    assert failed.verdict == "fail"
    none = accuracy_gate({}, 0.01, {})
    assert none is not None
    assert none.verdict == "inconclusive"


def comparison(ratio: float | None, lo: float | None = None, hi: float | None = None) -> Comparison:
    interval = None if lo is None or hi is None else Interval(lo, hi)
    return Comparison(ratio, interval, "too_noisy", 20, 20.0, 0.03)


@pytest.mark.parametrize(
    ("one", "verdict", "reason"),
    [
        (comparison(1.6, 1.5, 1.7), "pass", "gate_passed"),
        (comparison(1.6, 1.49, 1.7), "inconclusive", "speed_undecided"),
        (comparison(1.4, 1.3, 1.5), "inconclusive", "speed_undecided"),
        (comparison(1.4, 1.3, 1.49), "fail", "speed_below"),
        (comparison(1.6), "inconclusive", "not_measured"),
        (comparison(None), "inconclusive", "not_measured"),
        (None, "inconclusive", "not_measured"),
    ],
)
def test_speed_at_its_limit(one: Comparison | None, verdict: str, reason: str) -> None:
    found = speed_gate(one, 1.5, parity_passed=True, why_missing=None)
    assert found is not None
    assert (found.verdict, found.reason.id) == (verdict, reason)


def test_no_speed_counts_without_parity() -> None:
    for one in (comparison(9.0, 8.0, 10.0), comparison(0.1, 0.05, 0.2), None):
        found = speed_gate(one, 1.5, parity_passed=False, why_missing=None)
        assert found is not None
        assert (found.verdict, found.reason.id) == ("inconclusive", "speed_not_shown")


@pytest.mark.parametrize(
    ("median", "interval", "verdict"),
    [
        (5.0, Interval(4.0, 10.0), "pass"),
        (5.0, Interval(4.0, 10.1), "inconclusive"),
        (11.0, Interval(10.0, 12.0), "inconclusive"),
        (11.0, Interval(10.1, 12.0), "fail"),
        (5.0, None, "inconclusive"),
        (None, None, "inconclusive"),
    ],
)
def test_latency_at_its_limit(median: float | None, interval: Interval | None, verdict: str) -> None:
    found = latency_gate(median, interval, 10.0)
    assert found is not None
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [(0.3, "pass"), (0.3000001, "fail"), (0.0, "pass"), (None, "inconclusive"), (math.inf, "fail")],
)
def test_size_at_its_limit(ratio: float | None, verdict: str) -> None:
    found = size_gate(ratio, 0.3)
    assert found is not None
    assert found.verdict == verdict


def test_a_gate_that_is_not_set_is_not_judged() -> None:
    assert accuracy_gate({"top1": drop(0.9, 0.8, 1.0)}, None, {}) is None
    assert speed_gate(comparison(0.1, 0.1, 0.1), None, parity_passed=True, why_missing=None) is None
    assert latency_gate(1e9, None, None) is None
    assert size_gate(99.0, None) is None


def gate(name: Any, verdict: Any) -> GateResult:
    return GateResult(name, verdict, Reason(f"{name} is {verdict}"))


def test_the_worst_gate_decides_and_the_first_such_gives_the_reason() -> None:
    mixed = [gate("outcomes", "pass"), gate("parity", "inconclusive"), gate("size", "fail")]
    assert overall(mixed) == ("fail", Reason("size is fail"))
    two = [gate("parity", "inconclusive"), gate("accuracy", "inconclusive"), gate("size", "pass")]
    assert overall(two) == ("inconclusive", Reason("parity is inconclusive"))
    assert overall([gate("outcomes", "pass")]) == ("pass", Reason("gate_passed"))


def test_no_gate_at_all_never_passes() -> None:
    assert overall([])[0] == "inconclusive"
