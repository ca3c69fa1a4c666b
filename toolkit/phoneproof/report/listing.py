"""How long lists of a report are arranged for a reader: what comes first, and how much of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from phoneproof.findings import Finding, Severity
from phoneproof.report.model import CaseResult, Diagnosis, Report, Result
from phoneproof.report.reading import bad_cases
from phoneproof.report.settling import undecided
from phoneproof.verify.diagnosis import Leg, LegName

MOST_NAMED: Final = 8
"""Builds that are named by one instruction; beyond them they are counted."""

Numbered = tuple[tuple[int, Finding], ...]
"""Findings with their places in the report, which are the numbers in square brackets."""


@dataclass(frozen=True)
class BadCases:
    """The cases that did not pass. count: of all. listed: as many of each result as there is room for."""

    count: int
    listed: tuple[tuple[Result, CaseResult], ...]


def listed_bad_cases(report: Report, most: int) -> BadCases:
    """At most `most` bad cases, shared out so that no result with many hides those of the others."""
    bad = [(result, bad_cases(result)) for result in report.results]
    left, room = sorted(len(cases) for _, cases in bad if cases), most
    share = 0
    while left and left[0] <= room // len(left):
        share = left.pop(0)
        room -= share
    share = max(share, room // len(left)) if left else share
    listed = [(result, case) for result, cases in bad for case in cases[:share]]
    return BadCases(sum(len(cases) for _, cases in bad), tuple(listed[:most]))


def numbered_findings(report: Report) -> tuple[Numbered, Numbered]:
    """The findings with their places in the report: those that count, the worst first; and the notes."""
    numbered = list(enumerate(report.findings, 1))
    loud = [one for one in numbered if one[1].severity is not Severity.INFO or one[1].waived]
    loud.sort(key=lambda one: one[1].severity is not Severity.SEVERE)
    return tuple(loud), tuple(one for one in numbered if one not in loud)


def settled_by(report: Report) -> Mapping[str, tuple[Result, ...]]:
    """What would settle the results that are undecided: each instruction with the results that it is for."""
    found: dict[str, list[Result]] = {}
    for result, instructions in undecided(report):
        for instruction in instructions:
            found.setdefault(instruction, []).append(result)
    return {instruction: tuple(results) for instruction, results in found.items()}


def chain_legs(report: Report) -> tuple[tuple[LegName, ...], tuple[LegName, ...]]:
    """The legs that were measured for some build, and those that were for none, each in the chain's order."""
    every = dict.fromkeys(leg.name for d in report.diagnosis for leg in d.legs)
    measured = {leg.name for d in report.diagnosis for leg in d.legs if leg.state != "missing"}
    return tuple(n for n in every if n in measured), tuple(n for n in every if n not in measured)


def leg_named(diagnosis: Diagnosis, name: LegName) -> Leg | None:
    """One leg of a chain; None where the chain does not have it."""
    return next((leg for leg in diagnosis.legs if leg.name == name), None)
