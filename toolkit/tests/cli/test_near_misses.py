"""Near-miss command lines are refused, with a suggestion where a name is near; nothing is guessed."""

from pathlib import Path

import pytest

from phoneproof.runs.folder import opened
from tests.cli.conftest import Call
from tests.runs.project import Project, listing

# Command line, and words that the refusal must hold.
MISSES: dict[str, tuple[str, ...]] = {
    "runn": ("'run'",),
    "Run": ("'run'",),
    "biuld": ("'build'",),
    "verfy": ("'verify'",),
    "reprot run": ("'report'",),
    "comapre a b": ("'compare'",),
    "device": ("'devices'",),
    "toolchains list": ("'toolchain'",),
    "docter": ("'doctor'",),
    "quantise": ("Commands:",),
    "toolchain lst": ("'list'",),
    "toolchain instal onnxruntime": ("'install'",),
    "toolchain install onnx-runtime": ("'onnxruntime'",),
    "toolchain install onnx-int8": ("onnxruntime",),
    "toolchain install litert_torch": ("Did you mean 'litert-torch'?",),
    "toolchain install tensorflow": ("onnxruntime, tflite, litert-torch, coreml",),
    "toolchain install": ("NAME",),
    "store prun --keep-gb 1": ("'prune'",),
    "store prune": ("--keep-gb",),
    "store prune --keep-gb many": ("--keep-gb", "many"),
    "store prune --keep-gb -1": ("--keep-gb", "-1"),
    "run --plam phoneproof.toml": ("--plam", "--plan"),
    "run --ouput run": ("--ouput", "--out"),
    "run --dryrun": ("--dryrun", "--dry-run"),
    "run --jsn": ("--jsn", "--json"),
    "run --verbos": ("--verbos", "--verbose"),
    "run --clon 001": ("--clon", "--clone"),
    "run phoneproof.toml": ("phoneproof.toml",),
    "run --plan": ("--plan", "argument"),
    "run -p phonproof.toml": ("phonproof.toml", "'phoneproof.toml'"),
    "run --clone begun -p phoneproof.toml": ("--clone", "--plan"),
    "run --clone begun --out begun": ("--clone", "--out"),
    "run --clone begin": ("begin", "'begun'"),
    "run --out phoneproof.toml": ("phoneproof.toml", "--out"),
    "build --clone begun": ("--clone",),
    "report": ("RUN",),
    "report begin": ("no run here", "'begun'"),
    "report begun": ("no report yet", "phoneproof run --out begun"),
    "compare begun": ("NEW",),
    "compare begun begin": ("no report yet",),
    "init": ("--model",),
    "init -p new.toml --model tiny.onx": ("tiny.onx", "'tiny.onnx'"),
    "init -p new.toml --model evaluation": ("saved_model.pb",),
    "init -p new.toml --model evaluation.png": ("does not exist",),
    "init -p new.toml --model phoneproof.toml": (".onnx, .keras, .pt2", "module:function"),
    "init -p new.toml --model nets:small": ("no module 'nets'",),
    "init -p new.toml --model nets.py:small": ("no module 'nets.py'",),
    "init -p new.toml --model tiny.onnx --data evalution": ("evalution", "'evaluation'"),
    "init --model tiny.onnx": ("phoneproof.toml", "--force"),
    "doctor --depp": ("--depp", "--deep"),
}


@pytest.mark.parametrize("line", MISSES)
def test_a_near_miss_is_refused(project: Project, call: Call, line: str) -> None:
    with opened(project.folder / "begun", project.plan, ()):
        pass
    before = listing(project.folder)
    answer = call(*line.split())
    assert answer.code == 2, answer
    assert answer.out == ""
    assert "Traceback" not in answer.err
    for word in MISSES[line]:
        assert word in answer.err, answer.err
    assert listing(project.folder) == before


def test_without_a_plan_the_way_to_one_is_told(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = call("run")
    assert answer.code == 2
    assert "phoneproof init --model" in answer.err
    assert list(tmp_path.iterdir()) == []
