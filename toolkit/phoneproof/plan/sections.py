"""The sections of a plan except `[data]`, each checked when it is read."""

from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from phoneproof.findings import FINDING_IDS
from phoneproof.plan.values import (
    ENTRY_POINT,
    Milliseconds,
    Positive,
    Seconds,
    Section,
    Text,
    refuse,
    unique,
    wrong,
)
from phoneproof.plan.wording import nearest


class Accelerator(StrEnum):
    """Accelerators that the devices of this version have."""

    CPU = "cpu"


class TaskKind(StrEnum):
    """What the network does, as far as phoneproof scores it by itself."""

    CLASSIFICATION = "classification"
    OTHER = "other"


BUILT_IN_METRICS: Final = ("top1", "top5")


def _metric(value: str) -> str:
    if value not in BUILT_IN_METRICS and not ENTRY_POINT.fullmatch(value):
        step = nearest(value, BUILT_IN_METRICS) + " A metric of your own is 'module:function'."
        raise wrong(f"There is no metric {value[:80]!r}.", step)
    return value


class TaskSection(Section):
    """`[task]`: what the network is for and how it is scored."""

    kind: TaskKind = TaskKind.OTHER
    metrics: Annotated[tuple[Annotated[str, AfterValidator(_metric)], ...], AfterValidator(unique)] = ()
    output: Text | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        built_in = [m for m in self.metrics if m in BUILT_IN_METRICS]
        if built_in and self.kind is TaskKind.OTHER:
            step = "Set kind = 'classification', or score by an entry point 'module:function'."
            refuse(self, [(("metrics",), f"{built_in[0]!r} is a metric of classification.", step)])
        return self


class DeviceSection(Section):
    """Where builds run. Only devices that stand here are used."""

    kind: Literal["host"]
    threads: Annotated[int, Field(ge=1, le=256)] = 1
    accelerators: Annotated[tuple[Accelerator, ...], AfterValidator(unique), Field(min_length=1)] = (
        Accelerator.CPU,
    )
    allow_fallback: bool = False


class ParityLimits(Section):
    """Least signal-to-noise ratio of a build's outputs against the reference, in dB, by precision.

    Between int8_fail and int8 an int8 build is inconclusive unless its accuracy passes.
    """

    float32: float = 60.0
    float16: float = 40.0
    int8: float = 20.0
    int8_fail: float = 10.0

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.int8_fail > self.int8:
            what = f"int8_fail = {self.int8_fail} is above int8 = {self.int8}."
            refuse(self, [(("int8_fail",), what, "Set int8_fail to at most int8.")])
        return self


def _finding_id(value: str) -> str:
    if value not in FINDING_IDS:
        raise wrong(f"There is no finding {value[:80]!r}.", nearest(value, FINDING_IDS))
    return value


class GatesSection(Section):
    """`[gates]`: limits that turn measurements into verdicts. A gate that is not set is not judged."""

    accuracy_drop_max: Annotated[float, Field(ge=0, lt=1)] | None = None
    parity_min_db: ParityLimits = ParityLimits()
    speedup_min: Positive | None = None
    latency_max_ms: Positive | None = None
    size_ratio_max: Positive | None = None
    outcomes: bool = True
    waive: Annotated[tuple[Annotated[str, AfterValidator(_finding_id)], ...], AfterValidator(unique)] = ()


class BenchmarkSection(Section):
    """`[benchmark]`: how latency is measured."""

    rounds: Annotated[int, Field(ge=10, le=1000)] = 20
    visit_ms: Annotated[int, Field(ge=1, le=600_000)] = 200
    warmup_ms: Milliseconds = 1000
    max_runs_per_visit: Annotated[int, Field(ge=1, le=100_000)] = 200
    pause_ms: Milliseconds = 0


class ReportSection(Section):
    """`[report]`: what stands on the report."""

    title: Text | None = None
    client: Text | None = None


class LimitsSection(Section):
    """`[limits]`: when a step is ended. memory_gb: per worker process; None is no limit."""

    load_timeout_s: Seconds = 120.0
    sample_timeout_s: Seconds = 60.0
    round_timeout_s: Seconds = 120.0
    build_timeout_s: Seconds = 3600.0
    memory_gb: Positive | None = None
