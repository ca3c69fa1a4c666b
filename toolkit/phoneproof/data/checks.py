"""What is wrong with a calibration or evaluation set, told before anything is built from it.

A check is a function from `CheckedSet` to findings; adding one is writing it and naming it in
`CALIBRATION_CHECKS` or `EVALUATION_CHECKS`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from phoneproof.data.store import SampleStore
from phoneproof.findings import Finding, Severity

TOO_FEW: Final = 10
FEW: Final = 100
"""TensorFlow's guide asks for 100 to 500 samples; below 10, ranges are those of single images."""

_EXAMPLES: Final = 5


@dataclass(frozen=True)
class CheckedSet:
    """subject: `calibration` or `evaluation`. evaluation: the set that a calibration set must not share."""

    subject: str
    store: SampleStore
    evaluation: SampleStore | None = None


Check = Callable[[CheckedSet], Iterable[Finding]]


def run_checks(checked: CheckedSet) -> tuple[Finding, ...]:
    """All findings of the checks that belong to the subject. ValueError for another subject."""
    if checked.subject not in CHECKS:
        raise ValueError(f"no checks for {checked.subject!r}")
    return tuple(finding for check in CHECKS[checked.subject] for finding in check(checked))


def check_count(checked: CheckedSet) -> Iterator[Finding]:
    """DATA-CALIBRATION-TOO-FEW below 10 samples, DATA-CALIBRATION-FEW below 100."""
    count = checked.store.count
    if count < TOO_FEW:
        yield Finding.of("DATA-CALIBRATION-TOO-FEW", checked.subject, samples=count, least=TOO_FEW)
    elif count < FEW:
        yield Finding.of("DATA-CALIBRATION-FEW", checked.subject, samples=count, advised=FEW)


def check_broken_files(checked: CheckedSet) -> Iterator[Finding]:
    """DATA-BROKEN-FILE: samples left out because they cannot be read; severe when more than half are."""
    skipped = checked.store.stored.skipped
    if not skipped:
        return
    total = checked.store.count + len(skipped)
    examples = tuple(f"{one.id}: {one.reason}" for one in skipped[:_EXAMPLES])
    facts = {"broken": len(skipped), "total": total, "examples": examples}
    yield _graded("DATA-BROKEN-FILE", checked, severe=2 * len(skipped) > total, **facts)


def check_finite(checked: CheckedSet) -> Iterator[Finding]:
    """DATA-NONFINITE: samples with NaN or an infinity. Pixels cannot hold either."""
    bad = np.zeros(checked.store.count, bool)
    for one in checked.store.stored.inputs:
        if np.dtype(one.dtype).kind == "f":
            bad |= ~np.concatenate([_is_finite(batch) for batch in checked.store.batches(one.name)])
    if bad.any():
        yield Finding.of("DATA-NONFINITE", checked.subject, **_counted(checked.store, bad))


def check_constant(checked: CheckedSet) -> Iterator[Finding]:
    """DATA-CONSTANT: samples of one colour or value throughout (black frames, failed loads).

    Severe when more than half are, else a warning. A channel of a pixel image counts by itself, so plain
    blue is constant too; a sample of several inputs only if all are constant; inputs of one element never.
    """
    judged = [one for one in checked.store.stored.inputs if _varies(one.shape, one.encoding)]
    if not judged:
        return
    constant = np.ones(checked.store.count, bool)
    for one in judged:
        pieces = [_is_constant(batch, one.encoding) for batch in checked.store.batches(one.name)]
        constant &= np.concatenate(pieces)
    if constant.any():
        severe = 2 * int(constant.sum()) > checked.store.count
        yield _graded("DATA-CONSTANT", checked, severe=severe, **_counted(checked.store, constant))


def check_overlap(checked: CheckedSet) -> Iterator[Finding]:
    """DATA-OVERLAP: calibration samples that are in the evaluation set too, by content; severe over half.

    Accuracy on samples that the ranges were fitted to flatters the build. Equal are samples whose bytes in
    the set, or whose stored bytes, are equal: one picture in two files counts.
    """
    if checked.evaluation is None:
        return
    evaluation = checked.evaluation.stored
    sources, contents = frozenset(evaluation.source_digests), frozenset(evaluation.content_digests)
    stored = checked.store.stored
    shared = np.array(
        [
            source in sources or content in contents
            for source, content in zip(stored.source_digests, stored.content_digests, strict=True)
        ]
    )
    if shared.any():
        facts = _counted(checked.store, shared)
        yield _graded("DATA-OVERLAP", checked, severe=2 * int(shared.sum()) > stored.count, **facts)


CALIBRATION_CHECKS: Final[tuple[Check, ...]] = (
    check_count,
    check_broken_files,
    check_finite,
    check_constant,
    check_overlap,
)
EVALUATION_CHECKS: Final[tuple[Check, ...]] = (check_broken_files, check_finite, check_constant)
CHECKS: Final = {"calibration": CALIBRATION_CHECKS, "evaluation": EVALUATION_CHECKS}


def _graded(id: str, checked: CheckedSet, severe: bool, **facts: Any) -> Finding:
    severity = Severity.SEVERE if severe else Severity.WARNING
    return Finding(id=id, severity=severity, subject=checked.subject, facts=facts)


def _counted(store: SampleStore, marked: npt.NDArray[np.bool_]) -> dict[str, Any]:
    found = np.flatnonzero(marked)
    return {
        "samples": len(found),
        "total": store.count,
        "fraction": len(found) / store.count,
        "examples": tuple(store.stored.ids[index] for index in found[:_EXAMPLES]),
    }


def _is_finite(batch: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    finite: npt.NDArray[np.bool_] = np.isfinite(batch).reshape(len(batch), -1).all(axis=1)
    return finite


def _varies(shape: tuple[int, ...], encoding: str) -> bool:
    return int(np.prod(shape[:2] if encoding != "raw" else shape)) > 1


def _is_constant(batch: npt.NDArray[Any], encoding: str) -> npt.NDArray[np.bool_]:
    channels = batch.shape[-1] if encoding != "raw" else 1
    flat = batch.reshape(len(batch), -1, channels)
    constant: npt.NDArray[np.bool_] = (flat == flat[:, :1]).all(axis=(1, 2))
    return constant
