"""Preparing the demo: what an observer is told, what the plan asks for, and what is left alone."""

from pathlib import Path
from threading import Event
from typing import Any

import pytest

from phoneproof.demo import digits
from phoneproof.errors import DataError, Interrupted, PhoneproofError
from phoneproof.findings import Finding
from phoneproof.plan.model import Plan, read_plan
from phoneproof.recipes.rows import BASELINE_RECIPES, RECIPES
from phoneproof.runs.demo import NETWORK_STEP, TWIN_STEP, plan_text, prepare_demo


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

    def of_steps(self) -> list[tuple[object, ...]]:
        """All but progress."""
        return [told for told in self.told if told[0] != "progress"]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    facts: dict[str, Any] = {
        "preprocess": digits.PREPROCESS.to_dict(),
        "model": {"input": {"shape": [1, 1, digits.SIDE, digits.SIDE]}},
    }
    path = tmp_path_factory.mktemp("plan") / "phoneproof.toml"
    path.write_text(plan_text(facts), encoding="utf-8")
    return read_plan(path)


def test_one_network_stands_in_the_plan_in_three_forms(plan: Plan) -> None:
    assert [model.key for model in plan.models] == ["digits/pytorch", "digits/keras", "digits/onnx"]
    assert plan.models[0].input_specs[0].shape == (1, 1, digits.SIDE, digits.SIDE)
    assert plan.data.preprocess == digits.PREPROCESS


def test_every_recipe_that_is_no_baseline_is_in_the_plan(plan: Plan) -> None:
    planned = {build.recipe.name for build in plan.planned_builds()}
    assert planned == set(RECIPES) - set(BASELINE_RECIPES.values())


def test_no_build_needs_a_managed_environment(plan: Plan) -> None:
    toolchains = {build.route.toolchain for build in plan.planned_builds() if build.route is not None}
    assert "litert-torch" not in toolchains
    assert len(toolchains) == 5


def test_onnx_is_quantized_from_the_onnx_form_and_once_through_an_export(plan: Plan) -> None:
    forms = [b.model.format for b in plan.planned_builds() if b.recipe.name == "onnx-int8"]
    assert sorted(forms) == ["onnx", "onnx", "onnx", "pytorch"]


@pytest.mark.slow
def test_progress_is_told_and_a_second_time_nothing_is_made(tmp_path: Path) -> None:
    first = Listening()
    path = prepare_demo(tmp_path / "demo", first, epochs=1)
    assert first.of_steps() == [
        ("started", NETWORK_STEP),
        ("finished", NETWORK_STEP, "made"),
        ("started", TWIN_STEP),
        ("finished", TWIN_STEP, "made"),
    ]
    assert ("progress", NETWORK_STEP, "train", 1, 1) in first.told
    assert any(told[:3] == ("progress", TWIN_STEP, "compare") for told in first.told)
    again = Listening()
    before = path.stat()
    assert prepare_demo(tmp_path / "demo", again, epochs=1) == path
    assert [told[-1] for told in again.of_steps()] == [NETWORK_STEP, "kept", TWIN_STEP, "kept"]
    assert not any(told[2:3] in (("train",), ("twin",)) for told in again.told)
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_a_folder_with_other_things_in_it_fails_the_step(tmp_path: Path) -> None:
    (tmp_path / "calibration").mkdir()
    listening = Listening()
    with pytest.raises(DataError, match="did not make"):
        prepare_demo(tmp_path, listening)
    assert listening.told[-1] == ("failed", NETWORK_STEP, DataError)


def test_a_stop_ends_the_training_and_is_no_failure(tmp_path: Path) -> None:
    stop = Event()
    stop.set()
    listening = Listening()
    with pytest.raises(Interrupted):
        prepare_demo(tmp_path, listening, stop)
    assert listening.of_steps() == [("started", NETWORK_STEP)]
    assert not (tmp_path / "digits.onnx").exists()
