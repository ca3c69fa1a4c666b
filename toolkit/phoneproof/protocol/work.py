"""The worker's side of a worker process.

A worker is started as `python -m MODULE REQUEST.json`. The folder of the request is its work folder: there it
writes `progress.jsonl` (one object a line: step, done, total), its files, and at the end either `result.json`
or `error.json`. Standard output and error belong to the vendor's code and are a log, never an answer.
"""

import errno
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from phoneproof.errors import PhoneproofError, StorageError
from phoneproof.protocol.lifeline import die_with_parent

PROGRESS_FILE: Final = "progress.jsonl"
RESULT_FILE: Final = "result.json"
_DISK_REFUSES: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
ERROR_FILE: Final = "error.json"
PARENT_VARIABLE: Final = "PHONEPROOF_PARENT"
"""Environment variable with the process id of whoever started the worker."""


@dataclass(frozen=True)
class Progress:
    """Where a worker says how far it is."""

    folder: Path

    def say(self, step: str, done: int | None = None, total: int | None = None) -> None:
        """Name the step under way; `done` of `total` only where the work is countable."""
        line = json.dumps({"step": step, "done": done, "total": total})
        with (self.folder / PROGRESS_FILE).open("a", encoding="utf-8") as file:
            file.write(line + "\n")


Work = Callable[[Mapping[str, Any], Path, Progress], Mapping[str, Any]]
"""Called with the request, the work folder and the progress; returns the result, a JSON object."""


def write_atomically(path: Path, text: str) -> None:
    """Write under a temporary name in the same folder, sync and rename: no reader sees half a file."""
    write_bytes_atomically(path, text.encode("utf-8"))


def write_bytes_atomically(path: Path, content: bytes) -> None:
    """As write_atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def run_worker(work: Work, arguments: list[str] | None = None) -> int:
    """Run `work` on the request named on the command line; the exit code of the process.

    A PhoneproofError and any other exception become error.json; only the latter is a fault of the worker,
    unless the disk was full or read-only, which becomes a StorageError.
    """
    if PARENT_VARIABLE in os.environ:
        die_with_parent(int(os.environ[PARENT_VARIABLE]))
    request_file = Path((sys.argv[1:] if arguments is None else arguments)[0])
    folder = request_file.parent
    try:
        result = work(json.loads(request_file.read_text(encoding="utf-8")), folder, Progress(folder))
        write_atomically(folder / RESULT_FILE, json.dumps(result, allow_nan=False))
    except PhoneproofError as error:
        traceback.print_exc()
        write_atomically(folder / ERROR_FILE, json.dumps(_error_record(error), default=str))
        return 1
    except Exception as error:  # noqa: BLE001 - the vendor's code may raise anything; it is reported as its failure
        traceback.print_exc()
        write_atomically(folder / ERROR_FILE, json.dumps(_unforeseen_record(error)))
        return 1
    return 0


def _unforeseen_record(error: Exception) -> dict[str, object]:
    """A disk that refuses a vendor's file is no fault of the vendor's code; the rest is."""
    if isinstance(error, OSError) and error.errno in _DISK_REFUSES:
        where = None if error.filename is None else str(error.filename)
        step = "Make room, or choose a place that can be written to, and run the same command again."
        return _error_record(StorageError(f"{os.strerror(error.errno)}.", where=where, next_step=step))
    what = f"{type(error).__name__}: {error}"
    return {"class": None, "what": what, "where": None, "next_step": None, "facts": {}}


def _error_record(error: PhoneproofError) -> dict[str, object]:
    return {
        "class": type(error).__name__,
        "what": error.what,
        "where": error.where,
        "next_step": error.next_step,
        "facts": dict(error.facts),
    }
