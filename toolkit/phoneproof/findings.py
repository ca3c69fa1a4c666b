"""What a check found. Ids and facts only: sentences are made in report/ and cli/.

Every finding id that the product can raise stands in `FINDING_IDS` and in docs/findings.md; a test keeps
the two in step.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from phoneproof.errors import Fact


class Severity(StrEnum):
    """severe stops the run unless the plan waives the id; warning and info do not."""

    INFO = "info"
    WARNING = "warning"
    SEVERE = "severe"


FINDING_IDS: Final[Mapping[str, Severity]] = {
    "ACCURACY-AT-CHANCE": Severity.WARNING,
    "DATA-BORDERS": Severity.WARNING,
    "DATA-BROKEN-FILE": Severity.WARNING,
    "DATA-CALIBRATION-FEW": Severity.WARNING,
    "DATA-CALIBRATION-TOO-FEW": Severity.SEVERE,
    "DATA-COLOUR-ORDER": Severity.WARNING,
    "DATA-CONSTANT": Severity.SEVERE,
    "DATA-DUPLICATES": Severity.WARNING,
    "DATA-LAYOUT": Severity.SEVERE,
    "DATA-NEAR-DUPLICATES": Severity.WARNING,
    "DATA-NEAR-OVERLAP": Severity.WARNING,
    "DATA-NOISE": Severity.WARNING,
    "DATA-NONFINITE": Severity.SEVERE,
    "DATA-NORMALISATION": Severity.WARNING,
    "DATA-ONE-CLASS": Severity.SEVERE,
    "DATA-OVERLAP": Severity.WARNING,
    "DATA-RANGE": Severity.WARNING,
    "DATA-STATISTICS": Severity.WARNING,
    "DATA-UNBALANCED": Severity.WARNING,
    "EDGE-BEYOND-DATA": Severity.INFO,
    "EDGE-CONSTANT": Severity.WARNING,
    "EDGE-CRASH": Severity.WARNING,
    "EDGE-ERROR": Severity.WARNING,
    "EDGE-FLIPPED": Severity.WARNING,
    "EDGE-NONFINITE": Severity.WARNING,
    "EDGE-OUT-OF-RANGE": Severity.INFO,
    "EDGE-REFERENCE": Severity.WARNING,
    "EDGE-REFUSED": Severity.INFO,
    "EDGE-VOCABULARY-GUESSED": Severity.INFO,
    "HOST-BUSY": Severity.WARNING,
    "HOST-SATURATES": Severity.WARNING,
    "MODEL-DYNAMIC-SHAPES": Severity.INFO,
    "MODEL-GENERATIVE": Severity.WARNING,
    "MODEL-NORMALISATION-HEAVY": Severity.WARNING,
    "MODEL-SMALL": Severity.WARNING,
    "OUTPUT-CLASSES": Severity.WARNING,
    "OUTPUT-LABELS-SHIFTED": Severity.WARNING,
    "OUTPUT-CONSTANT": Severity.WARNING,
    "OUTPUT-DEAD-CHANNELS": Severity.WARNING,
    "OUTPUT-NONFINITE": Severity.WARNING,
    "OUTPUT-RAILED": Severity.WARNING,
    "OUTPUT-SCORES-CRUSHED": Severity.WARNING,
    "OUTPUT-UNCHANGING": Severity.WARNING,
    "TOOL-UNTESTED-VERSION": Severity.WARNING,
    "BUILD-FLOAT-OPERATORS": Severity.INFO,
    "BUILD-KEPT-IN-INT8": Severity.WARNING,
    "BUILD-NOT-DELEGATED": Severity.INFO,
    "BUILD-SIZE-UNUSUAL": Severity.WARNING,
}


SAMPLE_FACTS: Final = frozenset({"examples"})
"""Facts that name samples, mostly files. Reports leave them out unless the plan lets the data leave."""


@dataclass(frozen=True)
class Finding:
    """One thing a check found.

    subject: what it is about: a build_id, a device, `calibration`, `evaluation`, a model name.
    waived: the plan accepts it; the id then stays on every number it touches.
    """

    id: str
    severity: Severity
    subject: str
    facts: Mapping[str, Fact] = field(default_factory=dict)
    waived: bool = False

    @classmethod
    def of(cls, id: str, subject: str, **facts: Fact) -> "Finding":
        """A finding with the severity its id has. KeyError for an id that is not in FINDING_IDS."""
        return cls(id=id, severity=FINDING_IDS[id], subject=subject, facts=facts)


def waive(findings: Iterable[Finding], waived_ids: Iterable[str]) -> tuple[Finding, ...]:
    """The same findings, those whose id the plan waives marked so."""
    accepted = frozenset(waived_ids)
    return tuple(replace(finding, waived=True) if finding.id in accepted else finding for finding in findings)


def blocking(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings that stop a run: severe and not waived."""
    return tuple(f for f in findings if f.severity is Severity.SEVERE and not f.waived)
