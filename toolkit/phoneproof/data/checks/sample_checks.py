"""Checks of samples one by one: how many there are, broken, not finite, constant, laid out wrongly."""

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from phoneproof.data.checks.checked import EXAMPLES, CheckedSet, counted, graded
from phoneproof.data.checks.forms import batches, form_of
from phoneproof.data.checks.patterns import roughness
from phoneproof.data.store import PIXELS, SampleStore, StoredInput
from phoneproof.findings import Finding

TOO_FEW: Final = 10
FEW: Final = 100
"""TensorFlow's guide asks for 100 to 500 samples; below 10, ranges are those of single images."""

_NEARLY: Final = 2 / 255
"""Standard deviation, as a share of the range of levels, up to which an image counts as of one colour: the
noise of a camera in the dark. scikit-image's faintest picture, the moon, has 12 / 255."""

_LEAST_PLAIN: Final = 0.05
"""Share of nearly constant images from which they are told: of real sets 3 % are clear sky or a bare wall."""

_LAID_OUT: Final = 64
"""Samples whose layout is looked at."""
_SMOOTHER: Final = 0.7
"""A layout is wrong if the other one has less than this share of its roughness. Photographs in their right
layout have at least 1.5 times less than in the other; see docs/calibration.md."""


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
    examples = tuple(f"{one.id}: {one.reason}" for one in skipped[:EXAMPLES])
    facts = {"broken": len(skipped), "total": total, "examples": examples}
    yield graded("DATA-BROKEN-FILE", checked, severe=2 * len(skipped) > total, **facts)


def check_finite(checked: CheckedSet) -> Iterator[Finding]:
    """DATA-NONFINITE: samples with NaN or an infinity. Pixels cannot hold either."""
    bad = np.zeros(checked.store.count, bool)
    for one in checked.store.stored.inputs:
        if np.dtype(one.dtype).kind == "f":
            bad |= ~np.concatenate([_is_finite(batch) for batch in batches(checked.store, one.name)])
    if bad.any():
        yield Finding.of("DATA-NONFINITE", checked.subject, **counted(checked.store, bad))


def check_constant(checked: CheckedSet) -> Iterator[Finding]:
    """DATA-CONSTANT: samples of one colour or value throughout (black frames, failed loads), and images that
    nearly are: whose levels vary by no more than the noise of a camera in the dark.

    Severe when more than half are, else a warning. A channel of an image counts by itself, so plain blue is
    constant too; a sample of several inputs only if all are constant; inputs of one element never.
    """
    judged = [one for one in checked.store.stored.inputs if _varies(one.shape, one.encoding)]
    if not judged:
        return
    constant, nearly = np.ones((2, checked.store.count), bool)
    for one in judged:
        limit = _faint(checked.store, one)
        pieces = [_is_constant(batch, one, limit) for batch in batches(checked.store, one.name)]
        exactly, faintly = np.concatenate(pieces, axis=1)
        constant &= exactly
        nearly &= faintly
    plain = int(np.count_nonzero(nearly & ~constant))
    told = nearly if plain >= _LEAST_PLAIN * checked.store.count else constant
    if told.any():
        facts = counted(checked.store, told)
        severe = 2 * facts["samples"] > checked.store.count
        nearly_so = plain if told is nearly and plain else None
        yield graded("DATA-CONSTANT", checked, severe=severe, **facts, nearly=nearly_so)


def check_layout(checked: CheckedSet) -> Iterator[Finding]:
    """DATA-LAYOUT: arrays of images in NHWC under a shape of NCHW, or the other way round.

    Reshaping instead of transposing makes the shape fit and the picture nonsense. It shows in the stored
    order of elements: read the other way, the picture is smoother. Only for 3 or 4 channels: one is the same
    both ways.
    """
    for stored in checked.store.stored.inputs:
        form = form_of(stored)
        if form is None or stored.encoding == PIXELS or form.kind != "images":
            continue
        axis = form.channel_axis or 0
        channels = stored.shape[axis]
        sides = (*stored.shape[:axis], *stored.shape[axis + 1 :])
        if channels == 1:
            continue
        ratios = _roughness_ratios(checked.store, stored.name, axis, channels, sides)
        ratio = float(np.median(ratios)) if len(ratios) else 1.0
        if ratio < _SMOOTHER:
            given, found = ("NCHW", "NHWC") if axis == 0 else ("NHWC", "NCHW")
            facts: dict[str, Any] = {"input": stored.name, "given": given, "found": found, "roughness": ratio}
            yield Finding.of("DATA-LAYOUT", checked.subject, **facts)


def _roughness_ratios(
    store: SampleStore, name: str, axis: int, channels: int, sides: tuple[int, ...]
) -> npt.NDArray[np.float64]:
    """Roughness of each of the first samples read in the other layout, over that in their own."""
    ratios = []
    for at in range(min(_LAID_OUT, store.count)):
        sample = store.rows(name, at, 1)[0].astype(np.float64)
        given = np.moveaxis(sample, axis, 0)
        if axis == 0:
            other = np.moveaxis(sample.reshape(*sides, channels), -1, 0)
        else:
            other = sample.reshape(channels, *sides)
        own = roughness(given)
        if math.isfinite(own) and own > 0:
            ratios.append(roughness(other) / own)
    return np.array(ratios)


def _is_finite(batch: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    finite: npt.NDArray[np.bool_] = np.isfinite(batch).reshape(len(batch), -1).all(axis=1)
    return finite


def _varies(shape: tuple[int, ...], encoding: str) -> bool:
    return int(np.prod(shape[:2] if encoding != "raw" else shape)) > 1


def _faint(store: SampleStore, stored: StoredInput) -> float:
    """Standard deviation up to which an image is nearly constant; 0 for inputs that are no images.

    Of values that are not pixels the range of levels is not known: the set's own stands for it.
    """
    form = form_of(stored)
    if form is None or form.kind != "images":
        return 0.0
    if stored.encoding == PIXELS:
        return 255 * _NEARLY
    finite = (batch[np.isfinite(batch)] for batch in batches(store, stored.name))
    ends = [(float(values.min()), float(values.max())) for values in finite if values.size]
    if not ends:
        return 0.0
    return (max(high for _, high in ends) - min(low for low, _ in ends)) * _NEARLY


def _is_constant(batch: npt.NDArray[Any], stored: StoredInput, faint: float) -> npt.NDArray[np.bool_]:
    """[2, n]: exactly so, and exactly or nearly so."""
    form = form_of(stored)
    if form is None or form.kind != "images":
        flat = batch.reshape(len(batch), -1)
        return np.stack([(flat == flat[:, :1]).all(axis=1)] * 2)
    channels = np.ascontiguousarray(form.by_channel(batch), np.float32)
    flat = channels.reshape(*channels.shape[:2], -1)
    exactly = (flat == flat[:, :, :1]).all(axis=(1, 2))
    with np.errstate(invalid="ignore", over="ignore"):
        spread = flat.std(axis=2).max(axis=1)
    return np.stack([exactly, exactly | (spread <= faint)])
