"""The host as one device or several: a harness runs in the environment that has a build's runtime."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from phoneproof.devices.device import Device, DeviceDescription
from phoneproof.devices.host import HostDevice
from phoneproof.devices.supervisor import HarnessCommand
from phoneproof.errors import PhoneproofError
from phoneproof.recipes.runtime_table import RUNTIMES, runtime_on_host
from phoneproof.recipes.toolchain_table import TOOLCHAINS
from phoneproof.workers.environments import environment_of

MakeHost = Callable[[Path], Device]
SOURCE_RUNTIME: Final = "source"
"""The runtime that runs source models, as the reference."""


@dataclass(frozen=True)
class HostHarness:
    """The host with one environment."""

    device: Device
    description: DeviceDescription


class Hosts:
    """Harnesses of this machine by interpreter, each started and described when it is first asked for.

    root: folder of jobs. runtimes: names of the runtimes that are going to be used, by toolchain whose
    environment has them. make: stands in for the real host in all of them.
    """

    def __init__(
        self,
        root: Path,
        store: Path,
        runtimes: Mapping[str, Sequence[str]],
        make: MakeHost | None = None,
    ) -> None:
        self._root = root
        self._store = store
        self._runtimes = runtimes
        self._make = make
        self._hosts: dict[Path | None, HostHarness] = {}

    def of(self, toolchain: str) -> HostHarness:
        """The harness in the environment of this toolchain. Raises what `environment_of` and describe do."""
        command = None if self._make is not None else self._command(toolchain)
        key = None if command is None else command.interpreter
        if key not in self._hosts:
            device = self._make(self._root) if self._make is not None else HostDevice(self._root, command)
            self._hosts[key] = HostHarness(device, device.describe())
        return self._hosts[key]

    def _command(self, toolchain: str) -> HarnessCommand:
        where = environment_of(TOOLCHAINS[toolchain], self._store)
        shared = [
            name
            for other, names in self._runtimes.items()
            for name in names
            if self._interpreter(other) == where.interpreter
        ]
        return HarnessCommand(where.interpreter, where.python_path, needed=tuple(sorted(set(shared))))

    def _interpreter(self, toolchain: str) -> Path | None:
        try:
            return environment_of(TOOLCHAINS[toolchain], self._store).interpreter
        except PhoneproofError:
            return None

    def description(self) -> DeviceDescription | None:
        """This machine with the runtimes of all harnesses; None where none was asked for."""
        found = [host.description for host in self._hosts.values()]
        if not found:
            return None
        runtimes = {name: version for one in found for name, version in one.runtimes.items()}
        return replace(found[0], runtimes=runtimes)

    def close(self) -> None:
        """Close every harness."""
        for host in self._hosts.values():
            host.device.close()


def described_host(root: Path, store: Path) -> DeviceDescription:
    """This machine with every runtime that is usable on it, managed environments included."""
    rows = dict.fromkeys(runtime_on_host(name) for name in RUNTIMES)
    runtimes: dict[str, list[str]] = {}
    for row in rows:
        runtimes.setdefault(row.toolchain, []).append(row.name)
    hosts = Hosts(root, store, runtimes)
    missing: dict[str, None] = {}
    try:
        for toolchain, names in runtimes.items():
            try:
                hosts.of(toolchain)
            except PhoneproofError:
                missing |= dict.fromkeys(names)
        found = hosts.description() or HostDevice(root).describe()
    finally:
        hosts.close()
    return replace(found, runtimes={**found.runtimes, **missing})
