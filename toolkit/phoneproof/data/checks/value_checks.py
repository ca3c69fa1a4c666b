"""Checks of a calibration set's values, most of them against those of the evaluation set.

The unit of every comparison is the sample, since the pixels of one picture are not independent; each demands
that the difference exceeds its limit by three standard errors, so that small sets stay silent.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from phoneproof.data.checks.checked import CheckedSet, counted_of
from phoneproof.data.checks.normalisation import step_between
from phoneproof.data.checks.profile import Profile
from phoneproof.data.preprocessing import FLOAT_DTYPES
from phoneproof.data.store import PIXELS
from phoneproof.data.values import value_map
from phoneproof.findings import Finding

Floats = npt.NDArray[np.float64]

LEAST_COMPARED: Final = 5
"""Fewer samples say nothing of a spread."""
LEAST_RANGED: Final = 20
"""The 90th percentile of fewer samples is one sample's, and no bootstrap tells how far it is off."""
ERRORS: Final = 3.0
OCTAVES: Final = 1.0
"""A range twice as wide as needed costs every value one bit, 6 dB; one half as wide clips."""
SPREADS: Final = 1.0
"""Means one standard deviation of the samples apart: Cohen calls 0.8 a large effect."""
DIVIDED_TWICE: Final = 1.02 / 255
LEVELS: Final = (128.0, 255.0)
SCALED: Final = 16.0
"""Largest absolute value of scaled pixels: a dark picture over a std of 0.06, a fourth of ImageNet's."""
NOISE: Final = 0.2
"""Likeness of neighbours below which it is noise. 95 % of white noise of 16 x 16 elements is below 0.18, more
of it nearer 0; the real pictures of docs/calibration.md are above 0.5."""
LEAST_NOISE: Final = 0.1
"""Share of samples that look like noise from which it is said."""
LEAST_BORDERED: Final = 0.25
SWAPPED: Final = 5.0

_BOOTSTRAPS: Final = 100


def check_noise(checked: CheckedSet) -> Iterator[Finding]:
    """DATA-NOISE: images in which no pixel is like its neighbours, or whose colours know nothing of each
    other (enlarged noise). Other values only where the evaluation set's are not so: vectors of features have
    no neighbours."""
    for name, profile in checked.profiles.items():
        noisy = _noisy(profile)
        facts = counted_of(checked.store, profile, noisy)
        if facts["fraction"] < LEAST_NOISE:
            continue
        if profile.form.kind != "images":
            pair = checked.compared.get(name)
            if pair is None or facts["fraction"] < 0.5 or _noisy(pair[1]).mean() > LEAST_NOISE:
                continue
        yield Finding.of("DATA-NOISE", checked.subject, **facts, likeness=_typical(profile.likeness[noisy]))
        return


def check_normalisation(checked: CheckedSet) -> Iterator[Finding]:
    """DATA-NORMALISATION: values that a step of scaling separates from the evaluation set's, or images all of
    whose values lie in 0 to 1/255, which were divided by 255 twice."""
    for name, profile in checked.profiles.items():
        pair = checked.compared.get(name)
        step = None if pair is None else _step(*pair)
        if step is None and _divided_twice(checked, profile):
            step = "divided_by_255_again"
        if step is not None:
            other = {} if pair is None else _ends(pair[1], "evaluation")
            facts: dict[str, Any] = {
                "input": name,
                "why": step,
                **_ends(profile, "calibration"),
                **other,
            }
            yield Finding.of("DATA-NORMALISATION", checked.subject, **facts)


def check_ranges(checked: CheckedSet) -> Iterator[Finding]:
    """DATA-RANGE: values spread over less than half, or more than twice, the range of the evaluation set's.

    A range goes from the 10th percentile of the samples' low ends to the 90th of their high ends; standard
    errors of its logarithm are bootstrapped over samples.
    """
    for name, (mine, other) in checked.compared.items():
        if not _are_comparable(mine, other, LEAST_RANGED) or _step(mine, other) is not None:
            continue
        ratio, error = _octaves(mine, other)
        beyond = np.abs(ratio) - ERRORS * error
        worst = int(np.argmax(beyond))
        if beyond[worst] > OCTAVES:
            facts = _channel_facts(mine, worst) | _ends_of(mine, worst, "calibration")
            facts |= _ends_of(other, worst, "evaluation")
            yield Finding.of(
                "DATA-RANGE", checked.subject, input=name, **facts, ratio=float(2.0 ** ratio[worst])
            )


