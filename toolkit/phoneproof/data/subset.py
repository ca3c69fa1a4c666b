"""Choosing part of a set: stratified, from a seed, the same on every platform and version."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

from phoneproof.data.samples import Label


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
