"""Processes that the runner starts for one piece of its work (see protocol/work.py)."""

import os
import subprocess
import sys
from collections.abc import Mapping
from json import dumps
from pathlib import Path
from typing import Any

from phoneproof.harness.own_files import leave_for_storage
from phoneproof.protocol.work import ERROR_FILE, PARENT_VARIABLE, RESULT_FILE


def run_child(module: str, request: Mapping[str, Any], work: Path, timeout_s: float | None = None) -> int:
    """Run `python -m MODULE REQUEST.json` in the work folder; its exit code, negative for a signal.

    Answers of an earlier child are removed first. subprocess.TimeoutExpired when it did not end in its time.
    """
    path = work / "request.json"
    try:
        work.mkdir(parents=True, exist_ok=True)
        for stale in (RESULT_FILE, ERROR_FILE):
            (work / stale).unlink(missing_ok=True)
        path.write_text(dumps(request), encoding="utf-8")
    except OSError as error:
        leave_for_storage(error)
    command = [sys.executable, "-m", module, str(path)]
    environment = {**os.environ, PARENT_VARIABLE: str(os.getpid())}
    return subprocess.run(command, env=environment, check=False, timeout=timeout_s).returncode
