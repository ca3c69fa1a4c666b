"""report.json: the report as data, written whole or not at all, read strictly."""

import json
import math
from pathlib import Path
from typing import Any, Final

from phoneproof.errors import ProtocolError, StorageError
from phoneproof.protocol.codec import from_dict, parse_json, to_dict, without_lone_surrogates
from phoneproof.protocol.work import write_atomically
from phoneproof.report.model import REPORT_VERSION, Report

REPORT_FILE: Final = "report.json"


def report_text(report: Report) -> str:
    """The report as JSON. Raises ProtocolError naming the place of a float that is NaN or infinite.

    Half a surrogate pair, which an argument or a log may hold, becomes U+FFFD: it has no UTF-8 form.
    """
    return json.dumps(_writable(to_dict(report), "$"), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def write_report(report: Report, folder: Path) -> Path:
    """Write report.json into `folder`, made if it is missing, and return its path.

    Raises ProtocolError as `report_text` does, StorageError if the file cannot be written.
    """
    return write_file(folder / REPORT_FILE, report_text(report))


def write_file(path: Path, text: str) -> Path:
    """Write one file of a report whole, its folder made if it is missing. StorageError if it cannot be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
    except OSError as error:
        raise StorageError(
            f"The report cannot be written: {error.strerror or error}.",
            where=str(path),
            next_step="Free some space or choose another folder with --out, then run the same command again.",
        ) from error
    return path


def read_report(path: Path) -> Report:
    """Read report.json.

    Raises StorageError if it cannot be read, ProtocolError if it is not JSON, has another version, or does
    not follow the schema.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(
            f"The report cannot be read: {getattr(error, 'strerror', None) or error}.",
            where=str(path),
            next_step="Name a run folder that holds report/report.json.",
        ) from error
    return parse_report(text, str(path))


def parse_report(text: str, where: str = REPORT_FILE) -> Report:
    """The report in `text`; `where` is named in errors. Raises ProtocolError as `read_report` does."""
    plain = parse_json(text, where)
    version = plain.get("version") if isinstance(plain, dict) else None
    if isinstance(version, bool) or version != REPORT_VERSION:
        raise ProtocolError(
            f"The report has version {json.dumps(version)[:40]}, this phoneproof reads {REPORT_VERSION}.",
            where=where,
            next_step="Read it with the phoneproof that wrote it, or run the report again.",
        )
    return from_dict(Report, plain, where)


def _writable(value: Any, place: str) -> Any:
    """JSON types that can be written: floats checked, text without halves of surrogate pairs."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ProtocolError(f"A report holds no {value}; what was not measured is null.", where=place)
    if isinstance(value, str):
        return without_lone_surrogates(value)
    if isinstance(value, dict):
        return {
            without_lone_surrogates(key): _writable(item, f"{place}.{key}") for key, item in value.items()
        }
    if isinstance(value, list):
        return [_writable(item, f"{place}[{index}]") for index, item in enumerate(value)]
    return value
