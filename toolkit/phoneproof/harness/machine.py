"""What the host tells about itself, and the memory of this process."""

import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

FactValue = str | int | float | bool | None

INT8_FEATURES: Final = ("avx2", "avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm")
"""CPU flags that decide how int8 products are added (x86: AVX2, VNNI, AMX; Arm: SDOT, MMLA)."""


def environment() -> dict[str, FactValue]:
    """Facts of this machine; None where it does not tell."""
    flags = cpu_flags()
    return {
        "os": platform.platform(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cpu_count": os.cpu_count(),
        "affinity": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "cpu_features": " ".join(f for f in INT8_FEATURES if f in flags) if flags else None,
        "memory_bytes": _memory_bytes(),
        "load_average": os.getloadavg()[0],
        "cpu_frequency_khz": _number(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")),
        "thermal": None,
        "battery": None,
        "python": platform.python_version(),
    }


def int8_saturates(machine: str, flags: frozenset[str]) -> bool | None:
    """Whether int8 sums can saturate on a CPU with these flags: x86-64 without VNNI. None if unknown."""
    if machine not in ("x86_64", "AMD64"):
        return False
    if not flags:
        return None
    return not flags & {"avx512_vnni", "avx_vnni", "amx_int8"}


def cpu_flags() -> frozenset[str]:
    """Flags of the first CPU as Linux names them; empty where there is no /proc/cpuinfo."""
    for line in _cpuinfo():
        if line.startswith(("flags", "Features")):
            return frozenset(line.partition(":")[2].split())
    return frozenset()


def clock_resolution_ns(clock: Callable[[], int] = time.perf_counter_ns, steps: int = 1_000) -> int:
    """Smallest positive difference between successive readings of the clock, in ns.

    The greater of its resolution and the time that a reading takes, so that what is long against it is long
    against the overhead of the call too. ValueError when the clock does not advance in a million readings.
    """
    smallest = 0
    found = readings = 0
    before = clock()
    while found < steps:
        now = clock()
        readings += 1
        if now > before:
            smallest = min(smallest, now - before) if found else now - before
            found += 1
        elif readings >= 1_000_000 and not found:
            raise ValueError("the clock does not advance")
        before = now
    return smallest


def no_core_files() -> None:
    """A runtime's crash leaves no core file: it would hold the model and the samples, gigabytes at times."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


class PeakMemory:
    """Highest resident memory above the start, in bytes; None where the kernel does not tell."""

    def __init__(self) -> None:
        self._start = _status_bytes("VmRSS")
        try:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
            self._resettable = True
        except OSError:
            self._resettable = False

    def read(self) -> int | None:
        """Peak since the start, above the start."""
        peak = _status_bytes("VmHWM")
        if not self._resettable or peak is None or self._start is None:
            return None
        return max(0, peak - self._start)


def resident_bytes() -> int | None:
    """Resident memory of this process in bytes."""
    return _status_bytes("VmRSS")


def _status_bytes(key: str) -> int | None:
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return int(fields[key].split()[0]) * 1024 if key in fields else None


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _cpu_model() -> str | None:
    names: Mapping[str, str] = {
        line.partition(":")[0].strip(): line.partition(":")[2].strip() for line in reversed(_cpuinfo())
    }
    return names.get("model name") or platform.processor() or None


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
