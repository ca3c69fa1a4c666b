"""Where along the chain a build begins to differ from its source.

source on the host - float build on the host - quantized build on the host - quantized build on the device's
CPU - on the device's accelerator. Each is compared with the source model, and the first leg that disagrees
names the cause; a leg missing before it means that two causes cannot be told apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

Cause = Literal["none", "conversion", "quantization", "runtime_or_device", "accelerator", "not_separable"]
LegName = Literal["source_host", "float_host", "quantized_host", "device_cpu", "device_accelerator"]
LegState = Literal["agrees", "disagrees", "missing"]

LEGS: Final[tuple[LegName, ...]] = (
    "source_host",
    "float_host",
    "quantized_host",
    "device_cpu",
    "device_accelerator",
)
_CAUSE_BEFORE: Final[dict[LegName, Cause]] = {
    "float_host": "conversion",
    "quantized_host": "quantization",
    "device_cpu": "runtime_or_device",
    "device_accelerator": "accelerator",
}


@dataclass(frozen=True)
class Leg:
    """One leg against the source model. sqnr_db: of the worst output or slice; None when equal or missing.
    limit_db: below it the two disagree.
    """

    name: LegName
    state: LegState
    build_id: str | None = None
    sqnr_db: float | None = None
    limit_db: float | None = None


@dataclass(frozen=True)
class ChainDiagnosis:
    """The cause of a difference, or none. unmeasured: legs that are missing and matter."""

    cause: Cause
    legs: tuple[Leg, ...]
    unmeasured: tuple[LegName, ...]


def diagnose(legs: Sequence[Leg], last: LegName) -> ChainDiagnosis:
    """Diagnosis of the chain up to the leg `last`, which the verdict is about.

    legs: one each in the order of LEGS, the missing ones too. A difference that is seen across a missing leg
    has two possible causes: not_separable, as is a chain whose last leg is missing. ValueError for legs that
    are not the first of LEGS, without `last`, or whose first disagrees: there is nothing before the source.
    """
    names = tuple(leg.name for leg in legs)
    if last not in names or names != LEGS[: len(names)] or legs[0].state == "disagrees":
        raise ValueError(f"the legs {names} up to {last}")
    chain = [leg for leg in legs if LEGS.index(leg.name) <= LEGS.index(last)]
    missing: list[LegName] = []
    for leg in chain:
        if leg.state == "missing":
            missing.append(leg.name)
        elif leg.state == "disagrees":
            cause = "not_separable" if missing else _CAUSE_BEFORE[leg.name]
            return ChainDiagnosis(cause, tuple(legs), tuple(missing))
        else:
            missing = []
    if chain and chain[-1].state == "missing":
        return ChainDiagnosis("not_separable", tuple(legs), tuple(missing))
    return ChainDiagnosis("none", tuple(legs), ())
