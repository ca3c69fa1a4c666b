"""One piece of work in a worker process: a request file in, a result out, whatever the process does."""

import atexit
import errno
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Event
from typing import Any, Final

from phoneproof import errors
from phoneproof.protocol.work import ERROR_FILE, PARENT_VARIABLE, PROGRESS_FILE, RESULT_FILE, write_atomically
from phoneproof.workers.watched import Ending, WatchedProcess, log_tail

LOG_FILE: Final = "log.txt"
REQUEST_FILE: Final = "request.json"
_POLL_S: Final = 0.05
_PACKAGE: Final = Path(errors.__file__).parent

OnProgress = Callable[[str, int | None, int | None], None]


@dataclass(frozen=True)
class WorkerLimits:
    """When a worker is ended: after timeout_s, or above memory_bytes of resident memory."""

    timeout_s: float = 1_800.0
    memory_bytes: int | None = None


@dataclass(frozen=True)
class WorkerCall:
    """What to run: a module with a request, in a work folder, on an interpreter with an import path."""

    module: str
    request: Mapping[str, Any]
    folder: Path
    interpreter: Path = Path(sys.executable)
    python_path: tuple[Path, ...] = ()
    limits: WorkerLimits = WorkerLimits()


def call_worker(
    call: WorkerCall, on_progress: OnProgress = lambda *_: None, stop: Event | None = None
) -> dict[str, Any]:
    """Run the worker to its end and give its result.

    Raises the error that the worker wrote, by its class in phoneproof.errors; WorkerError when it crashed,
    hung, ran out of memory or answered nonsense; Interrupted when `stop` was set.
    """
    command = [str(call.interpreter), "-m", call.module, str((call.folder / REQUEST_FILE).resolve())]
    process = _start(call, command)
    try:
        _watch(process, call, on_progress, stop)
    finally:
        process.kill("interrupted")
        ending = process.ending()
    return _answer(call, command, ending)


def _start(call: WorkerCall, command: list[str]) -> WatchedProcess:
    try:
        call.folder.mkdir(parents=True, exist_ok=True)
        for stale in (RESULT_FILE, ERROR_FILE, PROGRESS_FILE, LOG_FILE):
            (call.folder / stale).unlink(missing_ok=True)
        write_atomically(call.folder / REQUEST_FILE, json.dumps(call.request))
        environment = worker_environment(call.python_path)
        return WatchedProcess(command, environment, call.folder / LOG_FILE, call.folder)
    except OSError as error:
        if error.filename == command[0]:
            raise errors.WorkerError(
                f"The worker's interpreter cannot be started: {error.strerror}.",
                where=command[0],
                next_step="Install the toolchain again.",
            ) from error
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise errors.StorageError(
            f"The worker's folder cannot be written: {error.strerror or error}.",
            where=str(call.folder),
            next_step="Free some space on that disk and run the same command again."
            if is_full
            else "Look at the permissions of this folder.",
        ) from error


def worker_environment(python_path: tuple[Path, ...]) -> dict[str, str]:
    """This process's environment with phoneproof on the import path, and nothing else of its folder.

    phoneproof may lie in site-packages, whose other packages are not for an interpreter of another
    environment: so a folder that holds only a link to it is what goes on the path. What the user has in
    PYTHONPATH stays, behind it: entry points may need it.
    """
    users_own = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    places = [*(str(path) for path in python_path), str(_lone_package()), *users_own]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(places),
        "PYTHONFAULTHANDLER": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        PARENT_VARIABLE: str(os.getpid()),
    }


@cache
def _lone_package() -> Path:
    if "site-packages" not in _PACKAGE.parts:
        return _PACKAGE.parent
    folder = Path(tempfile.mkdtemp(prefix="phoneproof-path-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / _PACKAGE.name).symlink_to(_PACKAGE, target_is_directory=True)
    return folder


def _watch(process: WatchedProcess, call: WorkerCall, on_progress: OnProgress, stop: Event | None) -> None:
    deadline = time.monotonic() + call.limits.timeout_s
    progress = _ProgressReader(call.folder / PROGRESS_FILE)
    while process.running:
        time.sleep(_POLL_S)
        for step, done, total in progress.read():
            on_progress(step, done, total)
        process.trim_log()
        if stop is not None and stop.is_set():
            process.kill("interrupted")
            raise errors.Interrupted("The run was stopped.")
        if call.limits.memory_bytes is not None and process.memory_bytes() > call.limits.memory_bytes:
            process.kill("low_memory")
        if time.monotonic() > deadline:
            process.kill("timed_out")


class _ProgressReader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def read(self) -> list[tuple[str, int | None, int | None]]:
        """New whole lines; a line that is no progress is left to the log."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                whole, newline, _ = file.read().rpartition(b"\n")
        except OSError:
            return []
        self._read += len(whole) + len(newline)
        found = []
        for line in whole.splitlines():
            try:
                content = json.loads(line)
                found.append((str(content["step"]), content["done"], content["total"]))
            except (ValueError, KeyError, TypeError):
                continue
        return found


def _answer(call: WorkerCall, command: list[str], ending: Ending) -> dict[str, Any]:
    result = _read_json(call.folder / RESULT_FILE)
    if ending.cause == "exited" and ending.code == 0 and isinstance(result, dict):
        return result
    facts: dict[str, errors.Fact] = {
        "worker": call.module,
        "command": " ".join(command),
        "ended": ending.cause,
        "code": ending.code,
        "log": str(call.folder / LOG_FILE),
        "log_tail": log_tail(call.folder / LOG_FILE),
    }
    record = _read_json(call.folder / ERROR_FILE)
    if ending.cause == "exited" and isinstance(record, dict):
        raise _written_error(record, facts)
    raise errors.WorkerError(_what_happened(ending), where=call.module, next_step=_advice(ending), **facts)


def _written_error(record: Mapping[str, Any], facts: Mapping[str, errors.Fact]) -> errors.PhoneproofError:
    """The error as the worker wrote it. What it wrote is not trusted to have the right shape."""
    written = record.get("facts")
    own = {
        str(name): _fact(value)
        for name, value in (written.items() if isinstance(written, dict) else ())
        if name not in ("what", "where", "next_step")
    }
    return errors.error_class(str(record.get("class")))(
        str(record.get("what")),
        where=_text(record.get("where")),
        next_step=_text(record.get("next_step")),
        **{**facts, **own},
    )


def _fact(value: object) -> errors.Fact:
    if isinstance(value, list):
        return tuple(map(str, value))
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _what_happened(ending: Ending) -> str:
    if ending.cause == "signal":
        return f"The worker crashed with signal {ending.code}."
    if ending.cause == "timed_out":
        return "The worker did not finish in its time."
    if ending.cause == "low_memory":
        return f"The worker needed more memory than it may have ({ending.peak_bytes // 2**20} MiB)."
    return f"The worker exited with code {ending.code} and no answer."


def _advice(ending: Ending) -> str:
    if ending.cause == "timed_out":
        return "Raise `limits.build_timeout_s` in the plan, or look into the log."
    if ending.cause == "low_memory":
        return "Raise `limits.memory_gb` in the plan, or use a smaller calibration set."
    return "Look into the log."


def _read_json(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
