"""How much of the timed work was waiting for a processor that others used.

Waiting counts against the time of one thread, however many the configuration has: an inference is as late as
the latest of its threads, so the waiting of one of them lengthens the whole by as much. With one thread the
share is what was lost. With several it is the most that can have been lost, and may exceed 1: threads that
wait at the same time count each, and so do those of a runtime's pool that only spin until there is work. More
threads than processors wait for each other; that is no speed of the build either, and counts too: two threads
on two processors, with other work on one of them, read 150 to 230 %.
"""

from collections.abc import Sequence
from typing import Final

LARGEST_WAITING_SHARE: Final = 0.02
"""A mean that is lengthened by at most 2 % on one side moves the ratio by less than the 3 % that count as no
difference.

Measured on two x86-64 processors (Linux 6.18, ONNX Runtime 1.32, one thread, visits of 20 ms) with a network
of 5 ms against one of 0.9 ms, in one benchmark of 600 rounds while other work came and went. Rounds by the
greater share of their sides, with the mean ratio and its 5th to 95th percentile:

    below 0.2 %      9 rounds    5.95   5.92 to  6.00
    0.2 to 1 %       9           6.00   5.87 to  6.26
    1 to 2 %         3           5.96   5.94 to  5.98
    2 to 5 %         6           6.03   5.93 to  6.10
    5 to 10 %       13           6.04   5.93 to  6.20
    10 to 20 %      23           6.29   5.98 to  7.10
    20 to 40 %     180           8.27   6.47 to 10.39
    above 40 %     357          12.13   8.19 to 17.74

Whole benchmarks of 12 rounds: 0.7 and 0.9 % on the two sides where little else ran (2 % in the kernel's
pressure of the processors), 12 to 77 % with one busy process beside the other work, 27 to 65 % with two.
"""


def waiting_share(visits_ns: Sequence[Sequence[int]], waited_ns: Sequence[int | None]) -> float | None:
    """Waiting over the time of the timed batches, both summed over all visits.

    visits_ns: timed batches of each visit in ns. waited_ns: what the threads waited in each, None where the
    device does not tell; then the share is None. None without any timed work as well.
    """
    known = [waited for waited in waited_ns if waited is not None]
    timed = sum(map(sum, visits_ns))
    return sum(known) / timed if len(known) == len(waited_ns) and timed else None
