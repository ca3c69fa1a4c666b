"""What an accelerator is predicted to do with operators, out of tables with sources. Nothing is run here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from phoneproof.recipes.operators import OPERATORS

Doubt = Literal["absent", "refused"]
"""absent: no kernel for the operator. refused: a kernel exists, but not for this use of it."""

Trait = Literal[
    "adaptive",
    "broadcast",
    "ceil",
    "depth_multiplier",
    "integer",
    "many",
    "not_square",
    "not_spatial",
    "other_axis",
    "padding_counted",
    "stride_above_kernel",
    "strided",
]
"""A way of using an operator that decides whether kernels take it.

adaptive: a pooling to a given size other than 1. broadcast: operands of different shapes. ceil: output
sizes of a pooling are rounded up. depth_multiplier: a depthwise convolution with more output than input
channels, of more than one channel. integer: it computes in integers. many: more than 5 inputs of a
concatenation, or more than 4 outputs of a split. not_square: a power other than 2. not_spatial: a mean over
other axes than the two innermost of a 4-D tensor (NCHW), or one that drops them. other_axis: a softmax
along another axis than the last, a new axis that is not the last. padding_counted: an average that counts
the padding. stride_above_kernel: a pooling that skips values. strided: a slice that takes every n-th value.
"""


@dataclass(frozen=True)
class Rows:
    """Words of the vocabulary that one source says the same of.

    doubt: None where it runs them. note: why not. trait, least_rank: the rows count only for uses with that
    trait, for tensors of at least that many axes; they go before rows without such a condition.
    """

    operators: frozenset[str]
    doubt: Doubt | None
    url: str
    note: str = ""
    trait: Trait | None = None
    least_rank: int | None = None

    @property
    def is_conditional(self) -> bool:
        """Whether it speaks of some uses only."""
        return self.trait is not None or self.least_rank is not None

    def speaks_of(self, word: str, rank: int | None, traits: frozenset[str]) -> bool:
        """Whether the rows say something of a use."""
        if word not in self.operators or (self.trait is not None and self.trait not in traits):
            return False
        return self.least_rank is None or (rank is not None and rank >= self.least_rank)


@dataclass(frozen=True)
class Accelerator:
    """A processor, or the program that gives it work. name: for people. about: what the rows are true of."""

    id: str
    name: str
    about: str
    rows: tuple[Rows, ...]


@dataclass(frozen=True)
class Prediction:
    """What the table says of one use. doubt: None where it is predicted to run."""

    doubt: Doubt | None
    note: str
    url: str


def predict(
    accelerator: Accelerator, word: str, rank: int | None = None, traits: frozenset[str] = frozenset()
) -> Prediction | None:
    """What is predicted of the operator `word`, used so; None where the table says nothing.

    An operator without a row is judged by the parts that converters make of it: it runs if all of them do.
    rank: number of axes of its first input, None where it is not known. KeyError for a word that is none.
    """
    parts = OPERATORS[word].parts
    for conditional in (True, False):
        for rows in accelerator.rows:
            if rows.is_conditional is conditional and rows.speaks_of(word, rank, traits):
                return Prediction(rows.doubt, rows.note, rows.url)
    found = [(part, predict(accelerator, part, rank)) for part in parts]
    known = [(part, one) for part, one in found if one is not None]
    for part, one in known:
        if one.doubt is not None:
            return Prediction(
                one.doubt, f"It is taken apart, and {part} is among the parts. {one.note}", one.url
            )
    if not found or len(known) < len(found):
        return None
    return Prediction(None, f"It is taken apart into {', '.join(parts)}.", known[0][1].url)


def listed(accelerator: Accelerator) -> Mapping[str, Prediction]:
    """What the table says of each word used plainly; words of which it says nothing are left out."""
    found = ((word, predict(accelerator, word)) for word in OPERATORS)
    return {word: one for word, one in found if one is not None}
