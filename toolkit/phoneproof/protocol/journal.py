"""run.json and journal.jsonl: what a run was asked to do, and what it has done."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from phoneproof.errors import ProtocolError
from phoneproof.protocol.codec import from_dict, parse_json, to_dict, without_lone_surrogates
from phoneproof.protocol.json_lines import parsed_lines

RUN_FILE: Final = "run.json"
JOURNAL_FILE: Final = "journal.jsonl"
RUN_VERSION: Final = 1

EntryKind = Literal["planned", "step_started", "step_finished", "step_failed", "resumed", "run_finished"]
JournalFact = str | int | float | bool | tuple[str, ...] | None

_OF_A_STEP: Final = frozenset({"step_started", "step_finished", "step_failed"})


@dataclass(frozen=True)
class RunRecord:
    """run.json. Written once, under a temporary name, before the journal.

    created_ms: wall clock, ms since 1970. plan: the effective plan, defaults filled in. plan_sha256: of the
    plan file's bytes. plan_folder: what the plan's paths are relative to. command: as it was typed.
    """

    version: int
    run_id: str
    created_ms: int
    phoneproof_version: str
    plan_sha256: str
    plan: Mapping[str, Any]
    plan_folder: str | None
    command: tuple[str, ...]


@dataclass(frozen=True)
class JournalLine:
    """One line of journal.jsonl. seq counts from 0.

    entry: `planned` is the first line and stands there only; its fact `steps` lists the ids of all steps.
    step: the step that step_started, step_finished and step_failed are about, else None.
    """

    seq: int
    wall_ms: int
    entry: EntryKind
    step: str | None = None
    facts: Mapping[str, JournalFact] = field(default_factory=dict)


def run_text(run: RunRecord) -> str:
    """Text of run.json."""
    text = json.dumps(to_dict(run), ensure_ascii=False, allow_nan=False, indent=2)
    return without_lone_surrogates(text) + "\n"


def read_run(text: str | bytes) -> RunRecord:
    """Parse run.json. ProtocolError for a text that is none, or of another version."""
    content = parse_json(text, RUN_FILE)
    version = content.get("version") if isinstance(content, dict) else None
    if type(version) is not int or version != RUN_VERSION:
        raise ProtocolError(
            f"Not a run of version {RUN_VERSION}.",
            where=RUN_FILE,
            next_step="Read it with the version of phoneproof that wrote it.",
        )
    return from_dict(RunRecord, content)


def journal_text(line: JournalLine) -> str:
    """One line of JSON with its line feed."""
    text = json.dumps(to_dict(line), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return without_lone_surrogates(text) + "\n"


def parse_journal(data: bytes, where: str = JOURNAL_FILE) -> tuple[JournalLine, ...]:
    """The lines of a journal. A last line without line feed is torn and left out.

    ProtocolError for any other line that is no entry, and for entries that one writer cannot have written:
    seq out of step, `planned` missing or twice, a step that was not planned.
    """
    lines: list[JournalLine] = []
    steps: frozenset[str] = frozenset()
    for place, content in parsed_lines(data, where):
        line = from_dict(JournalLine, content, place)
        if line.seq != len(lines):
            raise ProtocolError(f"Expected seq {len(lines)}, found {line.seq}.", where=place)
        if (line.entry == "planned") != (not lines):
            raise ProtocolError("A journal begins with `planned`, and has it once.", where=place)
        if line.entry == "planned":
            steps = _planned_steps(line, place)
        if (line.entry in _OF_A_STEP) != (line.step is not None):
            raise ProtocolError(f"`step` does not go with `{line.entry}`, or is missing.", where=place)
        if line.step is not None and line.step not in steps:
            raise ProtocolError(f"The step {line.step[:80]!r} was not planned.", where=place)
        lines.append(line)
    return tuple(lines)


def _planned_steps(line: JournalLine, place: str) -> frozenset[str]:
    steps = line.facts.get("steps")
    if not isinstance(steps, tuple) or len(set(steps)) != len(steps):
        raise ProtocolError("`planned` lists no steps, or one twice.", where=place)
    return frozenset(steps)
