"""Whether the kernel killed for lack of memory while a process ran. Known on Linux only."""

from pathlib import Path
from typing import Final, Literal

_OWN_GROUPS: Final = Path("/proc/self/cgroup")
_MOUNT: Final = Path("/sys/fs/cgroup")
_MACHINE: Final = Path("/proc/vmstat")


class OomKills:
    """Counts of such kills since this object was made."""

    def __init__(self) -> None:
        self._group = _group_kills()
        self._machine = _count(_MACHINE, "oom_kill")

    def confidence(self) -> Literal["medium", "low"] | None:
        """How surely a kill that was seen now was one of these; None if there was no such kill.

        medium: one happened in this process's control group. low: one happened somewhere on the machine.
        """
        if _group_kills() > self._group:
            return "medium"
        if _count(_MACHINE, "oom_kill") > self._machine:
            return "low"
        return None


def _group_kills() -> int:
    return sum(_count(path, "oom_kill") for path in group_files(_read(_OWN_GROUPS)))


def group_files(groups: str) -> tuple[Path, ...]:
    """Files with the count for a process whose /proc/PID/cgroup is `groups`: version 2, or the hierarchy
    `memory` of version 1. In a container the paths inside may differ: the top is looked at too.
    """
    found: list[Path] = []
    for line in groups.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, inner = rest.partition(":")
        if number == "0" and controllers == "":
            base, name = _MOUNT, "memory.events"
        elif "memory" in controllers.split(","):
            base, name = _MOUNT / "memory", "memory.oom_control"
        else:
            continue
        own = base / inner.lstrip("/") / name
        found.append(own if own.exists() else base / name)
    return tuple(found)


def _count(path: Path, key: str) -> int:
    for line in _read(path).splitlines():
        fields = line.split()
        if len(fields) == 2 and fields[0] == key and fields[1].isdigit():
            return int(fields[1])
    return 0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
