"""The host harness: `python -m phoneproof.harness FOLDER` runs what is left of the job in FOLDER.

`python -m phoneproof.harness --describe FILE` writes what this machine is and which runtimes it has.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from phoneproof.errors import PhoneproofError, RuntimeUnavailableError
from phoneproof.harness.machine import cpu_flags, environment, int8_saturates
from phoneproof.harness.runner import run_job
from phoneproof.protocol.lifeline import die_with_parent
from phoneproof.protocol.work import write_atomically
from phoneproof.runtimes.registry import RUNTIME_MODULES, open_runtime


def main() -> int:
    """Exit code 0 when no case is left, 1 when the job cannot be read."""
    parser = argparse.ArgumentParser(prog="phoneproof.harness", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--describe", type=Path, metavar="FILE")
    parser.add_argument("--runtime", action="append", default=[], metavar="NAME=MODULE:FUNCTION")
    parser.add_argument("--parent", type=int, metavar="PID", help="end when this process is gone")
    arguments = parser.parse_args()
    modules = {**RUNTIME_MODULES, **dict(one.split("=", 1) for one in arguments.runtime)}
    if arguments.parent is not None:
        die_with_parent(arguments.parent)
    try:
        if arguments.describe is not None:
            write_atomically(arguments.describe, json.dumps(describe(modules)))
        if arguments.folder is not None:
            run_job(arguments.folder, modules)
    except PhoneproofError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def describe(modules: Mapping[str, str]) -> dict[str, object]:
    """Facts of this machine and the version of each runtime, None where it cannot be imported."""
    runtimes: dict[str, str | None] = {}
    for name in modules:
        try:
            runtimes[name] = open_runtime(name, modules).version
        except RuntimeUnavailableError:
            runtimes[name] = None
    facts = environment()
    saturates = int8_saturates(str(facts["machine"]), cpu_flags())
    return {"environment": {**facts, "int8_saturates": saturates}, "runtimes": runtimes}


if __name__ == "__main__":
    sys.exit(main())
