"""junit.xml read back by another reader: what failed there failed in the report."""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phoneproof.report.foreign import visible
from phoneproof.report.junit import junit_text
from phoneproof.report.model import Report
from tests.report import reports, states
from tests.report.test_hostile_text import HOSTILE, poisoned


def suites(report: Report) -> dict[str, ET.Element]:
    return {str(suite.get("name")): suite for suite in ET.fromstring(junit_text(report)).iter("testsuite")}


def endings(suite: ET.Element, kind: str) -> dict[str, str]:
    return {
        str(case.get("name")): str(found.get("message"))
        for case in suite.iter("testcase")
        for found in case.iter(kind)
    }


def test_each_result_is_a_suite_and_the_builds_are_one() -> None:
    report = reports.failures()
    read = suites(report)
    assert len(read) == 1 + len(report.results)
    assert "digits/onnx/onnx-int8, onnxruntime, unknown (asked: nnapi), 4 threads, pixel, simulated" in read


@pytest.mark.parametrize("state", states.STATES)
def test_the_numbers_of_a_suite_are_those_of_its_cases(state: str) -> None:
    whole = ET.fromstring(junit_text(states.STATES[state]()))
    for suite in (whole, *whole.iter("testsuite")):
        assert int(suite.get("tests", "")) == len(list(suite.iter("testcase")))
        for kind, number in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(suite.get(number, "")) == len(list(suite.iter(kind)))


def test_a_gate_that_fails_is_a_failure_and_an_inconclusive_one_is_skipped_with_its_reason() -> None:
    report = reports.failures()
    suite = suites(report)["digits/onnx/onnx-int8, onnxruntime, cpu, 1 thread, host"]
    assert set(endings(suite, "failure")) >= {"gate: Parity", "gate: Outcomes"}
    assert "7.3 dB" in endings(suite, "failure")["gate: Parity"]
    doubtful = reports.report(
        [], [reports.result(reports.INT8, gates=(reports.gate("speed", "inconclusive", "build_failed"),))]
    )
    (told,) = suites(doubtful).values()
    assert endings(told, "skipped") == {"gate: Speed": "Inconclusive: The build failed."}
    assert endings(told, "failure") == endings(told, "error") == {}


def test_crashes_and_builds_that_failed_are_errors() -> None:
    read = suites(reports.failures())
    crashed = endings(read["digits/onnx/onnx-int8, onnxruntime, cpu, 1 thread, host"], "error")
    assert crashed == {"case: edge:all-nan, sample all-nan": "crashed: signal SIGSEGV"}
    built = endings(read["builds"], "error")
    assert built == {
        "digits/onnx/onnx-int8-qoperator": "The converter does not know the operator GridSample."
    }
    (error,) = read["builds"].iter("error")
    assert "Keep the layer in float" in str(error.text)


def test_edge_inputs_are_cases_of_their_own() -> None:
    suite = suites(states.edge_failures())["digits/onnx/onnx-int8, onnxruntime, cpu, 1 thread, host"]
    assert set(endings(suite, "error")) == {"edge input: nan", "edge input: huge"}
    assert "edge input: checkerboard" in endings(suite, "failure")


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_changes_no_element(text: str) -> None:
    plain, hostile = (
        [element.tag for element in ET.fromstring(junit_text(poisoned(reports.failures(), one))).iter()]
        for one in ("harmless", text)
    )
    assert hostile == plain


@settings(max_examples=30)
@given(st.text(alphabet=st.characters() | st.sampled_from("<>&\"']]\n\t"), min_size=1, max_size=60))
def test_any_text_comes_back(text: str) -> None:
    report = poisoned(reports.failures(), text)
    (builds,) = [suite for name, suite in suites(report).items() if name == "builds"]
    names = {case.get("name") for case in builds.iter("testcase")}
    assert names == {visible(text)}
