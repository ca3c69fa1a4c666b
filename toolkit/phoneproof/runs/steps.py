"""One step of a run: kept if this run has it, else taken from the store or made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from phoneproof.builds.store import Kind, Store
from phoneproof.errors import PhoneproofError
from phoneproof.runs.folder import RunFolder
from phoneproof.runs.observer import Observer
from phoneproof.workers.worker import OnProgress, WorkerCall, WorkerLimits, call_worker

Outcome = Mapping[str, Any]


@dataclass(frozen=True)
class RunContext:
    """What every step needs. stop: set to end the run."""

    folder: RunFolder
    store: Store
    observer: Observer
    limits: WorkerLimits
    stop: Event

    def step(self, name: str, key: str, make: Callable[[], tuple[Outcome, str]]) -> Outcome:
        """The outcome of a step: this run's own if it was finished with the same key, else made now.

        make: gives the outcome, a JSON object, and how it came about (`made` or `hit`). What it raises is
        noted in the journal and goes through.
        """
        kept = self.folder.outcome_of(name, key)
        if kept is not None:
            self.observer.finished(name, "kept")
            return kept
        self.folder.say("step_started", name, key=key)
        self.observer.started(name)
        try:
            outcome, how = make()
        except PhoneproofError as error:
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
    ) -> dict[str, Any]:
        """Run a worker in the step's work folder; its result."""
        call = WorkerCall(
            module, request, self.folder.work(name), limits=self.limits, python_path=python_path
        )
        if interpreter is not None:
            call = WorkerCall(module, request, call.folder, interpreter, python_path, self.limits)
        return call_worker(call, self.progress_of(name), self.stop)

    def progress_of(self, name: str) -> OnProgress:
        """Tells the observer what a step is at."""
        return lambda what, done, total: self.observer.progress(name, what, done, total)

    def from_store(self, kind: Kind, key: str, fill: Callable[[Path], None]) -> tuple[Path, str]:
        """The store's entry of that key, filled now if there is none; and `hit` or `made`."""
        found = self.store.find(kind, key)
        if found is not None:
            return found, "hit"
        with self.store.locked(kind, key):
            found = self.store.find(kind, key)
            if found is not None:
                return found, "hit"
            with self.store.staging(kind, key) as staging:
                fill(staging)
        made = self.store.find(kind, key)
        if made is None:
            raise FileNotFoundError(f"{kind}/{key} vanished from the store")
        return made, "made"
