"""The host harness: `python -m phoneproof.harness FOLDER` runs what is left of the job in FOLDER.

`python -m phoneproof.harness --describe FILE` writes what this machine is and which runtimes it has.
Exit codes: protocol/exit_codes.py.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from phoneproof.errors import PhoneproofError
from phoneproof.harness.machine import cpu_flags, environment, int8_saturates, no_core_files
from phoneproof.harness.own_files import leave_for_storage
from phoneproof.harness.runner import run_job
from phoneproof.protocol.exit_codes import EXIT_OK, EXIT_UNREADABLE
from phoneproof.protocol.lifeline import die_with_parent
from phoneproof.protocol.work import write_atomically
from phoneproof.runtimes.registry import RUNTIME_MODULES, open_runtime

_PROBE_S: Final = 60.0


def main() -> int:
    """The exit code, when nothing ended the process before."""
    parser = argparse.ArgumentParser(prog="phoneproof.harness", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--describe", type=Path, metavar="FILE")
    parser.add_argument("--probe", metavar="RUNTIME", help="print its version, if it can be imported")
    parser.add_argument("--runtime", action="append", default=[], metavar="NAME=MODULE:FUNCTION")
    parser.add_argument("--needed", action="append", metavar="RUNTIME", help="describe these runtimes alone")
    parser.add_argument("--parent", type=int, metavar="PID", help="end when this process is gone")
    arguments = parser.parse_args()
    modules = {**RUNTIME_MODULES, **dict(one.split("=", 1) for one in arguments.runtime)}
    if arguments.parent is not None:
        die_with_parent(arguments.parent)
    no_core_files()
    try:
        if arguments.probe is not None:
            sys.stdout.write(json.dumps(open_runtime(arguments.probe, modules).version) + "\n")
        if arguments.describe is not None:
            looked_for = arguments.needed or list(modules)
            _write_description(arguments.describe, looked_for, arguments.runtime)
        if arguments.folder is not None:
            run_job(arguments.folder, modules)
    except PhoneproofError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_UNREADABLE
    return EXIT_OK


def _write_description(target: Path, names: Iterable[str], extra: list[str]) -> None:
    facts = environment()
    saturates = int8_saturates(str(facts["machine"]), cpu_flags())
    runtimes = {name: _probed_version(name, extra) for name in names}
    content = {"environment": {**facts, "int8_saturates": saturates}, "runtimes": runtimes}
    try:
        write_atomically(target, json.dumps(content))
    except OSError as error:
        leave_for_storage(error)


def _probed_version(name: str, extra: list[str]) -> str | None:
    """Version of a runtime that could be imported in a process of its own; None if it could not."""
    command = [sys.executable, "-m", "phoneproof.harness", f"--parent={os.getpid()}", f"--probe={name}"]
    command += [f"--runtime={one}" for one in extra]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False, timeout=_PROBE_S)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode != EXIT_OK:
        return None
    try:
        version = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        return None
    return version if isinstance(version, str) else None


def _leave(code: int) -> None:
    """End the process at once: no runtime's thread keeps it, and none of its exit handlers crashes it."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _leave(main())
