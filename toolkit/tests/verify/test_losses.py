"""What is told to be tried, by how much accuracy was lost."""

import pytest

from phoneproof.verify.accuracy import AccuracyDrop
from phoneproof.verify.intervals import Interval
from phoneproof.verify.losses import remedies
from phoneproof.verify.verdicts import Verdict


def lost(drop: float, half: float = 0.001) -> AccuracyDrop:
    interval = Interval(drop - half, drop + half)
    return AccuracyDrop(1000, 0.9, 0.9 - drop, drop, interval, "tango")


@pytest.mark.parametrize(
    ("drop", "gate", "id"),
    [
        (0.05, "fail", "loss_calibration"),
        (0.031, "pass", "loss_calibration"),
        (0.03, "fail", "loss_layers"),
        (0.02, None, "loss_layers"),
        (0.019, "fail", "loss_small"),
        (0.019, "pass", None),
        (0.019, None, None),
        (-0.05, "fail", None),
    ],
)
def test_the_size_of_the_loss_decides(drop: float, gate: Verdict | None, id: str | None) -> None:
    assert [one.id for one in remedies({"top1": lost(drop)}, gate, ())] == ([id] if id else [])


def test_a_loss_that_may_be_chance_counts_only_where_the_gate_fails() -> None:
    doubtful = {"top1": lost(0.05, half=0.06)}
    assert remedies(doubtful, "inconclusive", ()) == ()
    assert [one.id for one in remedies(doubtful, "fail", ())] == ["loss_calibration"]


def test_the_greatest_loss_is_told_with_what_was_found_in_the_calibration_set() -> None:
    (one,) = remedies({"top5": lost(0.021), "top1": lost(0.2)}, "fail", ("DATA-CONSTANT", "DATA-ONE-CLASS"))
    assert one.facts == {"metric": "top1", "drop": 0.2, "findings": ("DATA-CONSTANT", "DATA-ONE-CLASS")}


def test_nothing_is_told_without_a_loss() -> None:
    assert remedies({}, "inconclusive", ("DATA-CONSTANT",)) == ()
