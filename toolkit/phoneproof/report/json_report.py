"""report.json: the report as data, written whole or not at all, read strictly."""

import json
import math
from pathlib import Path
from typing import Final, NoReturn

from phoneproof.errors import ProtocolError, StorageError
from phoneproof.protocol.codec import from_dict, to_dict
from phoneproof.protocol.work import write_atomically
from phoneproof.report.model import REPORT_VERSION, Report

REPORT_FILE: Final = "report.json"


def report_text(report: Report) -> str:
    """The report as JSON. Raises ProtocolError naming the place of a float that is NaN or infinite.

    Only ASCII is written: a name with half a surrogate pair, which a device may send, has no UTF-8 form.
    """
    plain = to_dict(report)
    _refuse_not_finite(plain, "$")
    return json.dumps(plain, indent=1, allow_nan=False) + "\n"


def write_report(report: Report, folder: Path) -> Path:
    """Write report.json into `folder`, made if it is missing, and return its path.

    Raises ProtocolError as `report_text` does, StorageError if the file cannot be written.
    """
    path = folder / REPORT_FILE
    text = report_text(report)
    try:
        folder.mkdir(parents=True, exist_ok=True)
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
    try:
        plain = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"The report is not JSON: {error}.", where=where) from error
    version = plain.get("version") if isinstance(plain, dict) else None
    if isinstance(version, bool) or version != REPORT_VERSION:
        raise ProtocolError(
            f"The report has version {json.dumps(version)[:40]}, this phoneproof reads {REPORT_VERSION}.",
            where=where,
            next_step="Read it with the phoneproof that wrote it, or run the report again.",
        )
    return from_dict(Report, plain, where)


def _refuse_not_finite(value: object, place: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ProtocolError(f"A report holds no {value}; what was not measured is null.", where=place)
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_not_finite(item, f"{place}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_not_finite(item, f"{place}[{index}]")


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is beyond the range of a double")
    return value
