"""Checks of labels: one class only, and classes in other shares than the evaluation set has them."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from phoneproof.data.checks.checked import CheckedSet
from phoneproof.data.store import SampleStore
from phoneproof.findings import Finding

MOST_MISPLACED: Final = 0.25
"""Share of samples that would have to be of other classes, beyond what chance explains: a quarter."""


def check_one_class(checked: CheckedSet) -> Iterator[Finding]:
    """DATA-ONE-CLASS: all samples have one label, though there are more classes.

    More there are if `classes` or the evaluation set says so. Silent without labels, and where the one
    class is none of the evaluation set's: then the one sub-folder is no class but how the images are kept.
    """
    shares = _class_counts(checked.store)
    known = _known_classes(checked)
    if len(shares) == 1 and len(known) > 1 and set(shares) <= known and checked.store.count > 1:
        (name,) = shares
        count = checked.store.count
        yield Finding.of(
            "DATA-ONE-CLASS", checked.subject, samples=count, classes=len(known), examples=(name,)
        )


def check_balance(checked: CheckedSet) -> Iterator[Finding]:
    """DATA-UNBALANCED: classes have other shares than in the evaluation set; without labels there, other
    than equal shares of the known classes.

    The measure is the total variation distance, the share of samples that would have to be of other classes,
    less its mean for a random draw of as many samples.
    """
    counts = _class_counts(checked.store)
    expected = None if checked.evaluation is None else _class_counts(checked.evaluation)
    if expected and not set(counts) & set(expected):
        return
    known = {*counts, *(expected or _known_classes(checked))}
    if len(counts) < 2 or len(known) < 2:
        return
    n = sum(counts.values())
    others = expected or dict.fromkeys(known, 1)
    total = sum(others.values())
    shares = {name: others.get(name, 0) / total for name in known}
    distance = sum(abs(counts.get(name, 0) / n - share) for name, share in shares.items()) / 2
    drawn = n if not expected else max(1, round(1 / (1 / n + 1 / total)))
    chance = sum(mean_deviation(drawn, share) for share in shares.values()) / 2
    if distance - chance > MOST_MISPLACED:
        largest = max(counts, key=lambda name: counts[name])
        yield Finding.of(
            "DATA-UNBALANCED",
            checked.subject,
            misplaced=distance,
            chance=chance,
            classes=len(known),
            missing=sum(name not in counts for name in known),
            largest_share=counts[largest] / n,
            evaluation_share=shares[largest] if expected else None,
            equal_share=None if expected else shares[largest],
        )


def mean_deviation(n: int, share: float) -> float:
    """Mean of |k / n - share| for k of a binomial distribution: de Moivre's closed form (Diaconis and
    Zabell, Statistical Science 6, 1991)."""
    if not 0 < share < 1:
        return 0.0
    m = math.floor(n * share) + 1
    log = math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1)
    log += m * math.log(share) + (n - m + 1) * math.log1p(-share)
    return 2 * m * math.exp(log) / n


def _class_counts(store: SampleStore) -> Mapping[str, int]:
    """Samples of each class, by its name where there are names, else by its index; empty where labels are
    none, or something else than a class."""
    labels = store.labels
    if labels is None or not all(_is_class(label) for label in labels):
        return {}
    names = store.stored.class_names
    return Counter(_shown(label, names) for label in labels)


def _known_classes(checked: CheckedSet) -> frozenset[str]:
    """Names, or indices as text, of all classes that the evaluation set or the set itself declares."""
    evaluation = checked.evaluation
    if evaluation is not None and evaluation.labels is not None:
        return frozenset(evaluation.stored.class_names or _class_counts(evaluation))
    return frozenset(checked.store.stored.class_names or ())


def _is_class(label: object) -> bool:
    return isinstance(label, int | str) or (isinstance(label, float) and label.is_integer())


def _shown(label: object, names: tuple[str, ...] | None) -> str:
    if isinstance(label, str):
        return label
    index = int(label)  # type: ignore[call-overload]
    return names[index] if names is not None and 0 <= index < len(names) else str(index)
