"""What a report may tell of the data and of this machine: it is handed on, a terminal is not."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from phoneproof.errors import Fact
from phoneproof.findings import SAMPLE_FACTS
from phoneproof.report import model as report
from phoneproof.verify.verdicts import GateResult, Reason

_BEFORE: Final = r"(?<![\w.~-])"
_AFTER: Final = r"(?![\w.-]*[\w-])"
"""Around a folder's path in a text: what would make it a part of another path's name."""

_NAMES: Final = frozenset({"output", "operators"})
"""Facts that hold names out of a network. Those often begin with a slash, and are no paths."""


@dataclass(frozen=True)
class Disclosure:
    """How texts stand in a report.

    places: absolute folder and what is written for it. sample_names: whether names of samples may stand.
    """

    places: tuple[tuple[str, str], ...]
    sample_names: bool

    def text(self, text: str) -> str:
        """The text with the folders that are known by their short names: `RUN/work/x/log.txt`."""
        for folder, name in self.places:
            text = re.sub(f"{_BEFORE}{re.escape(folder)}{_AFTER}", name, text)
        return text

    def facts(self, facts: Mapping[str, Fact]) -> dict[str, Fact]:
        """The same of facts, without those that name samples where names may not stand."""
        return {
            name: value if name in _NAMES else self._fact(value)
            for name, value in facts.items()
            if self.sample_names or name not in SAMPLE_FACTS
        }

    def _fact(self, value: Fact) -> Fact:
        if isinstance(value, tuple):
            return tuple(map(self.text, value))
        return self.text(value) if isinstance(value, str) else value


def disclosure(run: Path, store: Path, plan: Path, sample_names: bool) -> Disclosure:
    """The short names of a run's folders: RUN, STORE, PLAN (the plan's own folder) and ~ for the home folder.

    The deepest folder is replaced first: a run mostly lies in the plan's folder, and that below home.
    """
    named = ((run, "RUN"), (store, "STORE"), (plan, "PLAN"), (_home(), "~"))
    found: dict[str, str] = {}
    for folder, name in named:
        for form in () if folder is None else (folder.absolute(), folder.resolve()):
            if form != Path(form.anchor):
                found.setdefault(str(form), name)
    places = sorted(found.items(), key=lambda place: len(place[0]), reverse=True)
    return Disclosure(tuple(places), sample_names)


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None


def disclosed(whole: report.Report, by: Disclosure) -> report.Report:
    """The report as it may be handed on. The command stays as it was typed: it is what repeats the run."""
    return replace(
        whole,
        models=tuple(replace(model, source=by.text(model.source)) for model in whole.models),
        findings=tuple(replace(finding, facts=by.facts(finding.facts)) for finding in whole.findings),
        builds=tuple(replace(build, error=_error(build.error, by)) for build in whole.builds),
        results=tuple(_result(result, by) for result in whole.results),
        not_measured=tuple(
            report.NotMeasured(missing.what, _reason(missing.reason, by)) for missing in whole.not_measured
        ),
    )


def _error(error: report.BuildError | None, by: Disclosure) -> report.BuildError | None:
    if error is None:
        return None
    return report.BuildError(
        by.text(error.what),
        None if error.where is None else by.text(error.where),
        None if error.next_step is None else by.text(error.next_step),
        by.facts(error.facts),
        by.text(error.log_tail),
    )


def _result(result: report.Result, by: Disclosure) -> report.Result:
    return replace(
        result,
        cases=tuple(
            case if case.error is None else replace(case, error=by.text(case.error)) for case in result.cases
        ),
        edge_results=tuple(replace(one, reason=_reason(one.reason, by)) for one in result.edge_results),
        gates=tuple(GateResult(gate.id, gate.verdict, _reason(gate.reason, by)) for gate in result.gates),
        reason=_reason(result.reason, by),
    )


def _reason(reason: Reason, by: Disclosure) -> Reason:
    return replace(reason, facts=by.facts(reason.facts))
