"""Faults of what several builds share: an export, ranges, the inspection of a source."""

from pathlib import Path

import pytest

from phoneproof.errors import PhoneproofError, ToolchainError, WorkerError
from phoneproof.runs.run import ExitCode, FinishedRun
from tests.runs.project import Project, journal_of
from tests.runs.stood_in import SHARING, StoodIn, be_here, stand_in

EXPORT = "phoneproof.sources.export_onnx"
EXPORT_TENSORFLOW = "phoneproof.sources.export_onnx_tensorflow"
OF_ONNX = "phoneproof.quantize.calibrate"
OF_TFLITE = "phoneproof.quantize.calibrate_tflite"
OF_TORCH = "phoneproof.quantize.calibrate_torch"
INSPECTION = "phoneproof.sources.inspect"

EXPORTED = {"tiny/pytorch/onnx-float32", "tiny/pytorch/onnx-int8-dynamic"}
EXPORTED_TENSORFLOW = {"tiny/keras/onnx-float32", "tiny/keras/onnx-int8-dynamic"}
ONNX = {"tiny/onnx/onnx-int8", "tiny/onnx/onnx-int8/entropy"}
TFLITE = {"tiny/keras/tflite-int8"}
TORCH = {"tiny/pytorch/coreml-int8", "tiny/pytorch/executorch-int8"}

FAULTS = [
    {
        EXPORT: "segfault",
        OF_ONNX: "no-ranges",
        OF_TFLITE: "half-the-ranges",
        OF_TORCH: "ranges-of-another-set",
    },
    {EXPORT: "no-export", OF_ONNX: "ranges-not-asked-for", OF_TFLITE: "raise", OF_TORCH: "kill-itself"},
    {EXPORT: "half-an-export", EXPORT_TENSORFLOW: "no-export", OF_ONNX: "segfault"},
    {EXPORT: "another-export", OF_TORCH: "exit"},
]
SAID = {
    "segfault": "crashed with signal 11",
    "raise": "no kernel",
    "kill-itself": "signal 9",
    "exit": "code 3",
    "no-export": "model.onnx is missing",
    "half-an-export": "model.onnx is no whole model",
    "another-export": "its sha256 is another",
    "no-ranges": "are missing",
    "half-the-ranges": "cannot be read",
    "ranges-of-another-set": "of another method or calibration set",
    "ranges-not-asked-for": "not of the methods that were asked for",
}
NEEDS = {
    EXPORT: EXPORTED,
    EXPORT_TENSORFLOW: EXPORTED_TENSORFLOW,
    OF_ONNX: ONNX,
    OF_TFLITE: TFLITE,
    OF_TORCH: TORCH,
}


@pytest.fixture
def shared(blank: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoodIn:
    stood_in = stand_in(blank.copy(tmp_path / "project", tmp_path / "store"), SHARING)
    be_here(monkeypatch, stood_in)
    return stood_in


def errors_of(finished: FinishedRun) -> dict[str, PhoneproofError]:
    return {b.wanted.build_id: b.error for b in finished.builds if b.error is not None}


@pytest.mark.parametrize(
    "faults", [FAULTS[0], *(pytest.param(f, marks=pytest.mark.slow) for f in FAULTS[1:])]
)
def test_what_is_shared_fails_once_for_all_who_need_it(shared: StoodIn, faults: dict[str, str]) -> None:
    shared.say(faults)
    finished = shared.build()
    assert finished.exit_code == ExitCode.INCOMPLETE
    errors = errors_of(finished)
    assert set(errors) == set().union(*(NEEDS[module] for module in faults))
    for module, fault in faults.items():
        for build_id in NEEDS[module]:
            error = errors[build_id]
            assert SAID[fault] in error.what, (build_id, error)
            assert error.where == module or f"-m {module} " in str(error.facts["command"])
            assert f"vendor: {'' if isinstance(error, WorkerError) else 'wrote'}" in str(
                error.facts["log_tail"]
            )
            assert isinstance(error, (WorkerError, ToolchainError))
    begun = shared.worked()
    for module in faults:  # tried once, not once for each build
        assert sum(line == f"begin {module}" for line in begun) == 1

    shared.say()
    second = shared.build()
    assert errors_of(second) == {}
    again = [line for line in shared.worked() if line.startswith("begin ")]
    missing = set(errors)
    assert len(again) == len(faults) + len(missing), again
    lines = journal_of(second.folder)
    ended = [line.step for line in lines if line.entry == "step_finished"]
    assert len(ended) == len(set(ended))
    # Two toolchains share ranges: made for the first in the plan, whichever asks first.
    assert "ranges/tiny/pytorch/coreml" in ended
    planned = lines[0].facts["steps"]
    assert isinstance(planned, tuple)
    assert {step for step in planned if step.startswith(("ranges", "export", "build"))} <= set(ended)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        pytest.param("segfault", "signal 11", marks=pytest.mark.slow),
        ("no-program", "model.pt2 is missing"),
    ],
)
def test_a_source_that_cannot_be_inspected_ends_the_run_and_can_be_tried_again(
    shared: StoodIn, fault: str, said: str
) -> None:
    """Without its facts there is nothing that a build could be made from or be held against."""
    shared.say({INSPECTION: fault})
    with pytest.raises((WorkerError, ToolchainError), match=said) as raised:
        shared.build()
    assert raised.value.exit_code == ExitCode.INCOMPLETE
    assert "vendor: " in str(raised.value.facts["log_tail"])
    shared.say()
    assert errors_of(shared.build()) == {}
