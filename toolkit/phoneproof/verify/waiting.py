"""How much of the timed work was waiting for a processor that others used.

Waiting counts against the time of one thread, however many the configuration has: an inference is as late as
the latest of its threads, so the waiting of one of them lengthens the whole by as much. With one thread the
share is what was lost. With several it is the most that can have been lost, and may exceed 1: threads that
wait at the same time count each, and so do those of a runtime's pool that only spin until there is work. More
threads than processors wait for each other; that is no speed of the build either, and counts too.
"""

from collections.abc import Sequence
from typing import Final

LARGEST_WAITING_SHARE: Final = 0.02


def waiting_share(visits_ns: Sequence[Sequence[int]], waited_ns: Sequence[int | None]) -> float | None:
    """Waiting over the time of the timed batches, both summed over all visits.

    visits_ns: timed batches of each visit in ns. waited_ns: what the threads waited in each, None where the
    device does not tell; then the share is None. None without any timed work as well.
    """
    known = [waited for waited in waited_ns if waited is not None]
    timed = sum(map(sum, visits_ns))
    return sum(known) / timed if len(known) == len(waited_ns) and timed else None
