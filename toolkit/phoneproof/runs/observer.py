"""Who is told how a run goes: the CLI's screen, or nobody."""

from typing import Protocol

from phoneproof.errors import PhoneproofError
from phoneproof.findings import Finding


class Observer(Protocol):
    """Told by the run as it goes, from any of its threads."""

    def stage(self, name: str) -> None:
        """A stage begins: audit, build, verify or report."""

    def started(self, step: str) -> None:
        """A step begins."""

    def progress(self, step: str, what: str, done: int | None, total: int | None) -> None:
        """What a step is at; `done` of `total` only where the work is countable."""

    def finished(self, step: str, how: str) -> None:
        """A step ended well. how: `made`, `hit` (out of the store) or `kept` (of this run, before)."""

    def failed(self, step: str, error: PhoneproofError) -> None:
        """A step ended badly; the others go on."""

    def found(self, finding: Finding) -> None:
        """A check found something."""


class Silent:
    """Told everything, says nothing."""

    def stage(self, name: str) -> None:
        """See Observer."""

    def started(self, step: str) -> None:
        """See Observer."""

    def progress(self, step: str, what: str, done: int | None, total: int | None) -> None:
        """See Observer."""

    def finished(self, step: str, how: str) -> None:
        """See Observer."""

    def failed(self, step: str, error: PhoneproofError) -> None:
        """See Observer."""

    def found(self, finding: Finding) -> None:
        """See Observer."""
