"""Every real toolchain is killed while its vendor's code is at work; what else the plan asks for is made,
judged and reported.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.runs.project import TOOLKIT, Project, report_of
from tests.runs.stood_in import FORMS, SETTINGS_VARIABLE, SITE

KERAS: Final = """\
import sys, keras
keras.utils.set_random_seed(1)
image = keras.Input((12, 12, 3), batch_size=1, name="image")
x = keras.layers.Conv2D(4, 3, strides=2, activation="relu", name="first")(image)
x = keras.layers.Conv2D(6, 3, activation="relu", name="second")(x)
x = keras.layers.Flatten()(x)
keras.Model(image, keras.layers.Dense(2, name="head")(x)).save(sys.argv[1])
"""

PYTORCH: Final = """\
import torch
from torch import nn


def network() -> nn.Module:
    torch.manual_seed(1)
    head = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.ReLU())
    return nn.Sequential(head, nn.Flatten(), nn.Linear(54, 2)).eval()
"""

STRUCK: Final = {
    "tiny/onnx/onnx-int8-dynamic": ("onnx", "phoneproof.toolchains.onnxruntime", "convert", "SIGSEGV"),
    "tiny/keras/tflite-float16": ("keras", "phoneproof.toolchains.tflite", "convert", "SIGSEGV"),
    "tiny/keras/coreml-float16": ("keras", "phoneproof.toolchains.coreml_tensorflow", "convert", "SIGBUS"),
    "tiny/pytorch/coreml-float16": ("pytorch", "phoneproof.toolchains.coreml", "convert", "SIGABRT"),
    "tiny/pytorch/executorch-int8-dynamic": (
        "pytorch",
        "phoneproof.toolchains.executorch",
        "convert",
        "SIGSEGV",
    ),
    "tiny/pytorch/torch-qnnpack-int8": ("pytorch", "phoneproof.toolchains.torch_qnnpack", "load", "SIGKILL"),
}
"""Build to (form, module, what it is at, signal)."""

EXPORTED: Final = {"tiny/pytorch/onnx-float32", "tiny/pytorch/onnx-int8-dynamic"}
EXPORT: Final = {"module": "phoneproof.sources.export_onnx", "recipe": "", "step": "export", "number": 11}


@pytest.fixture
def struck(blank: Project, tmp_path: Path) -> Project:
    """The tiny project in three forms, with a build of each toolchain and their baselines."""
    copy = blank.copy(tmp_path / "project", tmp_path / "store")
    folder = copy.folder
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run([sys.executable, "-c", KERAS, folder / "tiny.keras"], check=True, env=quiet)
    (folder / "tiny_net.py").write_text(PYTORCH, encoding="utf-8")
    head, _, rest = copy.plan_path.read_text(encoding="utf-8").partition("[data]")
    data, _, _ = rest.partition("[[builds]]")
    builds = [(build_id.rpartition("/")[2], form) for build_id, (form, *_) in STRUCK.items()]
    builds.append(("onnx-int8-dynamic", "pytorch"))
    listed = "".join(f'[[builds]]\nrecipe = "{recipe}"\nsource = "{form}"\n\n' for recipe, form in builds)
    devices = rest[rest.index("[[devices]]") :]
    copy.plan_path.write_text(f"{head}{FORMS}[data]{data}{listed}{devices}", encoding="utf-8")
    settings = folder.with_name("strikes.json")
    environment = {"PYTHONPATH": f"{TOOLKIT}:{SITE}", SETTINGS_VARIABLE: str(settings)}
    strikes: list[dict[str, Any]] = [EXPORT]
    for build_id, (_, module, step, name) in STRUCK.items():
        recipe = build_id.rpartition("/")[2]
        strikes.append({"module": module, "recipe": recipe, "step": step, "number": signal.Signals[name]})
    settings.write_text(json.dumps({"strikes": strikes}), encoding="utf-8")
    return Project(folder, copy.store, environment)


@pytest.mark.slow
def test_a_real_converter_that_dies_costs_its_own_builds(struck: Project) -> None:
    run = struck.folder / "run"
    answer = struck.call("run", "--out", "run")
    assert answer.code == 3, answer.err
    assert "Traceback" not in answer.err
    builds = {build["build_id"]: build for build in report_of(run)["builds"]}
    failed = {build_id for build_id, build in builds.items() if build["status"] == "failed"}
    assert failed == {*STRUCK, *EXPORTED}, {b: builds[b]["error"] for b in failed}
    page = (run / "report" / "index.html").read_text(encoding="utf-8")
    for build_id, (_, _, _, name) in STRUCK.items():
        number = signal.Signals[name].value
        what = builds[build_id]["error"]["what"]
        assert what.startswith(f"The worker crashed with signal {number}"), (build_id, what)
        assert what in page
        if name != "SIGKILL":  # nothing is written by what is killed so
            assert "Fatal Python error" in page
    others = set(builds) - failed
    assert len(others) >= 5
    judged = {result["configuration"]["build_id"] for result in report_of(run)["results"]}
    assert judged == others

    # The same command, no longer disturbed, makes what is missing.
    Path(struck.environment[SETTINGS_VARIABLE]).write_text("{}", encoding="utf-8")
    kept = {build_id: builds[build_id]["sha256"] for build_id in others}
    answer = struck.call("build", "--out", "run")
    assert answer.code == 0, answer.err
    answer = struck.call("run", "--out", "run")
    again = {build["build_id"]: build for build in report_of(run)["builds"]}
    assert {build["status"] for build in again.values()} == {"built"}
    assert {build_id: again[build_id]["sha256"] for build_id in others} == kept
