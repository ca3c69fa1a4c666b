"""What the audit tells of a source model, as a report holds it: facts, predictions and advice."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from phoneproof.verify.verdicts import Reason

Doubt = Literal["absent", "refused"]
"""absent: no kernel for the operator. refused: a kernel exists, but not for this use of it."""


@dataclass(frozen=True)
class AuditedTensor:
    """An input or output of the source model. shape: None for an axis that the model leaves open."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True)
class DoubtfulOperator:
    """Operators of one type that an accelerator is predicted not to run.

    count: nodes of the source model. note: why, in the words of our table. url: where the table has it from.
    """

    operator: str
    count: int
    doubt: Doubt
    note: str
    url: str


@dataclass(frozen=True)
class PredictedSupport:
    """What a table says of one accelerator; nothing was run.

    supported: number of nodes it is predicted to run. doubtful: those it is not.
    unlisted: number of nodes by operator of which the table says nothing; they count for neither.
    """

    accelerator: str
    supported: int
    doubtful: tuple[DoubtfulOperator, ...]
    unlisted: Mapping[str, int]


@dataclass(frozen=True)
class Advice:
    """What to try with the model. recipe: a row of the table. method: of calibration, None if it has none."""

    platform: str
    recipe: str
    method: str | None
    reason: Reason


@dataclass(frozen=True)
class ModelAudit:
    """operators: number of nodes by the vocabulary's word (recipes/operators), by its own type where there is
    none; what is constant once the axes are fixed is left out. parameters: elements of all weights.
    """

    operators: Mapping[str, int]
    parameters: int
    inputs: tuple[AuditedTensor, ...]
    outputs: tuple[AuditedTensor, ...]
    support: tuple[PredictedSupport, ...]
    advice: tuple[Advice, ...]
