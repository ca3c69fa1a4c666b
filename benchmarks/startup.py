"""How long `phoneproof --help` takes, against an interpreter that does nothing.

Both are started in turn. Last line: JSON {"help_ratio", "help_s", "bare_s"}: medians in seconds and the ratio
of the medians. Aim: help_s below 0.2.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]


def seconds(command: list[str], environment: dict[str, str]) -> float:
    """Wall time of a command; ends this script if it fails."""
    begin = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - begin
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2_000:]}")
    return taken


def help_command() -> tuple[list[str], dict[str, str]]:
    """The installed command beside this interpreter, or the checkout's module."""
    installed = Path(sys.executable).with_name("phoneproof")
    environment = dict(os.environ)
    if installed.exists():
        return [str(installed), "--help"], environment
    main = ROOT / "toolkit" / "phoneproof" / "cli" / "main.py"
    if not main.exists():
        sys.exit("phoneproof is not installed beside this interpreter, and the checkout has no cli/main.py.")
    environment["PYTHONPATH"] = str(ROOT / "toolkit")
    call = "from phoneproof.cli.main import main; main()"
    return [sys.executable, "-c", call, "--help"], environment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=15)
    arguments = parser.parse_args()
    command, environment = help_command()
    bare = [sys.executable, "-c", "pass"]
    seconds(command, environment)  # once, so that byte code is compiled and files are in memory
    pairs = [(seconds(command, environment), seconds(bare, environment)) for _ in range(arguments.pairs)]
    help_s, bare_s = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(f"{' '.join(command)}: {help_s * 1e3:.0f} ms; an empty interpreter: {bare_s * 1e3:.0f} ms")
    print(
        json.dumps(
            {"help_ratio": round(help_s / bare_s, 3), "help_s": round(help_s, 4), "bare_s": round(bare_s, 4)}
        )
    )


if __name__ == "__main__":
    main()
