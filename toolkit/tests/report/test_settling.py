"""Everything that can be open has an instruction that settles it, with the number where there is one."""

import ast
import typing
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import phoneproof
from phoneproof.report import sentences
from phoneproof.report.edge_sentences import EDGE_WHYS
from phoneproof.report.settling import SETTLED_BY, SETTLED_WHY, settling, undecided, what_settles
from phoneproof.report.words import OUTCOMES
from phoneproof.verify.accuracy import AccuracyDrop, MissingInterval
from phoneproof.verify.comparison import Comparison, NoiseReason
from phoneproof.verify.gates import (
    Limits,
    OutputParityOf,
    accuracy_gate,
    fallback_gate,
    latency_gate,
    outcomes_gate,
    parity_gate,
    size_gate,
    speed_gate,
)
from phoneproof.verify.intervals import Interval
from phoneproof.verify.latency import ValidityReason
from phoneproof.verify.parity import LabelParity, OutputParity
from phoneproof.verify.verdicts import GateResult, Reason
from tests.report import reports
from tests.report.test_sentences import REASONS

PACKAGE = Path(phoneproof.__file__).parent
BY_WHY = {"not_measured", "accuracy_without_interval"}

numbers = st.floats(0.01, 10)


@st.composite
def intervals(draw: st.DrawFn) -> Interval | None:
    value, below, above = draw(numbers), draw(numbers), draw(numbers)
    return draw(
        st.sampled_from([None, Interval(value, value), Interval(max(value - below, 1e-3), value + above)])
    )


def middle(interval: Interval | None) -> float:
    return 1.0 if interval is None else (interval.lo * interval.hi) ** 0.5


@st.composite
def gates(draw: st.DrawFn) -> GateResult | None:
    """The verdict of any gate on anything that can be measured."""
    interval, limit = draw(intervals()), draw(numbers)
    share = draw(st.sampled_from([None, 0.0, 0.5]))
    value = middle(interval)
    match draw(st.sampled_from(["outcomes", "fallback", "parity", "accuracy", "speed", "latency", "size"])):
        case "outcomes":
            counts = draw(st.dictionaries(st.sampled_from(list(OUTCOMES)), st.integers(0, 3)))
            return outcomes_gate(counts, draw(st.booleans()))
        case "fallback":
            return fallback_gate("gpu", draw(st.sampled_from([None, "cpu", "gpu"])), draw(st.booleans()))
        case "parity":
            return parity_gate(draw(st.lists(outputs(), max_size=3)), "int8", Limits(), None)
        case "accuracy":
            missing = draw(st.sampled_from([None, *typing.get_args(MissingInterval)]))
            drop = AccuracyDrop(50, 0.9, 0.8, value, interval, "paired_t", None if interval else missing)
            why = draw(st.sampled_from(["no_labels", "metric_failed", "reference_failed", "not_run"]))
            absent = draw(st.sampled_from([{}, {"map": Reason.of("not_measured", why=why, metric="map")}]))
            return accuracy_gate(draw(st.sampled_from([{}, {"top1": drop}])), limit, absent)
        case "speed":
            reason: Any = "machine_busy" if share == 0.5 else None
            timed = Comparison(value, interval, "faster", 20, 20, 0.03, reason, share)
            why = draw(st.sampled_from(["reference_fidelity", "load_failed", "not_run"]))
            return speed_gate(draw(st.sampled_from([None, timed])), limit, draw(st.booleans()), why)
        case "latency":
            return latency_gate(draw(st.sampled_from([None, value])), interval, limit, share)
        case _:
            return size_gate(draw(st.sampled_from([None, 0.5])), limit)


@st.composite
def outputs(draw: st.DrawFn) -> OutputParityOf:
    if draw(st.booleans()):
        return OutputParityOf("label", LabelParity(5, draw(st.sampled_from([0.5, 1.0])), 3, 1))
    reason: Any = draw(st.sampled_from([None, "non_finite_reference", "non_finite_build", "zero_reference"]))
    sqnr = None if reason else draw(st.floats(0, 60))
    return OutputParityOf("y", OutputParity(5, sqnr, False, reason, 1.0, 1.0, 0.5, None, (), 0, 0, 0, None))


@given(gates())
def test_whatever_a_gate_leaves_open_has_an_instruction(gate: GateResult | None) -> None:
    if gate is not None and gate.verdict == "inconclusive":
        said = what_settles(gate.reason)
        assert said is not None, gate.reason
        assert "unknown" not in said, (gate.reason, said)
        assert "{" not in said


