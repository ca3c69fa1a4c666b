"""Which interpreter a toolchain's worker runs on: this one, or a managed environment of its own."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path
from typing import Final

from filelock import FileLock

import phoneproof
from phoneproof.builds.store import ENVIRONMENTS, storage_errors
from phoneproof.errors import ToolchainError
from phoneproof.findings import Finding
from phoneproof.protocol.work import write_atomically
from phoneproof.recipes.toolchain_table import Toolchain, installed_versions, read_pins, version_findings

MARKER: Final = "installed.json"
WORKER_PACKAGES: Final = ("numpy", "pillow")
"""What worker-side code of phoneproof imports whatever the toolchain. A toolchain's pins go before these."""


@dataclass(frozen=True)
class WorkerEnvironment:
    """Where a toolchain's worker runs. managed: not this interpreter, but one that phoneproof installed.

    python_path: what must come before phoneproof's own place; empty for this interpreter.
    """

    interpreter: Path
    python_path: tuple[Path, ...]
    managed: bool
    versions: dict[str, str]
    findings: tuple[Finding, ...]


def environment_of(toolchain: Toolchain, store: Path) -> WorkerEnvironment:
    """This interpreter if it has what the toolchain needs, else its managed environment.

    ToolchainError, naming the command that installs it, if neither is there.
    """
    installed = installed_versions(toolchain)
    try:
        findings = version_findings(toolchain, installed)
    except ToolchainError:
        managed = managed_environment(toolchain, store)
        if managed is None:
            raise
        return managed
    versions = {package: version for package, version in installed.items() if version is not None}
    return WorkerEnvironment(Path(sys.executable), (), False, versions, findings)


def managed_environment(toolchain: Toolchain, store: Path) -> WorkerEnvironment | None:
    """The toolchain's managed environment, or None where it is not installed whole with today's pins."""
    folder = _folder(toolchain, store)
    if not _is_whole(folder):
        return None
    return WorkerEnvironment(_interpreter(folder), (), True, dict(toolchain.tested_versions), ())


def install_toolchain(toolchain: Toolchain, store: Path, say: Callable[[str], None]) -> Path:
    """Install the toolchain's pins into a managed environment; its folder. Nothing is done if it is there.

    With uv where it is found, else with venv and pip. ToolchainError with the last lines if that fails,
    StorageError where the disk refuses.
    """
    folder = _folder(toolchain, store)
    with storage_errors(store):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f"{folder.name}.lock"), is_singleton=False):
            if not _is_whole(folder):
                _install(toolchain, folder, say)
    return folder


def _install(toolchain: Toolchain, folder: Path, say: Callable[[str], None]) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    pins = resources.files(phoneproof) / "toolchains" / "pins" / toolchain.pin_file
    with resources.as_file(pins) as pin_file:
        for command in _commands(folder, pin_file, _own_needs(toolchain)):
            say(" ".join(command))
            _run(command, toolchain)
    write_atomically(folder / MARKER, json.dumps({"toolchain": toolchain.name, "pins": _pins(toolchain)}))


def _is_whole(folder: Path) -> bool:
    """Whether the installation came to its end and the Python it was made from is still there."""
    return (folder / MARKER).is_file() and _interpreter(folder).exists()


def _own_needs(toolchain: Toolchain) -> list[str]:
    """Requirements of worker-side code that the pins do not name.

    Pillow as here, so that an image decodes alike; numpy as the toolchain's packages want it.
    """
    versions = {"numpy": "", "pillow": f"=={metadata.version('pillow')}"}
    return [f"{name}{versions[name]}" for name in WORKER_PACKAGES if name not in _pins(toolchain)]


def _commands(folder: Path, pin_file: Path, needs: list[str]) -> list[list[str]]:
    interpreter = str(_interpreter(folder))
    base = str(Path(sys.base_prefix) / "bin" / "python3") if sys.platform != "win32" else sys.executable
    python = base if Path(base).exists() else sys.executable
    uv = shutil.which("uv")
    if uv is not None:
        return [
            [uv, "venv", "--quiet", "--python", python, str(folder)],
            [
                uv,
                "pip",
                "install",
                "--quiet",
                "--python",
                interpreter,
                "--requirement",
                str(pin_file),
                *needs,
            ],
        ]
    return [
        [python, "-m", "venv", str(folder)],
        [interpreter, "-m", "pip", "install", "--quiet", "--requirement", str(pin_file), *needs],
    ]


def _run(command: list[str], toolchain: Toolchain) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise ToolchainError(
            f"The toolchain {toolchain.name} could not be installed: {error.strerror}.",
            where=command[0],
            next_step="Mend the cause and run the command again.",
            command=" ".join(command),
        ) from error
    if done.returncode != 0:
        raise ToolchainError(
            f"The toolchain {toolchain.name} could not be installed.",
            next_step="Read the last lines, mend the cause and run the command again.",
            command=" ".join(command),
            exit_code=done.returncode,
            log_tail=tuple((done.stdout + done.stderr).splitlines()[-20:]),
        )


def _folder(toolchain: Toolchain, store: Path) -> Path:
    content = json.dumps([_pins(toolchain), _own_needs(toolchain)], sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()[:12]
    return store / ENVIRONMENTS / f"{toolchain.name}-{digest}"


def _pins(toolchain: Toolchain) -> dict[str, str]:
    return dict(read_pins(toolchain.pin_file))


def _interpreter(folder: Path) -> Path:
    return folder / "bin" / "python"
