"""Edge inputs and how builds took them, as a report holds them."""

from dataclasses import dataclass
from typing import Literal

from phoneproof.protocol.attempts import Outcome
from phoneproof.verify.verdicts import Reason, Verdict

EdgeRange = Literal["in_range", "out_of_range", "not_finite"]
"""in_range: what the preprocessing can give, or values seen in the data. out_of_range: finite, but not so.
not_finite: NaN or an infinity."""


@dataclass(frozen=True)
class EdgeInput:
    """One edge input of one model.

    name: its id, such as `checkerboard`, with `@` and the input that is odd where a model has several; of one
    of the plan's own, `own/` and its name in its set, or its number where names may not leave.
    thumbnail: a small PNG in base64; None where there is nothing to look at, and for samples that may not
    leave. width, height: of the thumbnail in pixels.
    """

    model: str
    name: str
    range: EdgeRange
    own: bool = False
    thumbnail: str | None = None
    width: int | None = None
    height: int | None = None


@dataclass(frozen=True)
class EdgeResult:
    """How one build took one edge input.

    name: of the edge input. case_id, sample: what `phoneproof rerun` takes. reason: why the verdict.
    """

    name: str
    case_id: str
    sample: int
    outcome: Outcome
    verdict: Verdict
    reason: Reason
