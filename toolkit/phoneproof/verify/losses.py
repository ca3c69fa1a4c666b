"""What to try against a loss of accuracy, by its size.

The order is that of PyTorch's guide to debugging the accuracy of quantized models: representative calibration
data first, then a wider type for the operators that suffer, found layer by layer, and training with
quantization last (https://docs.pytorch.org/docs/stable/quantization-accuracy-debugging.html). A loss of a few
points is mostly of single layers; one beyond them is mostly of the ranges, so of the calibration set.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from phoneproof.verify.accuracy import AccuracyDrop
from phoneproof.verify.verdicts import Reason, Verdict

LAYERS_FROM: Final = 0.02
"""From 2 points on single layers are kept in float."""
CALIBRATION_ABOVE: Final = 0.03
"""Above 3 points the calibration set is looked at first."""


def remedies(
    drops: Mapping[str, AccuracyDrop], gate: Verdict | None, calibration_findings: Sequence[str]
) -> tuple[Reason, ...]:
    """What to try with a quantized build that lost accuracy; at most one remedy, for the greatest loss.

    drops: by metric, shares of 0 to 1 as built-in metrics give them. gate: verdict of the accuracy gate, None
    where the plan sets none. calibration_findings: ids of what was found in the calibration set.
    A loss counts where the gate fails, or where its interval lies above 0 and it is 2 points or more.
    """
    lost = {
        metric: drop.drop
        for metric, drop in drops.items()
        if drop.drop is not None and drop.drop > 0 and (gate == "fail" or _is_shown(drop))
    }
    if not lost:
        return ()
    metric, most = max(lost.items(), key=lambda item: item[1])
    if most > CALIBRATION_ABOVE:
        found = tuple(calibration_findings) or None
        return (Reason.of("loss_calibration", metric=metric, drop=most, findings=found),)
    if most >= LAYERS_FROM:
        return (Reason.of("loss_layers", metric=metric, drop=most),)
    return (Reason.of("loss_small", metric=metric, drop=most),) if gate == "fail" else ()


def _is_shown(drop: AccuracyDrop) -> bool:
    return drop.interval is not None and drop.interval.lo > 0
