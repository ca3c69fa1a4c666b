"""The event files in a job's folder, read as a whole or as they grow."""

from pathlib import Path

from phoneproof.errors import ProtocolError
from phoneproof.protocol.events import (
    ATTEMPTS_FILE,
    EVENTS_FOLDER,
    AttemptEnded,
    Event,
    in_order,
    parse_event_file,
    parse_events,
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


class EventTail:
    """The events of a job that is under way, in their final order, each file read only once.

    The supervisor's file is read first, and an attempt's file only when the attempt before it is known to
    have ended: so no event comes after one that it belongs before.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}
        self._ended = 0
        self.events: list[Event] = []

    def read(self) -> list[Event]:
        """All events so far. Stops before a line that is no event: the supervisor deals with that."""
        new = self._new_lines(self._folder / ATTEMPTS_FILE)
        self._ended = max([self._ended, *(e.stamp.attempt for e in new if isinstance(e, AttemptEnded))])
        for number in range(1, self._ended + 2):
            new += self._new_lines(self._folder / EVENTS_FOLDER / f"{number:04d}.jsonl")
        self.events.extend(in_order(new))
        return self.events

    def _new_lines(self, path: Path) -> list[Event]:
        begin = self._offsets.get(path, 0)
        try:
            with path.open("rb") as file:
                file.seek(begin)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = whole_size(data)
        try:
            events = parse_events(data[:whole], path.name)
        except ProtocolError:
            return []
        self._offsets[path] = begin + whole
        return list(events)
