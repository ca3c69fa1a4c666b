"""The judge of edge inputs: what counts against a build, and what an error that was measured explains."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from phoneproof.protocol.attempts import BadEnd, CaseEnd, Outcome
from phoneproof.protocol.events import CaseError
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.verify.edge import EdgeJudgement, JudgedOutput, Taken, edge_gate, judge_edge
from phoneproof.verify.edge_outputs import bad_ends, judged_outputs
from phoneproof.verify.parity import parity_of_chunks
from phoneproof.verify.verdicts import Reason

RANGES: Any = ("in_range", "out_of_range", "not_finite")
SCORES = JudgedOutput("scores", 0, None, error=0.5, peak=10.0, samples=20, is_scored=True)
NUMBERS = st.floats(-100, 100, width=32)


def gave(*values: Any) -> Taken:
    return Taken("passed", None, (np.array(values, np.float32),))


def ended(outcome: Outcome, cause: str = "signal", code: int | None = 11) -> Taken:
    return Taken(outcome, BadEnd(outcome, cause, "high", code), None)


def judged(
    reference: Taken | None, build: Taken, output: JudgedOutput = SCORES, range_: Any = "in_range"
) -> Any:
    found = judge_edge(range_, reference, build, (output,))
    return found.verdict, found.reason.id


@pytest.mark.parametrize("range_", RANGES)
@pytest.mark.parametrize(
    ("outcome", "reason"),
    [("crashed", "edge_crashed"), ("timed_out", "edge_hung"), ("killed_low_memory", "edge_out_of_memory")],
)
def test_a_crash_or_hang_fails_in_every_range(range_: Any, outcome: Any, reason: str) -> None:
    assert judged(gave(1, 2), ended(outcome), range_=range_) == ("fail", reason)
    assert judged(None, ended(outcome), range_=range_) == ("fail", reason)
    assert judged(ended("crashed"), ended(outcome), range_=range_) == ("fail", reason)


def test_an_error_is_a_failure_in_range_only() -> None:
    error = CaseError("RuntimeError", "index 9 is out of bounds")
    raised = Taken("failed", BadEnd("failed", "error", "high", None, error), None)
    for range_, verdict in zip(RANGES, ("fail", "pass", "pass"), strict=True):
        found = judge_edge(range_, gave(1, 2), raised, (SCORES,))
        assert (found.verdict, found.reason.id) == (verdict, "edge_refused")
        assert found.reason.facts["error"] == "RuntimeError: index 9 is out of bounds"


RAISED = Taken("failed", BadEnd("failed", "error", "high", None, CaseError("RuntimeError", "bad")), None)


@pytest.mark.parametrize("range_", RANGES[1:])
def test_an_error_of_one_side_alone_is_told_beyond_the_data(range_: Any) -> None:
    told = judge_edge(range_, RAISED, gave(1, 2), (SCORES,)).reason.facts
    assert (told["float_gives"], told["build_gives"]) == ("an error", "numbers from 1 to 2")
    told = judge_edge(range_, gave(1, 2), RAISED, (SCORES,)).reason.facts
    assert (told["float_gives"], told["build_gives"]) == ("numbers from 1 to 2", "an error")
    for reference in (RAISED, None, ended("crashed")):
        assert "float_gives" not in judge_edge(range_, reference, RAISED, (SCORES,)).reason.facts


def test_where_the_source_model_ends_as_the_build_does_is_told() -> None:
    facts = judge_edge("in_range", ended("timed_out"), ended("timed_out"), (SCORES,)).reason.facts
    assert facts["source_too"] is True
    for reference in (None, gave(1), RAISED, ended("crashed")):
        assert "source_too" not in judge_edge("in_range", reference, ended("timed_out"), ()).reason.facts


@given(arrays.arrays(np.float32, 4), arrays.arrays(np.float32, 4), st.sampled_from(RANGES[1:]))
def test_out_of_range_no_output_fails(reference: Any, build: Any, range_: Any) -> None:
    verdict, _ = judged(gave(*reference), gave(*build), range_=range_)
    assert verdict == "pass"


@given(arrays.arrays(np.float32, 5, elements=NUMBERS), st.floats(0, 50), st.data())
def test_nothing_within_the_measured_error_fails(reference: Any, error: float, data: st.DataObject) -> None:
    noise = data.draw(arrays.arrays(np.float32, 5, elements=st.floats(-1, 1, width=32)))
    output = JudgedOutput("y", 0, None, error * 1.0001 + 1e-4, 100.0, 20, is_scored=True)
    assert judged(gave(*reference), gave(*(reference + noise * np.float32(error))), output)[0] == "pass"


@given(arrays.arrays(np.float64, 5, elements=NUMBERS), st.floats(0, 50))
def test_a_flip_that_errors_do_not_explain_fails(reference: Any, error: float) -> None:
    first = int(reference.argmax())
    margin = reference[first] - np.delete(reference, first).max()
    assume(margin > 2 * error + 1e-3)
    build = reference.copy()
    build[first] = reference.min() - 1
    output = JudgedOutput("y", 0, None, error, 100.0, 20, is_scored=True)
    taken = Taken("passed", None, (reference,)), Taken("passed", None, (build,))
    assert judged(*taken, output) == ("fail", "edge_flipped")
    unscored = JudgedOutput("y", 0, None, error, 100.0, 20)
    assert judged(*taken, unscored)[0] == "pass"


@pytest.mark.parametrize(
    ("reference", "build", "expected"),
    [
        ((1.0, 4.0, 2.0), (1.0, 4.0, 2.0), ("pass", "edge_passed")),
        ((1.0, 4.0, 2.0), (3.0, 2.0, 1.0), ("fail", "edge_flipped")),  # by 2, and two errors are 1
        ((1.0, 2.9, 2.0), (1.0, 2.0, 3.0), ("pass", "edge_passed")),  # by 0.9
        ((1.0, 4.0, 2.0), (4.0, 4.0, 2.0), ("pass", "edge_passed")),  # first beside another
        ((1.0, 4.0, 2.0), (0.0, 0.0, 0.0), ("fail", "edge_constant")),
        ((1.0, 1.5, 1.2), (0.0, 0.0, 0.0), ("pass", "edge_passed")),  # no more apart than errors
        ((1.0, 4.0, 2.0), (1.0, np.nan, 2.0), ("fail", "edge_nonfinite")),
        ((1.0, 4.0, 2.0), (1.0, np.inf, 2.0), ("fail", "edge_nonfinite")),
        ((1.0, np.nan, 2.0), (1.0, np.nan, 2.0), ("pass", "edge_reference_nonfinite")),
        ((1.0, np.nan, 2.0), (0.0, 0.0, 0.0), ("pass", "edge_reference_nonfinite")),
        ((np.nan, 4.0, 2.0), (1.0, np.nan, 2.0), ("fail", "edge_nonfinite")),
        ((3.0, 12.0, 9.0), (3.0, 9.0, 12.0), ("fail", "edge_flipped")),  # a little beyond the set's peak
        # Four times the greatest output of the evaluation set: four times the error, and no flip fails.
        ((10.0, 40.0, 37.0), (10.0, 37.0, 40.0), ("pass", "edge_passed")),
        ((10.0, 40.0, 35.0), (10.0, 35.0, 40.0), ("pass", "edge_flipped_beyond")),
        ((10.0, 40.0, 35.0), (9.0, 9.0, 9.0), ("fail", "edge_constant")),
    ],
)
def test_outputs_in_range(reference: Any, build: Any, expected: Any) -> None:
    assert judged(gave(*reference), gave(*build)) == expected


QUANTIZED = JudgedOutput("y", 0, (-1.0, 1.0), error=0.1, peak=1.0, samples=20)


@pytest.mark.parametrize(
    ("reference", "build", "expected"),
    [
        ((-0.2, 0.3), (-1.0, 1.0), ("fail", "edge_railed")),
        ((-0.95, 0.95), (-1.0, 1.0), ("pass", "edge_passed")),  # as near the ends as it errs
        ((-5.0, 5.0), (-1.0, 1.0), ("pass", "edge_passed")),  # the range ends there
        ((-0.2, 0.3), (-1.0, 0.9), ("pass", "edge_passed")),  # not all of them
    ],
)
def test_a_quantized_output_at_the_ends_of_its_range(reference: Any, build: Any, expected: Any) -> None:
    assert judged(gave(*reference), gave(*build), QUANTIZED) == expected
    float_output = JudgedOutput("y", 0, None, error=0.1, peak=1.0, samples=20)
    assert judged(gave(*reference), gave(*build), float_output)[0] == "pass"


def test_without_something_to_judge_by_it_is_open_in_range() -> None:
    build = gave(1.0, 2.0)
    unknown = JudgedOutput("y", 0, None, None, 1.0, 0)
    cases: list[tuple[Taken | None, tuple[JudgedOutput, ...], str]] = [
        (None, (SCORES,), "reference_failed"),
        (ended("crashed"), (SCORES,), "reference_crashed"),
        (ended("timed_out"), (SCORES,), "reference_hung"),
        (Taken("passed", None, None), (SCORES,), "reference_lost"),
        (gave(1.0, 2.0), (), "outputs_differ"),
        (gave(1.0, 2.0, 3.0), (SCORES,), "outputs_differ"),
        (gave(1.0, 2.0), (unknown,), "no_error_measured"),
    ]
    for reference, outputs, why in cases:
        found = judge_edge("in_range", reference, build, outputs)
        assert (found.verdict, found.reason.id, found.reason.facts["why"]) == (
            "inconclusive",
            "edge_not_compared",
            why,
        )
    assert judge_edge("out_of_range", None, build, (SCORES,)).verdict == "pass"
    assert judged(gave(1.0, 2.0), Taken("passed", None, None)) == ("inconclusive", "edge_not_compared")


def test_labels_are_judged_by_their_end_alone() -> None:
    labels = JudgedOutput("y", 0, None, None, 0.0, 20, is_labels=True)
    found = judge_edge("in_range", Taken("passed", None, (np.array([3]),)), gave(1), (labels,))
    assert found.verdict == "pass"


def test_a_failure_of_one_output_outweighs_a_doubt_about_another() -> None:
    reference = Taken("passed", None, (np.array([1.0, 2.0]), np.array([1.0, 2.0])))
    build = Taken("passed", None, (np.array([np.nan, 2.0]), np.array([1.0, 2.0])))
    outputs = (JudgedOutput("a", 1, None, None, 1.0, 0), JudgedOutput("b", 0, None, 0.1, 1.0, 20))
    found = judge_edge("in_range", reference, build, outputs)
    assert (found.verdict, found.reason.facts["output"]) == ("fail", "b")


def test_the_gate_is_the_worst_of_all() -> None:
    passed, failed, open_ = (
        EdgeJudgement(verdict, Reason("edge_passed")) for verdict in ("pass", "fail", "inconclusive")
    )
    assert edge_gate({}) is None
    for judged_, verdict, names in (
        ({"a": passed}, "pass", None),
        ({"a": passed, "b": open_}, "inconclusive", ("b",)),
        ({"a": failed, "b": open_, "c": passed}, "fail", ("a",)),
    ):
        gate = edge_gate(judged_)
        assert gate is not None
        assert (gate.id, gate.verdict, gate.reason.facts.get("inputs")) == ("edge", verdict, names)


def test_what_is_known_of_a_build_becomes_what_it_is_judged_by() -> None:
    pairs = [(np.array([[1.0, -3.0]]), np.array([[1.25, -3.0]]))]
    reference = (TensorSpec("scores", "float32", (1, 2)), TensorSpec("label", "int64", (1,)))
    build = (TensorSpec("label", "int32", (1,)), TensorSpec("scores", "int8", (1, 2), 0.5, -128))
    parity = {"scores": parity_of_chunks(pairs)}
    scores, label = judged_outputs(reference, build, parity, {"scores": 3.0}, "scores")
    assert (scores.position, scores.ends, scores.error, scores.peak) == (1, (0.0, 127.5), 0.25, 3.0)
    assert (scores.is_scored, scores.is_labels, label.is_labels, label.error) == (True, False, True, None)
    assert scores.error_at(6.0) == 0.5
    assert scores.error_at(1.0) == 0.25
    assert judged_outputs(reference, build[:1], parity, {}, None) == ()


def test_samples_of_a_case_that_was_never_begun_ended_as_it_did() -> None:
    bad = BadEnd("not_run", "load", "high")
    assert bad_ends(CaseEnd("c", "not_run", bad), 2) == {0: bad, 1: bad}
    assert bad_ends(CaseEnd("c", "passed"), 2) == {}
    crash = BadEnd("crashed", "signal", "high", 11)
    assert bad_ends(CaseEnd("c", "crashed", crash, {1: crash}), 2) == {1: crash}
