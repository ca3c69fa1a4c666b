"""`phoneproof demo` from nothing: every recipe is built, verified and on the report."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from phoneproof.plan.model import read_plan
from phoneproof.recipes.rows import BASELINE_RECIPES, RECIPES
from tests.runs.project import TOOLKIT

Demo = tuple[Path, subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    folder = tmp_path_factory.mktemp("whole")
    code = "from phoneproof.cli.main import main; main(prog_name='phoneproof')"
    command = [sys.executable, "-c", code, "demo", "--out", str(folder / "demo")]
    environment = {"PYTHONPATH": str(TOOLKIT), "PHONEPROOF_STORE": str(folder / "store")}
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    return folder / "demo", done


@pytest.mark.slow
class TestWhole:
    def test_it_passes(self, demo: Demo) -> None:
        assert demo[1].returncode == 0, demo[1].stdout + demo[1].stderr

    def test_every_planned_build_and_each_formats_baseline_is_on_the_report(self, demo: Demo) -> None:
        report = _report(demo[0])
        assert {build["status"] for build in report["builds"]} == {"built"}
        reported = {result["configuration"]["build_id"] for result in report["results"]}
        assert reported == {build["build_id"] for build in report["builds"]}
        assert reported >= set(read_plan(demo[0] / "phoneproof.toml").build_ids)
        recipes = {build_id.split("/")[2] for build_id in reported}
        assert recipes == set(RECIPES)
        assert set(BASELINE_RECIPES.values()) <= recipes

    def test_no_speed_is_told_of_what_an_interpreter_ran(self, demo: Demo) -> None:
        results = _report(demo[0])["results"]
        timed = {r["configuration"]["build_id"].split("/")[2]: r["latency"] is not None for r in results}
        assert not any(has for recipe, has in timed.items() if recipe.startswith("coreml"))
        assert all(has for recipe, has in timed.items() if not recipe.startswith("coreml"))


def _report(demo: Path) -> Any:
    (run,) = (demo / "runs").iterdir()
    return json.loads((run / "report" / "report.json").read_text(encoding="utf-8"))
