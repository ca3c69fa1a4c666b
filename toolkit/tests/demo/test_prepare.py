"""Preparing the demo: what an observer is told, and what is left alone."""

from pathlib import Path
from threading import Event

import pytest

from phoneproof.errors import DataError, Interrupted, PhoneproofError
from phoneproof.findings import Finding
from phoneproof.plan.model import read_plan
from phoneproof.runs.demo import STEP, prepare_demo


class Listening:
    """An observer that keeps what it is told of steps."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def stage(self, name: str) -> None:
        self.told.append(("stage", name))

    def started(self, step: str) -> None:
        self.told.append(("started", step))

    def progress(self, step: str, what: str, done: int | None, total: int | None) -> None:
        self.told.append(("progress", step, what, done, total))

    def finished(self, step: str, how: str) -> None:
        self.told.append(("finished", step, how))

    def failed(self, step: str, error: PhoneproofError) -> None:
        self.told.append(("failed", step, type(error)))

    def found(self, finding: Finding) -> None:
        self.told.append(("found", finding.id))


@pytest.mark.slow
def test_epochs_are_told_as_they_end_and_a_second_time_nothing_is_trained(tmp_path: Path) -> None:
    first = Listening()
    plan = prepare_demo(tmp_path / "demo", first, epochs=2)
    assert len(read_plan(plan).planned_builds()) == 5
    assert first.told[0] == ("started", STEP)
    assert ("progress", STEP, "train", 1, 2) in first.told
    assert first.told[-1] == ("finished", STEP, "made")
    again = Listening()
    before = plan.stat()
    assert prepare_demo(tmp_path / "demo", again, epochs=2) == plan
    assert again.told[-1] == ("finished", STEP, "kept")
    assert not any(told[2:3] == ("train",) for told in again.told)
    assert plan.stat().st_mtime_ns == before.st_mtime_ns


def test_a_folder_with_other_things_in_it_fails_the_step(tmp_path: Path) -> None:
    (tmp_path / "calibration").mkdir()
    listening = Listening()
    with pytest.raises(DataError, match="did not make"):
        prepare_demo(tmp_path, listening)
    assert listening.told[-1] == ("failed", STEP, DataError)


def test_a_stop_ends_the_training_and_is_no_failure(tmp_path: Path) -> None:
    stop = Event()
    stop.set()
    listening = Listening()
    with pytest.raises(Interrupted):
        prepare_demo(tmp_path, listening, stop)
    assert [told[0] for told in listening.told if told[0] != "progress"] == ["started"]
    assert not (tmp_path / "digits.onnx").exists()
