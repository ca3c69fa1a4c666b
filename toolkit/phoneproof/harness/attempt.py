"""What the cases of one attempt share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from phoneproof.harness.configurations import Loaded, OneAtATime, load_configuration
from phoneproof.harness.event_log import EventLog
from phoneproof.protocol.events import CaseError, Measured
from phoneproof.protocol.job import FileRef, Job
from phoneproof.protocol.sample_files import SampleReader


@dataclass(frozen=True)
class Done:
    """What a case gives back to be written as its end."""

    measured: Measured
    output: FileRef | None = None


@dataclass
class CurrentAttempt:
    """A job on this machine while its runner lives. open_case: the case under way."""

    job: Job
    folder: Path
    runtime_modules: Mapping[str, str]
    log: EventLog
    open_case: str | None = None
    _readers: dict[str, SampleReader] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.one_at_a_time = OneAtATime(self.files, self.runtime_modules)

    @property
    def files(self) -> Path:
        """Folder of the job's models and samples."""
        return self.folder / "files"

    def load(self, configuration_id: str) -> Loaded:
        """A configuration of its own, to be closed by the caller."""
        configuration = self.job.configuration(configuration_id)
        return load_configuration(configuration, self.files, self.runtime_modules)

    def reader(self, samples_id: str) -> SampleReader:
        """The reader of a sample set."""
        if samples_id not in self._readers:
            self._readers[samples_id] = SampleReader(self.job.sample_set(samples_id), self.files)
        return self._readers[samples_id]


def measured(loaded: Loaded) -> Measured:
    """What a loaded configuration tells at this moment."""
    return Measured(
        load_ms=loaded.load_ms,
        accelerator_actual=loaded.session.accelerator_actual,
        operators=loaded.session.operators,
    )


def case_error(raised: BaseException) -> CaseError:
    """An exception as the protocol's error, its text cut to 4,000 characters."""
    try:
        message = str(raised)
    except Exception:  # noqa: BLE001 - the text of a vendor's exception may itself raise
        message = "(its text cannot be read)"
    return CaseError(type(raised).__name__, message[:4_000])
