"""JSON Lines files that one process appends to and may be killed over: events, journal.

A line counts once its line feed is written. What stands after the last line feed is a torn line: readers
leave it out, and the owner cuts it before it appends again.
"""

from collections.abc import Iterator

from phoneproof.protocol.codec import parse_json


def parsed_lines(data: bytes, where: str) -> Iterator[tuple[str, object]]:
    """Place (`where:line`) and parsed JSON of each whole line.

    ProtocolError when a line with its line feed is not JSON: such a line was not torn but damaged.
    """
    whole, line_feed, _ = data.rpartition(b"\n")
    if not line_feed:
        return
    for number, line in enumerate(whole.split(b"\n"), start=1):
        place = f"{where}:{number}"
        yield place, parse_json(line, place)


def whole_size(data: bytes) -> int:
    """Number of bytes up to and with the last line feed."""
    return data.rfind(b"\n") + 1
