"""Verdicts and their reasons: ids with facts. Sentences are made in report/ and cli/."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from phoneproof.errors import Fact

Verdict = Literal["pass", "fail", "inconclusive"]
GateId = Literal["outcomes", "fallback", "parity", "edge", "accuracy", "speed", "latency", "size"]


@dataclass(frozen=True)
class Reason:
    """Why something is as it is."""

    id: str
    facts: Mapping[str, Fact] = field(default_factory=dict)

    @classmethod
    def of(cls, id: str, **facts: Fact) -> "Reason":
        """A reason with its facts named."""
        return cls(id, facts)


@dataclass(frozen=True)
class GateResult:
    """One gate's verdict on one result."""

    id: GateId
    verdict: Verdict
    reason: Reason


def overall(gates: Iterable[GateResult]) -> tuple[Verdict, Reason]:
    """The verdict on a result: the worst of its gates, with the reason of the first that is as bad."""
    listed = list(gates)
    verdicts: tuple[Verdict, ...] = ("fail", "inconclusive")
    for verdict in verdicts:
        for gate in listed:
            if gate.verdict == verdict:
                return verdict, gate.reason
    if not listed:
        return "inconclusive", Reason("not_measured", {"why": "not_asked"})
    return "pass", Reason("gate_passed")
