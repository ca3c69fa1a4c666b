"""`python -m phoneproof` is the command line."""

import subprocess
import sys

import pytest

import phoneproof


def answer(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "phoneproof", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_module_is_the_command() -> None:
    told = answer("--version")
    assert (told.returncode, told.stdout) == (0, f"phoneproof, version {phoneproof.__version__}\n")


@pytest.mark.parametrize("arguments", [["rnu"], ["run", "--jsno"], ["report"]])
def test_it_names_itself_and_refuses_as_the_command_does(arguments: list[str]) -> None:
    told = answer(*arguments)
    assert told.returncode == 2
    assert told.stderr.startswith("Usage: phoneproof ")
