"""The end of an audit on a terminal: what the models are, what is predicted of them, what to try."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from phoneproof.cli.errors_text import printable
from phoneproof.protocol.codec import to_dict
from phoneproof.report import units
from phoneproof.report.audited import AuditedTensor, ModelAudit
from phoneproof.report.model import ReportedModel
from phoneproof.report.sentences import reason_sentence
from phoneproof.report.words import PLATFORMS
from phoneproof.runs.run import FinishedRun

_PLATFORMS: Final[Mapping[str, str]] = {str(platform): name for platform, name in PLATFORMS.items()}


def show_audit(finished: FinishedRun, console: Console) -> None:
    """Print what an audit came to; its findings were told when they were found."""
    for model in finished.models:
        if model.audit is None:
            continue
        size = units.bytes_text(model.size_bytes)
        parameters = units.count(model.audit.parameters)
        console.print(
            f"[bold]{escape(printable(model.name))}[/bold]  {model.format}, {size}, {parameters} parameters"
        )
        for line in _facts(model.audit):
            console.print(escape(printable(line)), soft_wrap=True)
        console.print()
        console.print(_support(model.audit))
        for line in _doubts(model.audit):
            console.print(escape(printable(line)), soft_wrap=True)
        console.print()
        for line in _advice(model):
            console.print(escape(printable(line)), soft_wrap=True)
        console.print()
    counted = _counted(finished)
    if counted:
        console.print(f"findings: {counted}")


def audit_json(finished: FinishedRun) -> dict[str, Any]:
    """The same as data."""
    return {
        "run": str(finished.folder),
        "exit_code": int(finished.exit_code),
        "models": [to_dict(model) for model in finished.models],
        "findings": [to_dict(finding) for finding in finished.findings],
    }


def _facts(audit: ModelAudit) -> Iterator[str]:
    yield f"takes      {', '.join(map(_tensor, audit.inputs))}"
    yield f"gives      {', '.join(map(_tensor, audit.outputs))}"
    most = sorted(audit.operators.items(), key=lambda item: (-item[1], item[0]))
    yield f"operators  {', '.join(f'{name} {count}' for name, count in most)}"


def _tensor(tensor: AuditedTensor) -> str:
    lengths = " x ".join("open" if length is None else str(length) for length in tensor.shape)
    return f"{tensor.name} ({tensor.dtype}{', ' if lengths else ''}{lengths})"


def _support(audit: ModelAudit) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    for column in ("predicted, not run", "runs", "lacks", "refuses", "not known"):
        table.add_column(column, justify="left" if column.startswith("pred") else "right")
    for one in audit.support:
        counts = {
            doubt: sum(d.count for d in one.doubtful if d.doubt == doubt) for doubt in ("absent", "refused")
        }
        table.add_row(
            one.accelerator,
            units.count(one.supported),
            units.count(counts["absent"]),
            units.count(counts["refused"]),
            units.count(sum(one.unlisted.values())),
        )
    return table


def _doubts(audit: ModelAudit) -> Iterator[str]:
    for one in audit.support:
        for doubtful in one.doubtful:
            word = "lacks" if doubtful.doubt == "absent" else "refuses"
            yield f"{one.accelerator} {word} {doubtful.operator} ({doubtful.count}): {doubtful.note}"


def _advice(model: ReportedModel) -> Iterator[str]:
    audit = model.audit
    if audit is None or not audit.advice:
        yield f"No recipe takes a source of the form {model.format} to a phone."
        return
    for one in audit.advice:
        method = f" (method {one.method})" if one.method else ""
        yield f"try on {_PLATFORMS[one.platform]}: {one.recipe}{method}. {reason_sentence(one.reason)}"


def _counted(finished: FinishedRun) -> str:
    counts: dict[str, int] = {}
    for finding in finished.findings:
        word = f"{finding.severity.value}{' (waived)' if finding.waived else ''}"
        counts[word] = counts.get(word, 0) + 1
    return ", ".join(f"{count} {word}" for word, count in counts.items())
