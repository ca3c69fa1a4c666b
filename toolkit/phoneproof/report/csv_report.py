"""report.csv: results, edge inputs and outcomes as one table, for spreadsheets.

Each row says in `record` what it is of: `result`, `build` (one that has no result), `edge` (one edge input)
or `case` (one outcome). Columns that do not apply are empty. Numbers are plain, in the unit that the column
names.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from phoneproof.report import reading
from phoneproof.report.foreign import visible
from phoneproof.report.json_report import write_file
from phoneproof.report.model import Report, Result
from phoneproof.report.sentences import reason_sentence

CSV_FILE: Final = "report.csv"

COLUMNS: Final = (
    "record", "build_id", "recipe", "runtime", "accelerator_requested", "accelerator_actual",
    "allow_fallback", "threads", "device_id", "device", "device_kind", "baseline", "verdict", "reason",
    "findings", "size_bytes", "size_ratio", "latency_median_ms", "latency_p90_ms", "latency_p95_ms",
    "latency_p99_ms", "latency_valid", "peak_memory_bytes", "speed", "speed_ratio", "speed_low", "speed_high",
    "speed_counts", "metric", "accuracy", "reference_accuracy", "accuracy_drop", "drop_low", "drop_high",
    "accuracy_samples", "parity_output", "parity_db", "parity_exact", "worst_slice_db", "edge_input",
    "case_id", "case_kind", "outcome", "sample", "cause", "confidence", "error",
)  # fmt: skip

_FORMULA_STARTS: Final = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""With one of these a spreadsheet may take a text for a formula (OWASP, CSV injection); the last four are
their full-width forms.
"""

Cell = str | int | float | bool | None


def csv_text(report: Report) -> str:
    """The table, in the dialect of RFC 4180, its lines ended by CR LF."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\r\n")
    writer.writeheader()
    for row in _rows(report):
        writer.writerow({column: cell_text(value) for column, value in row.items()})
    return text.getvalue()


def write_csv(report: Report, folder: Path) -> Path:
    """Write report.csv into `folder` and return its path. StorageError if it cannot be written."""
    return write_file(folder / CSV_FILE, csv_text(report))


def cell_text(value: Cell) -> str:
    """A value as a cell: a text that a spreadsheet would take for a formula gets an apostrophe before it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return repr(value)
    shown = visible(value)
    return f"'{shown}" if shown.startswith(_FORMULA_STARTS) else shown


def _rows(report: Report) -> Iterator[Mapping[str, Cell]]:
    for result in report.results:
        own = _configuration(result)
        yield own | {"record": "result"} | _numbers(report, result)
        for edge in result.edge_results:
            yield own | {
                "record": "edge",
                "verdict": edge.verdict,
                "reason": reason_sentence(edge.reason),
                "edge_input": edge.name,
                "case_id": edge.case_id,
                "sample": str(edge.sample),
                "outcome": edge.outcome,
            }
        for case in result.cases:
            facts = asdict(case)
            yield own | {"record": "case", "case_kind": facts.pop("kind")} | facts
    for build in reading.builds_without_result(report):
        yield {
            "record": "build",
            "build_id": build.build_id,
            "recipe": build.recipe,
            "size_bytes": build.size_bytes,
            "verdict": "fail" if build.status == "failed" else None,
            "reason": build.error.what if build.error else None,
        }


def _configuration(result: Result) -> dict[str, Cell]:
    configuration = result.configuration
    return {
        "build_id": configuration.build_id,
        "recipe": result.recipe,
        "runtime": configuration.runtime,
        "accelerator_requested": configuration.accelerator_requested,
        "accelerator_actual": result.accelerator_actual,
        "allow_fallback": configuration.allow_fallback,
        "threads": configuration.threads,
        "device_id": result.device.id,
        "device": result.device.name,
        "device_kind": result.device.kind,
        "baseline": result.baseline,
    }


def _numbers(report: Report, result: Result) -> dict[str, Cell]:
    return {
        "verdict": result.verdict,
        "reason": reason_sentence(result.reason),
        "findings": " ".join(result.findings),
        "size_bytes": reading.build_sizes(report).get(result.configuration.build_id),
        "size_ratio": result.size.ratio if result.size else None,
        **_latency(result),
        **_speed(result),
        **_accuracy(result),
        **_parity(result),
    }


def _latency(result: Result) -> dict[str, Cell]:
    latency = result.latency
    if latency is None:
        return {}
    return {
        "latency_median_ms": latency.median_ms,
        "latency_p90_ms": latency.p90_ms,
        "latency_p95_ms": latency.p95_ms,
        "latency_p99_ms": latency.p99_ms,
        "latency_valid": latency.validity == "VALID",
        "peak_memory_bytes": latency.peak_memory_bytes,
    }


def _speed(result: Result) -> dict[str, Cell]:
    comparison = result.comparison
    if comparison is None:
        return {}
    low, high = comparison.ci95 or (None, None)
    return {
        "speed": comparison.verdict,
        "speed_ratio": comparison.ratio,
        "speed_low": low,
        "speed_high": high,
        "speed_counts": reading.outputs_are_right(result),
    }


def _accuracy(result: Result) -> dict[str, Cell]:
    accuracy = result.accuracy
    if accuracy is None:
        return {}
    low, high = accuracy.ci95 or (None, None)
    return {
        "metric": accuracy.metric,
        "accuracy": accuracy.value,
        "reference_accuracy": accuracy.reference_value,
        "accuracy_drop": accuracy.drop,
        "drop_low": low,
        "drop_high": high,
        "accuracy_samples": accuracy.n,
    }


def _parity(result: Result) -> dict[str, Cell]:
    worst = reading.deciding_parity(result)
    if worst is None:
        return {}
    return {
        "parity_output": worst.output,
        "parity_db": worst.sqnr_db,
        "parity_exact": worst.exact,
        "worst_slice_db": worst.worst_slice_db,
    }