def _open_reasons() -> Iterator[str]:
    """Ids of reasons that are written out where a verdict is called inconclusive."""
    for path in (*(PACKAGE / "verify").glob("*.py"), *(PACKAGE / "runs").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) != "GateResult":
                continue
            if len(node.args) == 3 and "inconclusive" in ast.unparse(node.args[1]):
                for part in ast.walk(node.args[2]):
                    if (
                        isinstance(part, ast.Call)
                        and ast.unparse(part.func) in ("Reason", "Reason.of")
                        and isinstance(part.args[0], ast.Constant)
                    ):
                        yield str(part.args[0].value)


def test_every_reason_that_leaves_a_verdict_open_has_an_instruction() -> None:
    found = set(_open_reasons())
    assert {"accuracy_undecided", "speed_undecided", "edge_undecided"} <= found
    assert found - set(SETTLED_BY) - BY_WHY == set()


def test_noise_and_latencies_that_do_not_count_have_instructions() -> None:
    ids = {*typing.get_args(NoiseReason), *typing.get_args(ValidityReason)}
    assert ids - set(SETTLED_BY) == set()


def test_every_why_has_an_instruction() -> None:
    whys = set(sentences.WHY_SENTENCES) - set(EDGE_WHYS)
    assert whys | set(typing.get_args(MissingInterval)) == set(SETTLED_WHY)


def test_no_instruction_is_of_a_reason_that_does_not_exist() -> None:
    assert set(SETTLED_BY) <= set(sentences.REASON_SENTENCES) | set(sentences.MEASURE_SENTENCES)


def test_numbers_stand_in_the_instruction_and_not_in_the_reason() -> None:
    facts = {**REASONS["accuracy_undecided"][0], "needed_samples": 2340}
    reason = Reason("accuracy_undecided", facts)
    assert "about 2,340 samples in all" in (what_settles(reason) or "")
    assert "890 were used" in (what_settles(reason) or "")
    assert "2340" not in sentences.reason_sentence(reason)
    assert "[data]" in (what_settles(reason) or "")


@pytest.mark.parametrize(
    ("reason", "facts", "words"),
    [
        ("speed_undecided", {"rounds": 20, "needed_rounds": 84}, "`rounds` in [benchmark] from 20 to 84"),
        ("wide_interval", {"rounds": 20, "needed_rounds": 84}, "`rounds` in [benchmark] from 20 to 84"),
        ("latency_undecided", {"needed_times": 3.21, "has_interval": True}, "to 3.21 times as many"),
        ("latency_undecided", {"needed_times": None, "has_interval": False}, "fewer than six timed runs"),
        (
            "latency_undecided",
            {"median_ms": 9.99, "limit_ms": 10.0, "has_interval": True},
            "`latency_max_ms`",
        ),
        ("accuracy_undecided", {"drop": 0.01, "limit": 0.01, "metric": "top1"}, "`accuracy_drop_max`"),
        ("speed_undecided", {"ratio": 1.5, "limit": 1.5, "needed_rounds": None}, "`speedup_min`"),
        ("wide_interval", {"needed_rounds": None}, "quieter machine"),
        ("not_measured", {"why": "no_labels"}, "evaluation set labels"),
    ],
)
def test_what_is_said(reason: str, facts: dict[str, Any], words: str) -> None:
    assert words in (what_settles(Reason(reason, facts)) or "")


def test_what_leaves_nothing_open_and_ids_of_other_versions_have_none() -> None:
    for reason in ("gate_passed", "accuracy_dropped", "brand_new"):
        assert what_settles(Reason(reason)) is None
    assert what_settles(Reason("not_measured", {"why": "brand_new"})) is None


def test_a_result_tells_each_instruction_once_gates_first() -> None:
    busy = Reason("machine_busy", {"share": 0.31, "largest": 0.02})
    gate = reports.gate("speed", "inconclusive", "speed_disturbed", share=0.31, largest=0.02)
    base = reports.result(reports.INT8)
    assert base.comparison is not None
    result = replace(
        base,
        gates=(*base.gates, gate),
        comparison=replace(base.comparison, verdict="too_noisy", reason=busy),
        latency=reports.latency(3.0, validity="INVALID", validity_reasons=(busy, Reason("clock_unknown"))),
    )
    told = settling(result)
    assert told == (what_settles(gate.reason), what_settles(Reason("clock_unknown")))
    assert settling(base) == ()


def test_only_results_that_are_open_are_listed() -> None:
    report = reports.all_pass()
    assert undecided(report) == ()
    gate = reports.gate("parity", "inconclusive", "labels_differ", output="label", agreement=0.9)
    result = replace(report.results[0], gates=(gate,), verdict="inconclusive", reason=gate.reason)
    ((found, said),) = undecided(replace(report, results=(result, *report.results[1:])))
    assert found == result
    assert "accuracy_drop_max" in said[0]
