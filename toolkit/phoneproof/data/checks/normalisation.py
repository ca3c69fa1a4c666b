"""Which step of scaling separates one set's values from another's."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_IMAGENET_MEAN: Final = (0.485, 0.456, 0.406)
_IMAGENET_STD: Final = (0.229, 0.224, 0.225)
"""torchvision's documented values for models trained on ImageNet, of pixels from 0 to 1."""
_CAFFE_MEAN: Final = (103.939, 116.779, 123.68)
"""Keras's documented values (imagenet_utils, mode `caffe`), of BGR pixels from 0 to 255."""

_OCTAVES: Final = 0.4
"""Spreads agree to this many powers of two: two steps of the list differ by one at least."""
_SPREADS: Final = 0.6
"""Means agree to this many standard deviations."""


@dataclass(frozen=True)
class Step:
    """y = x * scale + offset, one number for each channel or one for all."""

    scale: tuple[float, ...]
    offset: tuple[float, ...]

    @property
    def inverse(self) -> "Step":
        """The step that undoes it."""
        scale = tuple(1 / one for one in self.scale)
        return Step(scale, tuple(-o * s for o, s in zip(self.offset, scale, strict=True)))

    def then(self, other: "Step") -> "Step":
        """This step, and the other after it."""
        scale = np.array(self.scale) * other.scale
        offset = np.array(self.offset) * other.scale + other.offset
        return Step(tuple(np.atleast_1d(scale).tolist()), tuple(np.atleast_1d(offset).tolist()))


_UNIT: Final = Step((1 / 255,), (0.0,))
_SIGNED: Final = Step((1 / 127.5,), (-1.0,))
_IMAGENET: Final = Step(
    tuple(1 / std for std in _IMAGENET_STD),
    tuple(-mean / std for mean, std in zip(_IMAGENET_MEAN, _IMAGENET_STD, strict=True)),
)
_CAFFE: Final = Step((1.0, 1.0, 1.0), tuple(-mean for mean in _CAFFE_MEAN))
_SOUND: Final = Step((1 / 32768,), (0.0,))

STEPS: Final[Mapping[str, Step]] = {
    "divided_by_255_again": _UNIT,
    "not_divided_by_255": _UNIT.inverse,
    "scaled_around_zero_again": _SIGNED,
    "not_scaled_around_zero": _SIGNED.inverse,
    "imagenet_normalised_again": _IMAGENET,
    "not_imagenet_normalised": _IMAGENET.inverse,
    "pixels_not_imagenet_normalised": _UNIT.then(_IMAGENET).inverse,
    "mean_subtracted_again": _CAFFE,
    "mean_not_subtracted": _CAFFE.inverse,
    "divided_by_32768_again": _SOUND,
    "not_divided_by_32768": _SOUND.inverse,
}
"""What leads from right values to those that were found."""


def step_between(mean: Floats, std: Floats, right_mean: Floats, right_std: Floats) -> str | None:
    """The step that leads from the right values' mean and spread, [C] each, to those that were found.

    None where they agree as they are, or no step makes them agree; of several that fit, the nearest. Where
    none fits, spreads that differ by 255 are enough: a mean and std of the model's own may have come after.
    """
    if not (std > 0).all() or _distance(mean, std, right_mean, right_std) <= 1:
        return None
    fitting = []
    for name, step in STEPS.items():
        if len(step.scale) in (1, len(mean)):
            scale, offset = np.array(step.scale), np.array(step.offset)
            fitting.append((_distance(mean, std, right_mean * scale + offset, right_std * scale), name))
    distance, found = min(fitting)
    if distance <= 1:
        return found
    for name, factor in (("divided_by_255_again", 1 / 255), ("not_divided_by_255", 255)):
        if (right_std > 0).all() and (np.abs(np.log2(std / right_std / factor)) <= _OCTAVES).all():
            return name
    return None


def _distance(mean: Floats, std: Floats, other_mean: Floats, other_std: Floats) -> float:
    """At most 1 where spreads and means agree in every channel."""
    if not (std > 0).all() or not (other_std > 0).all():
        return np.inf
    octaves = np.abs(np.log2(std / other_std)) / _OCTAVES
    spreads = np.abs(mean - other_mean) / np.maximum(std, other_std) / _SPREADS
    return float(max(octaves.max(), spreads.max()))
