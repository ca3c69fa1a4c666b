"""Checks for copies: inside a set, and between the calibration and the evaluation set."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from phoneproof.data.checks.checked import CheckedSet, counted, counted_of, graded
from phoneproof.findings import Finding

NEARLY_EQUAL: Final = 0.99
"""Correlation of two thumbnails above which two pictures are nearly equal; see docs/calibration.md."""
LEAST_COPIES: Final = 0.05
"""Share of copies from which they count: below it the set is as good as one a twentieth smaller."""
LEAST_SIMILAR: Final = 0.2

_ROWS: Final = 256


def check_duplicates(checked: CheckedSet) -> Iterator[Finding]:
    """DATA-DUPLICATES: samples stored with the bytes of an earlier one, from a twentieth of the set."""
    seen: set[str] = set()
    copies = np.zeros(checked.store.count, bool)
    for at, digest in enumerate(checked.store.stored.content_digests):
        copies[at] = digest in seen
        seen.add(digest)
    facts = counted(checked.store, copies)
    if facts["fraction"] >= LEAST_COPIES:
        yield Finding.of("DATA-DUPLICATES", checked.subject, **facts, distinct=len(seen))


def check_near_duplicates(checked: CheckedSet) -> Iterator[Finding]:
    """DATA-NEAR-DUPLICATES: images nearly equal to an earlier one, as the frames of a video are.

    Equal ones are left to `check_duplicates`. Told from a fifth of the set on: any set has some of one scene.
    """
    store = checked.store
    for profile in checked.profiles.values():
        if profile.thumbnails is None:
            continue
        digests = np.array(store.stored.content_digests)[profile.positions]
        _, firsts = np.unique(digests, return_index=True)
        kept = np.zeros(profile.count, bool)
        kept[firsts] = True
        similar = np.zeros(profile.count, bool)
        similar[kept] = _like_an_earlier(profile.thumbnails[kept])
        facts = counted_of(store, profile, similar)
        if facts["fraction"] >= LEAST_SIMILAR:
            distinct = int(kept.sum()) - facts["samples"]
            yield Finding.of("DATA-NEAR-DUPLICATES", checked.subject, **facts, distinct=distinct)
            return


def check_overlap(checked: CheckedSet) -> Iterator[Finding]:
    """DATA-OVERLAP: calibration samples that are in the evaluation set too, by content; severe over half.

    Accuracy on samples that the ranges were fitted to flatters the build. Equal are samples whose bytes in
    the set, or whose stored bytes, are equal: one picture in two files counts.
    """
    shared = _shared(checked)
    if shared.any():
        facts = counted(checked.store, shared)
        yield graded("DATA-OVERLAP", checked, severe=2 * facts["samples"] > checked.store.count, **facts)


def check_near_overlap(checked: CheckedSet) -> Iterator[Finding]:
    """DATA-NEAR-OVERLAP: calibration images nearly equal to one of the evaluation set: resized or encoded
    anew, or frames of one video. Equal ones are left to `check_overlap`."""
    shared = _shared(checked)
    for mine, other in checked.compared.values():
        if mine.thumbnails is None or other.thumbnails is None:
            continue
        similar = _like_any(mine.thumbnails, other.thumbnails) & ~shared[mine.positions]
        facts = counted_of(checked.store, mine, similar)
        if facts["fraction"] >= LEAST_COPIES:
            yield Finding.of("DATA-NEAR-OVERLAP", checked.subject, **facts, compared=other.count)
            return


def _shared(checked: CheckedSet) -> npt.NDArray[np.bool_]:
    if checked.evaluation is None:
        return np.zeros(checked.store.count, bool)
    evaluation, stored = checked.evaluation.stored, checked.store.stored
    sources, contents = frozenset(evaluation.source_digests), frozenset(evaluation.content_digests)
    pairs = zip(stored.source_digests, stored.content_digests, strict=True)
    return np.array([source in sources or content in contents for source, content in pairs])


def _like_an_earlier(pictures: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """[n]: whether a picture is like one before it that is itself like none before: so of a slow pan over a
    scene each new view is kept once."""
    kept = np.empty_like(pictures)
    count = 0
    like = np.zeros(len(pictures), bool)
    for at, picture in enumerate(pictures):
        like[at] = count > 0 and float((kept[:count] @ picture).max()) > NEARLY_EQUAL
        if not like[at]:
            kept[count] = picture
            count += 1
    return like


def _like_any(pictures: npt.NDArray[np.float32], others: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    found = [
        (pictures[first : first + _ROWS] @ others.T).max(axis=1) > NEARLY_EQUAL
        for first in range(0, len(pictures), _ROWS)
    ]
    return np.concatenate(found)
