"""One step of a run: kept if this run has it, else taken from the store or made."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, Final

from phoneproof.builds.store import Kind, Store
from phoneproof.errors import Interrupted, PhoneproofError, StorageError
from phoneproof.runs.folder import RunFolder
from phoneproof.runs.observer import Observer
from phoneproof.workers.environments import WorkerEnvironment
from phoneproof.workers.tokens import WorkerTokens
from phoneproof.workers.worker import OnProgress, WorkerCall, WorkerLimits, call_worker

Outcome = Mapping[str, Any]

_WORKER_BYTES: Final = 1_000_000_000
"""What a worker that loads a vendor's packages and a small model takes."""
_LEAST_FREE_BYTES: Final = 2**20
"""Below this a worker's failure is blamed on the disk, whatever the vendor's code made of it."""


@dataclass(frozen=True)
class RunContext:
    """What every step needs. stop: set to end the run. tokens: how many workers run side by side."""

    folder: RunFolder
    store: Store
    observer: Observer
    limits: WorkerLimits
    stop: Event
    tokens: WorkerTokens = field(default_factory=WorkerTokens)

    def step(self, name: str, key: str, make: Callable[[], tuple[Outcome, str]]) -> Outcome:
        """The outcome of a step: this run's own if it was finished with the same key, else made now.

        make: gives the outcome, a JSON object, and how it came about (`made` or `hit`). What it raises is
        noted in the journal and goes through; that the run was stopped is no failure of the step.
        """
        kept = self.folder.outcome_of(name, key)
        if kept is not None:
            self.observer.finished(name, "kept")
            return kept
        self.folder.say("step_started", name, key=key)
        self.observer.started(name)
        try:
            outcome, how = make()
        except Interrupted:
            raise
        except PhoneproofError as error:
            if self.stop.is_set():  # Ctrl-C may meet a worker on its way out of the terminal's group
                raise Interrupted("The run was stopped.") from error
            self.folder.say("step_failed", name, what=str(error)[:1_000], error=type(error).__name__)
            self.observer.failed(name, error)
            raise
        self.folder.finish(name, key, outcome)
        self.observer.finished(name, how)
        return outcome

    def call(
        self,
        name: str,
        module: str,
        request: Mapping[str, Any],
        interpreter: Path | None = None,
        python_path: tuple[Path, ...] = (),
        memory_bytes: int = _WORKER_BYTES,
    ) -> dict[str, Any]:
        """Run a worker in the step's work folder; its result. It waits for `memory_bytes` of tokens.

        Raises what `call_worker` raises, and StorageError for any failure on a full disk.
        """
        call = WorkerCall(
            module, request, self.folder.work(name), limits=self.limits, python_path=python_path
        )
        if interpreter is not None:
            call = WorkerCall(module, request, call.folder, interpreter, python_path, self.limits)
        try:
            with self.tokens.take(memory_bytes, self.stop):
                return call_worker(call, self.progress_of(name), self.stop)
        except (Interrupted, StorageError):
            raise
        except PhoneproofError as error:
            for folder in (self.folder.path, self.store.root):
                _refuse_full_disk(folder, error)
            raise

    def call_in(
        self,
        where: WorkerEnvironment,
        name: str,
        module: str,
        request: Mapping[str, Any],
        memory_bytes: int = _WORKER_BYTES,
    ) -> dict[str, Any]:
        """As `call`, in the environment of a toolchain."""
        return self.call(name, module, request, where.interpreter, where.python_path, memory_bytes)

    def progress_of(self, name: str) -> OnProgress:
        """Tells the observer what a step is at."""
        return lambda what, done, total: self.observer.progress(name, what, done, total)

    def from_store(self, kind: Kind, key: str, fill: Callable[[Path], None]) -> tuple[Path, str]:
        """The store's entry of that key, filled now if there is none; and `hit` or `made`."""
        found = self.store.find(kind, key)
        if found is not None:
            return found, "hit"
        with self.store.locked(kind, key, stop=self.stop):
            found = self.store.find(kind, key)
            if found is not None:
                return found, "hit"
            self.store.discard(kind, key)
            with self.store.staging(kind, key) as staging:
                fill(staging)
        return self._just_made(kind, key), "made"

    def stored(self, kind: Kind, key: str, make: Callable[[], object]) -> Path:
        """The store's entry of that key; made again by `make` if it was pruned or damaged since."""
        found = self.store.find(kind, key)
        if found is not None:
            return found
        make()
        return self._just_made(kind, key)

    def _just_made(self, kind: Kind, key: str) -> Path:
        made = self.store.find(kind, key)
        if made is None:
            raise StorageError(
                f"What was just put into the store is not there: {kind}/{key[:16]}.",
                where=str(self.store.root),
                next_step="See that nothing else clears this folder, and run the same command again.",
            )
        return made


def _refuse_full_disk(folder: Path, error: PhoneproofError) -> None:
    if shutil.disk_usage(folder).free < _LEAST_FREE_BYTES:
        raise StorageError(
            "The disk is full.",
            where=str(folder),
            next_step="Free some space on that disk and run the same command again.",
            then=error.what,
        ) from error
