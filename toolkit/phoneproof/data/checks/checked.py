"""What a check is given, and how it tells what it found."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from phoneproof.data.checks.profile import Profile, profiles
from phoneproof.data.preprocessing import Preprocess
from phoneproof.data.store import SampleStore
from phoneproof.findings import Finding, Severity

EXAMPLES: Final = 5
"""How many samples a finding names."""


@dataclass(frozen=True)
class CheckedSet:
    """subject: `calibration` or `evaluation`. evaluation: the set that a calibration set is compared with.

    preprocess: the pipeline whose value map stored pixels get; None for stored values.
    """

    subject: str
    store: SampleStore
    evaluation: SampleStore | None = None
    preprocess: Preprocess | None = None

    @cached_property
    def profiles(self) -> Mapping[str, Profile]:
        """One for each input that holds magnitudes; see `profiles`."""
        return profiles(self.store)

    @cached_property
    def compared(self) -> Mapping[str, tuple[Profile, Profile]]:
        """(of this set, of the evaluation set) for each input that both hold in one form."""
        if self.evaluation is None:
            return {}
        other = profiles(self.evaluation)
        return {
            name: (mine, other[name])
            for name, mine in self.profiles.items()
            if name in other and mine.stored.shape == other[name].stored.shape
        }


Check = Callable[[CheckedSet], Iterable[Finding]]


def graded(id: str, checked: CheckedSet, severe: bool, **facts: Any) -> Finding:
    """A finding that is severe or a warning by how much it touches, not by its id alone."""
    severity = Severity.SEVERE if severe else Severity.WARNING
    return Finding(id=id, severity=severity, subject=checked.subject, facts=facts)


def counted(store: SampleStore, marked: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """Facts about the samples of a set that are marked; one truth for each sample."""
    found = np.flatnonzero(marked)
    return {
        "samples": len(found),
        "total": store.count,
        "fraction": len(found) / store.count,
        "examples": tuple(store.stored.ids[index] for index in found[:EXAMPLES]),
    }


def counted_of(store: SampleStore, profile: Profile, marked: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """As `counted`, of the samples that a profile looked at; `total` is how many these are."""
    found = profile.positions[marked]
    return {
        "samples": len(found),
        "total": len(profile.positions),
        "fraction": len(found) / len(profile.positions),
        "examples": tuple(store.stored.ids[index] for index in found[:EXAMPLES]),
    }
