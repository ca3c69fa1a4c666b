"""One pass over a set: a few numbers for each sample, from which all comparisons are made.

Memory is bounded: a piece of the set is read at a time, and no more than LOOKED_AT samples are looked at,
evenly spaced over the set.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from phoneproof.data.checks.forms import InputForm, form_of, rows_at_once
from phoneproof.data.checks.patterns import (
    border_shares,
    cell_means,
    channel_likeness,
    chroma,
    likeness,
    margins_of,
    thumbnails,
)
from phoneproof.data.store import SampleStore, StoredInput

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

LOOKED_AT: Final = 1000
"""Samples of a set; means over 1000 samples vary by 3 % of the samples' own spread."""

_VALUES: Final = 4096
"""Elements of a channel that a sample's percentiles are taken from: the 1st is then the 41st lowest."""


@dataclass(frozen=True)
class Profile:
    """An input of a set, sample by sample: n samples with finite values, C channels.

    positions: int [n], of the samples in the set. mean, std, low, high: [n, C]; low and high are the 1st and
    99th percentile. likeness: [n], as `patterns.likeness`. For images: thumbnails [n, *], borders [n], and
    with three channels chroma [n, 4] and channel_likeness [n].
    """

    stored: StoredInput
    form: InputForm
    positions: npt.NDArray[np.int64]
    mean: Floats
    std: Floats
    low: Floats
    high: Floats
    likeness: Floats
    thumbnails: npt.NDArray[np.float32] | None = None
    borders: Floats | None = None
    chroma: Floats | None = None
    channel_likeness: Floats | None = None

    @property
    def count(self) -> int:
        """Number of samples that were looked at and are finite."""
        return len(self.positions)


def profiles(store: SampleStore) -> Mapping[str, Profile]:
    """A profile of each input whose elements are magnitudes, and of which any sample is finite."""
    made: dict[str, Profile] = {}
    for stored in store.stored.inputs:
        form = form_of(stored)
        profile = None if form is None else _profile(store, stored, form)
        if profile is not None:
            made[stored.name] = profile
    return made


def _profile(store: SampleStore, stored: StoredInput, form: InputForm) -> Profile | None:
    kept: dict[str, list[Array]] = {}
    for positions, rows in _pieces(store, stored):
        finite = np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
        if finite.any():
            samples = np.ascontiguousarray(form.by_channel(rows[finite]), np.float32)
            found = _of_piece(samples, form)
            for name, numbers in {"positions": positions[finite], **found}.items():
                kept.setdefault(name, []).append(numbers)
    if not kept:
        return None
    return Profile(stored, form, **{name: np.concatenate(parts) for name, parts in kept.items()})


def _pieces(store: SampleStore, stored: StoredInput) -> Iterator[tuple[npt.NDArray[np.int64], Array]]:
    count = min(LOOKED_AT, store.count)
    positions = np.arange(count) * store.count // count
    at_once = rows_at_once(stored)
    for first in range(0, count, at_once):
        wanted = positions[first : first + at_once]
        if count == store.count:
            yield wanted, store.rows(stored.name, first, len(wanted))
        else:
            yield wanted, np.concatenate([store.rows(stored.name, int(at), 1) for at in wanted])


def _of_piece(samples: npt.NDArray[np.float32], form: InputForm) -> dict[str, Array]:
    """samples: [n, C, *axes], finite."""
    flat = samples.reshape(*samples.shape[:2], -1)
    step = max(1, flat.shape[2] // _VALUES)
    low, high = np.percentile(flat[:, :, ::step], (1, 99), axis=2)
    mean = flat.mean(axis=2, dtype=np.float64)
    away = flat - mean[:, :, np.newaxis].astype(np.float32)
    found: dict[str, Array] = {
        "mean": mean,
        "std": np.sqrt(np.square(away).mean(axis=2, dtype=np.float64)),
        "low": low.astype(np.float64),
        "high": high.astype(np.float64),
        "likeness": likeness(samples),
    }
    if form.kind == "images":
        margins = margins_of(samples)
        found["thumbnails"] = thumbnails(samples, margins)
        found["borders"] = border_shares(margins, *samples.shape[2:])
        if samples.shape[1] == 3:
            found["chroma"] = chroma(cell_means(samples))
            found["channel_likeness"] = channel_likeness(samples)
    return found
