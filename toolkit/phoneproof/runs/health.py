"""What is usable on this machine, and what mends the rest."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from phoneproof.builds.store import Store
from phoneproof.errors import PhoneproofError
from phoneproof.recipes.runtime_table import RUNTIMES
from phoneproof.recipes.toolchain_table import TOOLCHAINS, Toolchain, installed_versions
from phoneproof.workers.environments import WorkerEnvironment, environment_of
from phoneproof.workers.worker import worker_environment

_IMPORT_TIMEOUT_S: Final = 120.0


@dataclass(frozen=True)
class Part:
    """A toolchain or runtime. version: as installed; tested: the pinned one. mend: one command.

    absent: packages of it are not installed, which is no fault: nobody needs all toolchains.
    """

    kind: Literal["toolchain", "runtime"]
    name: str
    usable: bool
    version: str | None
    tested: str | None
    why: str | None
    mend: str | None
    absent: bool = False


def examine(store: Store, deep: bool) -> tuple[Part, ...]:
    """Every toolchain and runtime of the recipes. deep: import each in a process of its own."""
    parts: list[Part] = []
    for name, toolchain in TOOLCHAINS.items():
        parts.append(_part("toolchain", name, toolchain, store, deep))
    for row in RUNTIMES.values():
        if row.stand_in is None or sys.platform == "darwin":
            parts.append(_part("runtime", row.name, TOOLCHAINS[row.toolchain], store, deep, row.package))
    return tuple(parts)


def _part(
    kind: Literal["toolchain", "runtime"],
    name: str,
    toolchain: Toolchain,
    store: Store,
    deep: bool,
    package: str | None = None,
) -> Part:
    packages = [*toolchain.least_versions] if package is None else [package]
    tested = _versions({p: toolchain.tested_versions.get(p) for p in packages})
    mend = f"phoneproof toolchain install {toolchain.name}"
    try:
        environment = environment_of(toolchain, store.root)
    except PhoneproofError as error:
        installed = installed_versions(toolchain)
        found = _versions({p: installed.get(p) for p in packages})
        absent = any(version is None for version in installed.values())
        return Part(kind, name, False, found, tested, error.what, f"Run `{mend}`.", absent)
    version = _versions({p: environment.versions.get(p) for p in packages})
    why = _import_fault(environment, packages) if deep else None
    return Part(kind, name, why is None, version, tested, why, None if why is None else f"Run `{mend}`.")


def _import_fault(environment: WorkerEnvironment, packages: list[str]) -> str | None:
    """What importing the packages says, or None. Each in a process of its own: some crash beside others
    (TensorFlow 2.21 before torch's triton).
    """
    return next((fault for package in packages if (fault := _fault_of(environment, package))), None)


def _fault_of(environment: WorkerEnvironment, package: str) -> str | None:
    code = f"import {package.replace('-', '_')}"
    if package == "coremltools":
        # It imports TensorFlow and then torch, which crashes; phoneproof's workers hide TensorFlow from it.
        code = f"import sys; sys.modules['tensorflow'] = None; {code}"
    command = [str(environment.interpreter), "-c", code]
    try:
        done = subprocess.run(
            command,
            env=worker_environment(environment.python_path),
            capture_output=True,
            timeout=_IMPORT_TIMEOUT_S,
            check=False,
            cwd=Path(environment.interpreter).parent,
        )
    except subprocess.TimeoutExpired:
        return f"The import of {package} did not end in {_IMPORT_TIMEOUT_S:.0f} s."
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return f"The import of {package} crashed with signal {-done.returncode}."
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"The import failed: {lines[-1] if lines else f'exit code {done.returncode}'}."


def _versions(versions: dict[str, str | None]) -> str | None:
    known = [f"{package} {version}" for package, version in versions.items() if version is not None]
    return ", ".join(known) or None
