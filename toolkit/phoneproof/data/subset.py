"""Choosing part of a set: stratified, from a seed, the same on every platform and version."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from phoneproof.data.samples import Label
from phoneproof.errors import DataError


@dataclass(frozen=True)
class Part:
    """Which samples of a set: the part of skip and take, and of it at most `most`, each label with its share.

    skip 0, take None, most None: all.
    """

    skip: int = 0
    take: int | None = None
    most: int | None = None
    seed: int = 0


ALL: Final = Part()


def choose_subset(labels: Sequence[Label], n: int, seed: int) -> tuple[int, ...]:
    """Ascending indices of at most `n` samples, each label with its share.

    Within a label samples are ranked by sha256 of seed and index. The first of each label comes before all
    others; then seats go by Sainte-Laguë's divisors (the r-th of a label with s samples at (2r + 1) / 2s),
    so shares are proportional, and the choice of n is contained in the choice of n + 1. With fewer seats
    than labels, the labels whose first sample ranks lowest get one each.
    """
    strata: dict[str, list[tuple[bytes, int]]] = defaultdict(list)
    for index, label in enumerate(labels):
        rank = hashlib.sha256(f"{seed}:{index}".encode()).digest()
        strata[json.dumps(label, sort_keys=True)].append((rank, index))
    order = []
    for ranked in strata.values():
        for position, (rank, index) in enumerate(sorted(ranked)):
            order.append((position > 0, Fraction(2 * position + 1, 2 * len(ranked)), rank, index))
    firsts = sorted((entry for entry in order if not entry[0]), key=lambda entry: entry[2])
    rest = sorted(entry for entry in order if entry[0])
    return tuple(sorted(index for *_, index in (firsts + rest)[: max(n, 0)]))


def part_of(labels: Sequence[Label], skip: int, take: int | None, seed: int) -> tuple[int, ...]:
    """Ascending indices of the part of a set that is meant: all of it for skip 0 and take None.

    Else the choice of skip + take (of all, for take None) without the choice of skip. Because choices are
    contained in larger ones, a part that takes n and a part that skips n share no sample.
    """
    end = len(labels) if take is None else skip + take
    skipped = frozenset(choose_subset(labels, skip, seed))
    return tuple(index for index in choose_subset(labels, end, seed) if index not in skipped)


def chosen(labels: Sequence[Label], part: Part, place: str) -> tuple[int, ...]:
    """Ascending indices of what a Part means.

    place: where the plan declares the set. DataError where `skip` leaves no sample of a set that has some.
    """
    meant = part_of(labels, part.skip, part.take, part.seed)
    if labels and not meant:
        raise DataError(
            f"The set has {len(labels)} samples, and skip = {part.skip} leaves none of them.",
            where=f"{place}.skip",
            next_step="Skip fewer samples, or take another set.",
        )
    if part.most is None or part.most >= len(meant):
        return meant
    return tuple(meant[i] for i in choose_subset([labels[i] for i in meant], part.most, part.seed))