def check_statistics(checked: CheckedSet) -> Iterator[Finding]:
    """DATA-STATISTICS: a channel's mean is a standard deviation of the samples away from the evaluation
    set's. Silent where swapped channels or a step of scaling explain it."""
    for name, (mine, other) in checked.compared.items():
        explained = _step(mine, other) is not None or _swapped(mine, other) is not None
        if explained or not _are_comparable(mine, other):
            continue
        effect = _effect(mine.mean, other.mean)
        worst = int(np.argmax(np.abs(effect)))
        error = np.sqrt(1 / mine.count + 1 / other.count)
        if abs(effect[worst]) - ERRORS * error > SPREADS:
            yield Finding.of(
                "DATA-STATISTICS",
                checked.subject,
                input=name,
                **_channel_facts(mine, worst),
                calibration_mean=float(mine.mean[:, worst].mean()),
                evaluation_mean=float(other.mean[:, worst].mean()),
                effect=float(abs(effect[worst])),
            )


def check_colour_order(checked: CheckedSet) -> Iterator[Finding]:
    """DATA-COLOUR-ORDER: with the first and third channel swapped, the colours are those of the evaluation
    set, and as they are they are not. Silent where the two orders hardly differ."""
    for name, (mine, other) in checked.compared.items():
        swapped = _swapped(mine, other)
        if swapped is not None:
            means = {
                f"{subject}_{colour}": float(profile.mean[:, channel].mean())
                for subject, profile in (("calibration", mine), ("evaluation", other))
                for colour, channel in (("first", 0), ("third", 2))
            }
            given, turned = swapped
            facts: dict[str, Any] = {"input": name, "distance": given, "distance_swapped": turned, **means}
            yield Finding.of("DATA-COLOUR-ORDER", checked.subject, **facts)


def check_borders(checked: CheckedSet) -> Iterator[Finding]:
    """DATA-BORDERS: one set's images have borders of one colour and the other's have not: a letterbox
    against a crop, or against stretching."""
    for name, (mine, other) in checked.compared.items():
        if mine.borders is None or other.borders is None or not _are_comparable(mine, other):
            continue
        bordered = mine.borders > 0, other.borders > 0
        shares = [float(one.mean()) for one in bordered]
        both = float(np.concatenate(bordered).mean())
        error = np.sqrt(both * (1 - both) * (1 / mine.count + 1 / other.count))
        if abs(shares[0] - shares[1]) - ERRORS * error > LEAST_BORDERED:
            with_them = mine.borders if shares[0] > shares[1] else other.borders
            yield Finding.of(
                "DATA-BORDERS",
                checked.subject,
                input=name,
                calibration_share=shares[0],
                evaluation_share=shares[1],
                border=float(np.median(with_them[with_them > 0])),
            )


def _noisy(profile: Profile) -> npt.NDArray[np.bool_]:
    noisy: npt.NDArray[np.bool_] = profile.likeness < NOISE
    if profile.channel_likeness is not None and profile.stored.encoding == PIXELS:
        noisy |= (profile.channel_likeness < NOISE) & ~np.isnan(profile.likeness)
    return noisy


def _typical(values: Floats) -> float:
    return float(np.nanmedian(values))


def _are_comparable(mine: Profile, other: Profile, least: int = LEAST_COMPARED) -> bool:
    """Whether there are enough samples, and images of more than one colour: of others DATA-CONSTANT tells."""
    plain = any(one.form.kind == "images" and np.median(one.std.max(axis=1)) == 0 for one in (mine, other))
    return min(mine.count, other.count) >= least and not plain


def _step(mine: Profile, other: Profile) -> str | None:
    """Stored pixels are levels before any scaling, and single features have scales of their own."""
    known = mine.stored.encoding != PIXELS and mine.form.kind != "features"
    if not known or not _are_comparable(mine, other) or mine.stored.dtype not in FLOAT_DTYPES:
        return None
    return step_between(*_moments(mine), *_moments(other)) or _unscaled(mine, other)


def _unscaled(mine: Profile, other: Profile) -> str | None:
    """Pixels as they are beside values that no pixel has: whatever the model's own mean and std are."""
    low, high = float(mine.low.min()), float(mine.high.max())
    largest = float(max(-other.low.min(), other.high.max()))
    levels = mine.form.kind == "images" and low >= 0 and LEVELS[0] <= high <= LEVELS[1] and largest < SCALED
    return "pixels_not_normalised" if levels else None


