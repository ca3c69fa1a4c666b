"""How long the threads of this process could have run and had to wait for a processor.

A processor that others use lengthens long inferences more often than short ones, and the order of visits
does not take that out of a ratio. The kernel counts such waiting for every thread: the second field of
/proc/PID/task/TID/schedstat (Linux, Documentation/scheduler/sched-stats.rst), on Android too, where a process
may always read its own. What another virtual machine on the same hardware takes is not in it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

_TASKS: Final = Path("/proc/self/task")


def thread_waits(tasks: Path = _TASKS) -> dict[int, int] | None:
    """Waiting in ns of each living thread since it began, by its id; None where the system does not tell.

    A kernel built without this accounting writes zeros; that a thread which reads them never ran is not true,
    so it is None as well.
    """
    waits: dict[int, int] = {}
    ran = 0
    try:
        for thread in tasks.iterdir():
            try:
                _, waited, slices = map(int, (thread / "schedstat").read_bytes().split())
            except (FileNotFoundError, ProcessLookupError):
                if thread.exists():
                    raise
                continue  # it ended in between
            waits[int(thread.name)] = waited
            ran += slices
    except (OSError, ValueError):
        return None
    return waits if ran else None


def waited_ns(before: Mapping[int, int] | None, after: Mapping[int, int] | None) -> int | None:
    """Waiting of all threads between two readings, in ns; None if one of them is.

    A thread that began in between counts from its beginning, one that ended does not count.
    """
    if before is None or after is None:
        return None
    return sum(max(0, waited - before.get(thread, 0)) for thread, waited in after.items())
