"""`phoneproof --help` is light, and every command has help."""

import json
import subprocess
import sys

import pytest

from phoneproof.cli.main import COMMANDS
from tests.cli.conftest import Call
from tests.runs.project import TOOLKIT

HEAVY = frozenset(
    {
        "numpy",
        "scipy",
        "onnx",
        "onnxruntime",
        "torch",
        "pydantic",
        "rich",
        "jinja2",
        "PIL",
        "psutil",
        "filelock",
    }
)
SCRIPT = """
import json, sys
from phoneproof.cli.main import main
try:
    main(sys.argv[1:], prog_name="phoneproof")
except SystemExit as end:
    assert end.code == 0, end.code
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def imported_by(*arguments: str) -> frozenset[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(TOOLKIT), "PATH": ""},
    )
    return frozenset(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "arguments", [("--help",), ("--version",), ("run", "--help"), ("toolchain", "--help")]
)
def test_help_loads_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert not imported_by(*arguments) & HEAVY


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help(call: Call, name: str) -> None:
    answer = call(name, "--help")
    assert answer.code == 0, answer
    assert f"Usage: phoneproof {name}" in answer.out
    assert "--help" in answer.out
    line = COMMANDS[name][1]
    assert line in call("--help").out.replace("\n" + " " * 13, " ")


@pytest.mark.parametrize("line", ["toolchain list", "toolchain install", "store list", "store prune"])
def test_each_inner_command_has_help(call: Call, line: str) -> None:
    answer = call(*line.split(), "--help")
    assert answer.code == 0
    assert f"Usage: phoneproof {line}" in answer.out
