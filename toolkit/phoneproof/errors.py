"""Every error that phoneproof raises on purpose.

PhoneproofError                      exit code
├── RequestError                     2   the user's request is wrong: nothing was started
│   ├── PlanError                        phoneproof.toml (place: file and key)
│   ├── CommandLineError                 an option, argument or combination of them
│   ├── SourceModelError                 a source model that cannot be read, or is not what it says
│   ├── DataError                        a calibration or evaluation set that cannot be used
│   │   └── BrokenSampleError                one sample of it; it is left out and becomes a finding
│   ├── RecipeError                      a recipe, option or route that does not exist or does not fit
│   ├── BuildFileError                   a build made elsewhere that cannot be read, or is not what it says
│   └── RunFolderError                   a run folder that is missing, foreign, or of another plan
├── IncompleteError                  3   the request is right but could not be carried out
│   ├── ToolchainError                   a vendor's converter failed, or is absent or of a wrong version
│   ├── WorkerError                      a worker process crashed, hung, or ran out of memory
│   ├── RuntimeUnavailableError          a runtime or accelerator that this device does not have
│   ├── UnsupportedOperatorError         a build has operators that this runtime does not know
│   ├── DeviceError                      a device that is absent, refuses, or was lost
│   ├── ProtocolError                    a job, event or journal that does not follow the protocol
│   ├── StorageError                     disk full, read-only folder, failed checksum
│   └── BusyError                        another phoneproof holds the lock
├── Interrupted                      130 the user stopped the run; it can be resumed
└── SeveralErrors                    worst of its errors; all that a preflight found

A leaf says whose fault it is and so what can be done. Facts are data; the CLI makes the sentences out of
`what`, `where` and `next_step`, and prints the facts below them.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

Fact = str | int | float | bool | None | tuple[str, ...]


class PhoneproofError(Exception):
    """An expected failure.

    what: one sentence saying what is wrong, without the place.
    where: the place: a file, `file: key`, a command line option, a build_id, a device.
    next_step: what the user can do now, as an instruction.
    facts: stage, build, device, command, exit code, last lines of the log and the like.
    """

    exit_code = 3

    def __init__(
        self, what: str, *, where: str | None = None, next_step: str | None = None, **facts: Fact
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.next_step = next_step
        self.facts: Mapping[str, Fact] = MappingProxyType(dict(facts))

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f" {self.next_step}" if self.next_step else ""
        return f"{place}{self.what}{advice}"


class RequestError(PhoneproofError):
    """The request itself is wrong; nothing was started."""

    exit_code = 2


class PlanError(RequestError):
    """phoneproof.toml is missing, not TOML, or says something that cannot be meant."""


class CommandLineError(RequestError):
    """An option or argument is wrong, or two of them contradict each other."""


class SourceModelError(RequestError):
    """A source model is missing, corrupt, or not of the stated format."""


class DataError(RequestError):
    """A calibration or evaluation set is missing, unreadable or does not fit the model."""


class BrokenSampleError(DataError):
    """One sample cannot be read. It is left out with this reason and becomes a finding; the rest go on."""


class RecipeError(RequestError):
    """A recipe or one of its options does not exist, or does not fit the source model or device."""


class BuildFileError(RequestError):
    """A build made elsewhere is missing, corrupt, or not of the stated format."""


class RunFolderError(RequestError):
    """A folder given as a run is missing, is no run, or belongs to another plan."""


class IncompleteError(PhoneproofError):
    """The request is right, but could not be completed."""


class ToolchainError(IncompleteError):
    """A vendor's converter failed, is absent, or has a version that does not work."""


class WorkerError(IncompleteError):
    """A worker process crashed, hung, ran out of memory or answered nonsense."""


class RuntimeUnavailableError(IncompleteError):
    """The device does not have the runtime or accelerator that was asked for."""


class UnsupportedOperatorError(IncompleteError):
    """The build has operators that this runtime does not know; nothing of it was run.

    The fact `operators` names all of them as "type (operation name)", in the order of the program.
    """


class DeviceError(IncompleteError):
    """A device is absent, refuses, or was lost."""


class ProtocolError(IncompleteError):
    """A job, event, journal or report does not follow the protocol, or has another version."""


class StorageError(IncompleteError):
    """The disk is full, a folder is read-only, or a file does not have its checksum."""


class BusyError(IncompleteError):
    """Another phoneproof process holds the lock that this one needs."""


class Interrupted(PhoneproofError):  # noqa: N818 - not a failure, so not named one
    """The user stopped the run. The same command finishes it."""

    exit_code = 130


class SeveralErrors(PhoneproofError):  # noqa: N818 - it holds errors
    """More than one thing is wrong; `errors` has them all, in the order in which they were found."""

    def __init__(self, errors: Sequence[PhoneproofError]) -> None:
        super().__init__(f"{len(errors)} things are wrong.")
        self.errors = tuple(errors)
        self.exit_code = max(error.exit_code for error in errors)


def said(error: BaseException, most: int = 200) -> str:
    """What another's error says, as the end of a sentence of ours: cut, without a full stop of its own."""
    return str(error)[:most].rstrip(" .\n")


def error_class(name: str) -> type[PhoneproofError]:
    """The class of that name in the tree; WorkerError for a name that is not in it.

    A worker process names its error by class; what it writes is not trusted to name anything else.
    """
    known = globals().get(name)
    if isinstance(known, type) and issubclass(known, PhoneproofError):
        return known
    return WorkerError
