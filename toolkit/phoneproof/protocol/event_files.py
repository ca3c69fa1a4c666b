"""The event files in a job's folder, read as a whole."""

from pathlib import Path

from phoneproof.protocol.events import ATTEMPTS_FILE, EVENTS_FOLDER, Event, in_order, parse_events


def read_events(folder: Path) -> tuple[Event, ...]:
    """All events of the job in `folder`, in order; none if no attempt was begun.

    ProtocolError for a line, other than a torn last one, that is no event.
    """
    paths = sorted((folder / EVENTS_FOLDER).glob("*.jsonl"))
    attempts = folder / ATTEMPTS_FILE
    if attempts.exists():
        paths.append(attempts)
    return in_order(event for path in paths for event in parse_events(path.read_bytes(), path.name))


def cut_torn_line(path: Path) -> None:
    """Cut a torn last line before appending, as the file's owner."""
    if not path.exists():
        return
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole != len(data):
        with path.open("r+b") as file:
            file.truncate(whole)
