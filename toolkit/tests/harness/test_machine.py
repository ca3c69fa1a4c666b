"""What the host tells about itself."""

import subprocess
import sys

import pytest

from phoneproof.harness.machine import PeakMemory, clock_resolution_ns, cpu_flags, environment, int8_saturates


@pytest.mark.parametrize(
    ("machine", "flags", "saturates"),
    [
        # Haswell, Skylake, Zen 3: AVX2 or AVX-512 without VNNI adds pairs of products in int16.
        ("x86_64", "sse4_2 avx2", True),
        ("x86_64", "avx2 avx512f avx512bw", True),
        ("AMD64", "avx2", True),
        ("x86_64", "sse4_2 ssse3", True),
        # Ice Lake, Zen 4; Alder Lake; Sapphire Rapids.
        ("x86_64", "avx2 avx512f avx512_vnni", False),
        ("x86_64", "avx2 avx_vnni", False),
        ("x86_64", "avx2 amx_int8", False),
        ("x86_64", "", None),
        # Arm adds in int32.
        ("aarch64", "asimd asimddp", False),
        ("aarch64", "", False),
        ("arm64", "", False),
    ],
)
def test_where_int8_sums_saturate(machine: str, flags: str, saturates: bool | None) -> None:
    assert int8_saturates(machine, frozenset(flags.split())) is saturates


def test_the_environment_is_of_wire_values() -> None:
    facts = environment()
    assert facts["cpu_count"]
    assert facts["memory_bytes"]
    assert all(value is None or isinstance(value, (str, int, float, bool)) for value in facts.values())
    if sys.platform == "linux":
        assert cpu_flags()
        assert facts["cpu_features"] is not None


def test_the_clock_of_this_process_advances_in_less_than_a_millisecond() -> None:
    assert 0 < clock_resolution_ns() < 1_000_000


def test_the_smallest_step_of_a_coarse_clock_is_found() -> None:
    readings = iter([t for step in (0, 700, 1000, 1500) for t in [step] * 5])
    assert clock_resolution_ns(lambda: next(readings), steps=3) == 300
    with pytest.raises(ValueError, match="does not advance"):
        clock_resolution_ns(lambda: 7)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_peak_memory_is_that_since_the_start() -> None:
    """In a process of its own: what the test runner freed before must not hide the peak."""
    code = """
import numpy as np
from phoneproof.harness.machine import PeakMemory
kept = np.ones(40 * 2**20, np.uint8)
memory = PeakMemory()
before = memory.read()
passing = np.ones(60 * 2**20, np.uint8)
del passing
print(before, memory.read())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = done.stdout.split()
    assert PeakMemory().read() is not None
    assert int(before) < 10 * 2**20
    assert 55 * 2**20 < int(after) < 80 * 2**20
