"""The supervisor's word on how each attempt ended."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

from phoneproof.devices.event_follower import EventFollower
from phoneproof.protocol.event_files import cut_torn_line
from phoneproof.protocol.events import (
    ATTEMPTS_FILE,
    EVENTS_FOLDER,
    AttemptEnded,
    EndCause,
    FactValue,
    Stamp,
    event_line,
    parse_event_file,
)
from phoneproof.protocol.job import Job
from phoneproof.workers.watched import Ending


def recover(folder: Path, job: Job) -> None:
    """Finish the files of attempts that this side did not see the end of: it was killed, or the machine was.

    Cuts their torn lines and what is no event, and writes `interrupted` for each.
    """
    cut_torn_line(folder / ATTEMPTS_FILE)
    ended = {event.stamp.attempt for event in words(folder)}
    for path in sorted((folder / EVENTS_FOLDER).glob("[0-9]*.jsonl")):
        number = int(path.stem) if path.stem.isdigit() else None
        if number is None or number in ended:
            continue
        follower = EventFollower(folder, number, job)
        begun = bool(follower.read()) or follower.garbage is not None
        follower.cut()
        if begun:
            facts: dict[str, FactValue] = {"garbage": follower.garbage} if follower.garbage else {}
            write_word(folder, number, "interrupted", None, facts, ())


def write_word(
    folder: Path,
    number: int,
    cause: EndCause,
    ending: Ending | None,
    facts: Mapping[str, FactValue],
    tail: tuple[str, ...],
) -> AttemptEnded:
    """Append and sync the supervisor's word on an attempt. OSError goes through."""
    stamp = Stamp(number, len(words(folder)), time.monotonic_ns(), time.time_ns() // 1_000_000)
    code, confidence = (None, "high") if ending is None else (ending.code, ending.confidence)
    word = AttemptEnded("attempt_ended", stamp, cause, code, confidence, facts, tail)
    with (folder / ATTEMPTS_FILE).open("ab") as file:
        file.write(event_line(word).encode())
        file.flush()
        os.fsync(file.fileno())
    return word


def words(folder: Path) -> tuple[AttemptEnded, ...]:
    """All of the supervisor's words so far."""
    path = folder / ATTEMPTS_FILE
    if not path.exists():
        return ()
    events = parse_event_file(path.read_bytes(), path.name, None)
    return tuple(event for event in events if isinstance(event, AttemptEnded))
