"""int8 sums of ONNX Runtime on a CPU without VNNI, where they saturate, and the option that prevents it."""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from phoneproof.harness.machine import cpu_flags, int8_saturates

SCRIPT = Path(__file__).parents[1] / "simulated" / "saturating_conv.py"
QEMU = shutil.which("qemu-x86_64")


def errors(*prefix: str) -> dict[str, int]:
    """Largest error of the script's convolution, whose output is 200, without and with the option."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [*prefix, sys.executable, str(SCRIPT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, int] = json.loads(done.stdout)
    return found


def test_what_the_flags_say_of_this_machine_is_so() -> None:
    found = errors()
    assert found["precise"] == 0
    if int8_saturates(platform.machine(), cpu_flags()) is False:
        assert found["plain"] == 0


@pytest.mark.slow
@pytest.mark.skipif(QEMU is None, reason="qemu-user is not installed")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="runs this interpreter on another x86-64 CPU")
def test_haswell_saturates_and_the_option_prevents_it() -> None:
    assert int8_saturates("x86_64", frozenset({"avx2"})) is True
    assert QEMU is not None
    found = errors(QEMU, "-cpu", "Haswell")
    assert found["plain"] > 50
    assert found["precise"] == 0
