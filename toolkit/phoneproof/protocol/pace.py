"""How long one visit of a benchmark is. The rule is every harness's; PROTOCOL.md has it in words."""

import math
from dataclasses import dataclass

from phoneproof.protocol.job import BenchmarkCase


@dataclass(frozen=True)
class Pace:
    """How one side is timed: `batch` invocations in a timed batch, `runs` timed batches in a visit."""

    batch: int
    runs: int


def pace_for(single_ns: float, case: BenchmarkCase) -> Pace:
    """A batch that reaches batch_below_ns, and as many as fill visit_ms: at least 1, at most the cap."""
    single_ns = max(1.0, single_ns)
    batch = 1 if single_ns >= case.batch_below_ns else math.ceil(case.batch_below_ns / single_ns)
    wanted = round(case.visit_ms * 1e6 / (single_ns * batch))
    return Pace(batch, min(max(1, wanted), case.max_runs_per_visit))