def _moments(profile: Profile) -> tuple[Floats, Floats]:
    mean = profile.mean.mean(axis=0)
    variance = (profile.std**2 + profile.mean**2).mean(axis=0) - mean**2
    return mean, np.sqrt(np.maximum(variance, 0))


def _divided_twice(checked: CheckedSet, profile: Profile) -> bool:
    if profile.form.kind != "images":
        return False
    if profile.stored.encoding == PIXELS:
        made = None if checked.preprocess is None else value_map(checked.preprocess)
        is_float = checked.preprocess is not None and checked.preprocess.dtype in FLOAT_DTYPES
        return made is not None and is_float and float(np.ptp(made, axis=1).max()) <= DIVIDED_TWICE
    if profile.stored.dtype not in FLOAT_DTYPES:
        return False
    return float(profile.low.min()) >= 0 and 0 < float(profile.high.max()) <= DIVIDED_TWICE


def _ends(profile: Profile, subject: str) -> dict[str, float]:
    return {f"{subject}_low": float(profile.low.min()), f"{subject}_high": float(profile.high.max())}


def _ends_of(profile: Profile, channel: int, subject: str) -> dict[str, float]:
    low, high = _range(profile.low[:, channel], profile.high[:, channel])
    return {f"{subject}_low": float(low), f"{subject}_high": float(high)}


def _channel_facts(profile: Profile, channel: int) -> dict[str, Any]:
    return {"channel": channel if profile.mean.shape[1] > 1 else None}


def _range(low: Floats, high: Floats) -> tuple[Any, Any]:
    """Along the first axis but one for bootstraps, so that both take the same way."""
    return np.percentile(low, 10, axis=0), np.percentile(high, 90, axis=0)


def _octaves(mine: Profile, other: Profile) -> tuple[Floats, Floats]:
    """log2 of the ratio of both ranges, [C], and its standard error."""
    draw = np.random.default_rng(0)
    everything = np.concatenate([mine.high, other.high]).max(axis=0) - np.concatenate(
        [mine.low, other.low]
    ).min(axis=0)
    floor = np.maximum(everything * 1e-6, np.finfo(np.float64).tiny)

    def octaves(profile: Profile, rows: npt.NDArray[np.int64] | slice) -> Floats:
        low, high = _range(profile.low[rows], profile.high[rows])
        found: Floats = np.log2(np.maximum(high - low, floor))
        return found

    whole = octaves(mine, slice(None)) - octaves(other, slice(None))
    errors = [
        np.std([octaves(one, draw.integers(0, one.count, one.count)) for _ in range(_BOOTSTRAPS)], axis=0)
        for one in (mine, other)
    ]
    return whole, np.hypot(*errors)


def _effect(mine: Floats, other: Floats) -> Floats:
    """Difference of the means of two groups of samples in standard deviations (Cohen's d), [C].

    The deviation is at least a thousandth of the values' range: nearly constant features differ by rounding.
    """
    spread = np.sqrt((mine.var(axis=0, ddof=1) + other.var(axis=0, ddof=1)) / 2)
    both = np.concatenate([mine, other])
    floor = np.maximum(np.ptp(both, axis=0) * 1e-3, np.finfo(np.float64).tiny)
    effect: Floats = (mine.mean(axis=0) - other.mean(axis=0)) / np.maximum(spread, floor)
    return effect


def _swapped(mine: Profile, other: Profile) -> tuple[float, float] | None:
    """(distance in the order given, distance swapped) in standard errors, where the swap is the better
    account: the sets differ by SWAPPED errors as they are and by less than a third of that when swapped."""
    if mine.chroma is None or other.chroma is None or not _are_comparable(mine, other):
        return None
    if mine.stored.encoding != other.stored.encoding or _step(mine, other) is not None:
        return None
    covariance = np.cov(mine.chroma.T) / mine.count + np.cov(other.chroma.T) / other.count
    inverse = np.linalg.pinv(covariance, hermitian=True)
    first, second = mine.chroma.mean(axis=0), other.chroma.mean(axis=0)
    given, turned = (
        float(np.sqrt(max(0.0, difference @ inverse @ difference)))
        for difference in (first - second, first + second)
    )
    return (given, turned) if given >= SWAPPED and turned < given / 3 else None
