"""What is told of builds beside their verdicts' numbers: unusual sizes, and what a reference leaves open."""

from dataclasses import replace
from typing import Any

import pytest

from phoneproof.builds.manifest import WideTensor
from phoneproof.jobs.planning import PlannedCase
from phoneproof.protocol.attempts import BadEnd, CaseEnd
from phoneproof.protocol.events import CaseError
from phoneproof.recipes.rows import recipe_named
from phoneproof.recipes.table import Precision
from phoneproof.report.sentences import finding_sentence, reason_sentence
from phoneproof.runs.building import FinishedBuild
from phoneproof.runs.measuring import Measurement
from phoneproof.runs.reporting import SMALLEST_JUDGED_BYTES, size_findings
from phoneproof.runs.results import precision_of, result_of
from phoneproof.verify.gates import Limits
from tests.report import reports
from tests.runs.test_results import FLOAT, HERE, INT8, measurement

DEVICE = reports.all_pass().results[0].device


def sized(build_id: str, size_bytes: int, *wide: WideTensor) -> FinishedBuild:
    build = measurement(build_id).build
    assert build.manifest is not None
    manifest = replace(build.manifest, size_bytes=size_bytes, wide_tensors=wide)
    return replace(build, manifest=manifest)


@pytest.mark.parametrize(("share", "unusual"), [(0.19, True), (0.21, False), (0.34, False), (0.36, True)])
def test_a_size_outside_the_band_of_its_recipe_is_a_finding(share: float, unusual: bool) -> None:
    band = recipe_named("onnx-int8").size_band
    assert band == (0.2, 0.35)
    baseline = 10 * SMALLEST_JUDGED_BYTES
    found = list(size_findings([sized(FLOAT, baseline), sized(INT8, int(baseline * share))]))
    assert [finding.id for finding in found] == ["BUILD-SIZE-UNUSUAL"] * unusual
    assert all(finding.subject == INT8 for finding in found)


def test_it_names_the_tensors_that_are_left_wide() -> None:
    baseline = 10 * SMALLEST_JUDGED_BYTES
    wide = WideTensor("embedding.weight", "float32", 700_000)
    (finding,) = size_findings([sized(FLOAT, baseline), sized(INT8, baseline, wide)])
    assert "embedding.weight (float32, 700000 B)" in finding_sentence(finding)
    assert finding.facts["ratio"] == 1.0


def test_small_builds_are_mostly_graph_and_are_not_judged_by_size() -> None:
    assert not list(size_findings([sized(FLOAT, 50_000), sized(INT8, 49_000)]))


def unloaded(error: CaseError) -> Measurement:
    case = PlannedCase("c.load", "load", INT8, HERE, "both")
    bad = BadEnd("failed", "error", "high", None, error)
    end = CaseEnd("c.load", "failed", bad=bad)
    return measurement(INT8, cases=((case, end),), parity=())


def test_an_operator_that_the_interpreter_lacks_leaves_the_build_undecided_and_is_named() -> None:
    unknown = unloaded(CaseError("UnsupportedOperatorError", "crop_resize (crop_1)"))
    result = result_of(unknown, Limits(), DEVICE, None, False, ())
    assert result.verdict == "inconclusive"
    assert {gate.id: gate.verdict for gate in result.gates} == {
        "outcomes": "inconclusive",
        "parity": "inconclusive",
    }
    assert "crop_resize (crop_1)" in reason_sentence(result.reason)


def test_any_other_error_of_a_load_fails_the_build() -> None:
    result = result_of(unloaded(CaseError("RuntimeError", "no")), Limits(), DEVICE, None, False, ())
    assert (result.verdict, result.reason.id) == ("fail", "load_failed")


@pytest.mark.parametrize(
    ("precision", "limit"),
    [
        (Precision.FLOAT32, "float32"),
        (Precision.FLOAT16, "float16"),
        (Precision.INT16X8, "int8"),
        (Precision.INT8, "int8"),
    ],
)
def test_a_build_is_held_to_the_limit_of_what_it_was_found_to_be(precision: Precision, limit: str) -> None:
    made: Any = measurement(INT8).build.manifest
    build = replace(measurement(INT8).build, manifest=replace(made, precision=precision))
    assert precision_of(replace(measurement(INT8), build=build)) == limit
