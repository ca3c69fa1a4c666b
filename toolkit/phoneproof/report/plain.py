"""What a client reads first: which build to ship on which phones, and what it gains, in plain words.

A gain is named only where it is shown: a speed counts with right outputs, an accuracy with its gate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from phoneproof.errors import Fact
from phoneproof.recipes.runtime_table import RUNTIMES
from phoneproof.report import reading, units
from phoneproof.report.model import (
    ModelRecommendation,
    Platform,
    Recommendation,
    Report,
    ReportedDevice,
    Result,
)
from phoneproof.report.words import platform_name
from phoneproof.verify.verdicts import GateId, Reason, Verdict

ALIKE: Final = 0.005
"""Sizes closer than this share of the baseline's are called the same."""

RUNTIME_NAMES: Final[Mapping[str, str]] = {"coreml": "Core ML"}
"""How users know a runtime for which an interpreter stands in."""

MOST_MISSING: Final = 4
"""Things not measured that the first screen names; their section has all of them."""


@dataclass(frozen=True)
class Shipping:
    """What to ship where. platforms: those that one choice serves; empty in reports that name none."""

    platforms: tuple[Platform, ...]
    choice: Recommendation

    @property
    def place(self) -> str:
        """`Android and iOS`; empty where no platform is named."""
        return joined([platform_name(platform) for platform in self.platforms])


def shipping(report: Report) -> Mapping[str, tuple[Shipping, ...]]:
    """The recommendations by model, those that say the same on several platforms joined."""
    if not report.recommendations:
        return {"": (Shipping((), report.recommendation),)}
    models = dict.fromkeys(one.model for one in report.recommendations)
    return {
        model: _joined_platforms([one for one in report.recommendations if one.model == model])
        for model in models
    }


def _joined_platforms(own: Sequence[ModelRecommendation]) -> tuple[Shipping, ...]:
    found: dict[tuple[str | None, str | None], list[ModelRecommendation]] = {}
    for one in own:
        found.setdefault((one.build_id, None if one.build_id else one.reason.id), []).append(one)
    return tuple(Shipping(tuple(one.platform for one in same), same[0]) for same in found.values())


def joined(parts: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)


def why(choice: Recommendation) -> Reason:
    """The reason without the numbers, which stand beside it; that of no recommendation as it is."""
    return choice.reason if choice.build_id is None else Reason(choice.reason.id)


def gains(result: Result) -> str:
    """`74 % smaller, 2.3 times as fast, accuracy kept`: what is shown, and what is not known."""
    size = None if result.size is None else f"{size_words(result.size.ratio)} than the float build"
    return ", ".join(part for part in (size, speed_words(result), accuracy_words(result)) if part)


def size_words(ratio: float) -> str:
    """A size against the baseline's: `74 % smaller`."""
    if abs(1 - ratio) < ALIKE:
        return "no smaller"
    share = f"{abs(1 - ratio) * 100:.0f} %"
    return f"{share} {'smaller' if ratio < 1 else 'larger'}"


def speed_words(result: Result) -> str:
    """A speed against the baseline's: `2.3 times as fast`. It must have right outputs to count."""
    comparison = result.comparison
    if comparison is None or comparison.ratio is None:
        return "its speed not measured"
    if not reading.outputs_are_right(result):
        return "its speed not counted"
    match comparison.verdict:
        case "faster":
            return f"{units.significant(comparison.ratio, 2)} times as fast"
        case "slower":
            return f"slower, at {units.significant(comparison.ratio, 2)} times the speed"
        case "no_difference":
            return "as fast as far as can be measured"
        case "too_noisy":
            return "its speed too noisy to tell"


def accuracy_words(result: Result) -> str:
    """Whether accuracy was kept: what the accuracy gate says, never more."""
    if result.accuracy is None:
        return "its accuracy not measured"
    if "ACCURACY-AT-CHANCE" in result.findings:
        return "its accuracy no proof, since the source model is at chance"
    match gate_verdict(result, "accuracy"):
        case "pass":
            return "accuracy kept"
        case "fail":
            return "accuracy lost"
        case "inconclusive":
            return "accuracy not decided"
        case None:
            return "accuracy measured without a limit"


def gate_verdict(result: Result, gate: GateId) -> Verdict | None:
    """What a gate says of a result; None where the plan has no such gate."""
    return next((one.verdict for one in result.gates if one.id == gate), None)


def tested_on(report: Report, best: Result) -> str:
    """Where and on what the numbers of a recommendation come from."""
    parts = [device_text(best.device)]
    if best.accuracy is not None:
        parts.append(units.counted(best.accuracy.n, "sample"))
    elif best.parity:
        parts.append(units.counted(best.parity[0].n, "sample"))
    edge = sum(best.edge.values())
    if edge:
        parts.append(f"{best.edge.get('passed', 0):,} of {units.counted(edge, 'edge input')} ran")
    return "; ".join(parts)


def measured_where(best: Result, platforms: Sequence[Platform]) -> str | None:
    """What keeps the numbers of a recommendation from being those of a phone; None for a phone's own."""
    on_host = best.device.kind == "host" and tuple(platforms) != ("host",)
    return interpreted(best) or (
        "Measured on the host; a phone's processor is another one." if on_host else None
    )


def interpreted(result: Result) -> str | None:
    """That a reference interpreter computed it, and which runtime has not run; None where one has."""
    runtime = result.configuration.runtime
    row = RUNTIMES.get(runtime)
    if row is None or row.fidelity != "reference":
        return None
    names = [RUNTIME_NAMES.get(one.name, one.name) for one in RUNTIMES.values() if one.stand_in == runtime]
    return f"Computed by a reference interpreter ({runtime}); {joined(names)} itself has not run it."


def device_text(device: ReportedDevice) -> str:
    """A device for a reader who does not know it: `the host, AMD EPYC, 2 cores`."""
    name = "this computer" if device.kind == "host" else device.name
    if device.kind == "host" and device.name not in ("host", device.kind):
        name = f"{name}, {device.name}"
    facts: list[Fact] = [device.facts.get("cpu")]
    told = [str(fact) for fact in facts if fact]
    return ", ".join([name, *told])


def not_tested(report: Report) -> tuple[str, ...]:
    """What was not measured at all, as against for one build; at most MOST_MISSING of it."""
    ids = {build.build_id for build in report.builds}
    general = [one.what for one in report.not_measured if not any(build_id in one.what for build_id in ids)]
    return tuple(dict.fromkeys(general))[:MOST_MISSING]
