"""run.json and journal.jsonl: what one writer cannot have written is refused."""

import json
from dataclasses import replace
from typing import Any

import pytest

from phoneproof.errors import ProtocolError
from phoneproof.protocol.journal import (
    JournalLine,
    RunRecord,
    journal_text,
    parse_journal,
    read_run,
    run_text,
)

PLANNED = JournalLine(0, 5, "planned", None, {"steps": ("audit", "build:a")})
STARTED = JournalLine(1, 6, "step_started", "build:a", {"cached": False})
FINISHED = JournalLine(2, 7, "step_finished", "build:a", {"seconds": 0.5, "files": ("x",), "note": None})
RUN = RunRecord(1, "r", 5, "0.1.0", "0" * 64, {"models": [{"path": "m.onnx"}]}, None, ("phoneproof", "run"))


def text(*lines: JournalLine) -> bytes:
    return "".join(map(journal_text, lines)).encode()


def test_a_journal_is_read_back_without_its_torn_line() -> None:
    whole = text(PLANNED, STARTED, FINISHED)
    assert parse_journal(whole) == (PLANNED, STARTED, FINISHED)
    for cut in range(len(text(PLANNED, STARTED)), len(whole)):
        assert parse_journal(whole[:cut]) == (PLANNED, STARTED)
    assert parse_journal(b"") == ()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([JournalLine(0, 5, "resumed")], "begins with"),
        ([PLANNED, JournalLine(1, 5, "planned", None, {"steps": ()})], "once"),
        ([PLANNED, FINISHED], "seq 1"),
        ([PLANNED, STARTED, STARTED], "seq 2"),
        ([PLANNED, JournalLine(1, 5, "step_started", "build:b")], "not planned"),
        ([PLANNED, JournalLine(1, 5, "step_started")], "missing"),
        ([PLANNED, JournalLine(1, 5, "resumed", "audit")], "does not go with"),
        ([JournalLine(0, 5, "planned")], "no steps"),
        ([JournalLine(0, 5, "planned", None, {"steps": "audit"})], "no steps"),
        ([JournalLine(0, 5, "planned", None, {"steps": ("a", "a")})], "twice"),
    ],
)
def test_a_journal_of_no_one_writer_is_refused(lines: list[JournalLine], words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        parse_journal(text(*lines))


def test_garbage_before_the_last_line_is_refused_with_its_place() -> None:
    with pytest.raises(ProtocolError) as caught:
        parse_journal(text(PLANNED) + b"\0\0\0\n" + text(STARTED), "run/journal.jsonl")
    assert caught.value.where == "run/journal.jsonl:2"


def test_a_command_that_is_not_utf_8_is_written_and_read() -> None:
    command = ("phoneproof", b"\xff.toml".decode(errors="surrogateescape"))
    odd = replace(RUN, command=command)
    assert read_run(run_text(odd).encode()).command == ("phoneproof", "\ufffd.toml")


@pytest.mark.parametrize("version", [2, 0, "1", True, None, 1.0])
def test_another_version_of_a_run_is_refused_before_the_rest_is_read(version: Any) -> None:
    content = json.loads(run_text(RUN)) | {"version": version, "new": 1}
    with pytest.raises(ProtocolError, match="version 1"):
        read_run(json.dumps(content))
    assert read_run(run_text(RUN)) == RUN
