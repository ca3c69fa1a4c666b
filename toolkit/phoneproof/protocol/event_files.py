"""The event files in a job's folder, read as a whole."""

from pathlib import Path

from phoneproof.errors import ProtocolError
from phoneproof.protocol.events import (
    ATTEMPTS_FILE,
    EVENTS_FOLDER,
    Event,
    in_order,
    parse_event_file,
)
from phoneproof.protocol.json_lines import whole_size


def read_events(folder: Path) -> tuple[Event, ...]:
    """All events of the job in `folder`, in order; none if no attempt was begun.

    ProtocolError for a line, other than a torn last one, that is no event, and for a file whose events are
    not those of its one writer.
    """
    events: list[Event] = []
    for path in (folder / EVENTS_FOLDER).glob("*.jsonl"):
        if not (path.stem.isascii() and path.stem.isdigit() and f"{int(path.stem):04d}" == path.stem):
            raise ProtocolError("An event file is named after its attempt.", where=path.name)
        events += parse_event_file(path.read_bytes(), path.name, int(path.stem))
    attempts = folder / ATTEMPTS_FILE
    if attempts.exists():
        events += parse_event_file(attempts.read_bytes(), attempts.name, None)
    return in_order(events)


def cut_torn_line(path: Path) -> None:
    """Cut a torn last line before appending, as the file's owner."""
    if not path.exists():
        return
    data = path.read_bytes()
    whole = whole_size(data)
    if whole != len(data):
        with path.open("r+b") as file:
            file.truncate(whole)
