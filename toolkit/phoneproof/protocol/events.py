"""Events of a job: JSON Lines, one file for each attempt and one for the supervisor.

The runner writes `events/NNNN.jsonl` (NNNN the attempt, from 0001), the supervisor `attempts.jsonl`. Each has
one writer. Rules stand in protocol/PROTOCOL.md.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from phoneproof.errors import ProtocolError
from phoneproof.protocol.codec import from_dict, to_dict, without_lone_surrogates
from phoneproof.protocol.job import FileRef, ProtocolVersion, check_version
from phoneproof.protocol.json_lines import parsed_lines

EVENTS_FOLDER: Final = "events"
ATTEMPTS_FILE: Final = "attempts.jsonl"
OUTPUTS_FOLDER: Final = "outputs"

Confidence = Literal["high", "medium", "low"]
EndCause = Literal["exited", "signal", "timed_out", "low_memory", "interrupted", "protocol", "unknown"]
FactValue = str | int | float | bool | None


@dataclass(frozen=True)
class Stamp:
    """When an event was written. seq counts from 0 in each file; the two clocks are not comparable."""

    attempt: int
    seq: int
    monotonic_ns: int
    wall_ms: int


@dataclass(frozen=True)
class CaseError:
    """An error that the runtime reported and survived."""

    type: str
    message: str


@dataclass(frozen=True)
class JobStarted:
    """A runner began an attempt.

    environment: device, OS, CPU, battery, thermal state, frequencies; null where the device does not tell.
    runtimes: version of each runtime that this harness can load.
    """

    event: Literal["job_started"]
    stamp: Stamp
    protocol: ProtocolVersion
    job_id: str
    environment: Mapping[str, FactValue]
    runtimes: Mapping[str, str]


@dataclass(frozen=True)
class CaseStarted:
    """Written and synced before a case. next_sample: where an infer case begins or resumes, else null."""

    event: Literal["case_started"]
    stamp: Stamp
    case_id: str
    next_sample: int | None


@dataclass(frozen=True)
class SampleStarted:
    """Written before each sample of an infer case (flushed, not synced): all earlier ones are done."""

    event: Literal["sample_started"]
    stamp: Stamp
    case_id: str
    sample: int


@dataclass(frozen=True)
class SampleFailed:
    """The runtime refused one sample with an error; the case goes on."""

    event: Literal["sample_failed"]
    stamp: Stamp
    case_id: str
    sample: int
    error: CaseError


@dataclass(frozen=True)
class RoundFinished:
    """One round of a benchmark: every timed batch in ns of the invocations only, in the order they ran.

    visits: for ABBA four lists, for a candidate alone one; batch: invocations in one timed batch.
    waited_ns: for each visit, how long the runner's threads were ready to run but waited for a processor,
    summed over the threads; None where the system does not tell.
    """

    event: Literal["round_finished"]
    stamp: Stamp
    case_id: str
    round: int
    order: Literal["ABBA", "B"]
    baseline_batch: int | None
    candidate_batch: int
    visits_ns: tuple[tuple[int, ...], ...]
    waited_ns: tuple[int, ...] | None


@dataclass(frozen=True)
class Measured:
    """What was measured besides run times; null where the device or runtime does not tell.

    peak_memory_bytes: of an infer case, highest resident memory of loading the build and running one sample,
        in a process of its own, above that process with the runtime imported.
    operators: number of operators on each accelerator, as the runtime reports it.
    """

    load_ms: float | None = None
    first_ms: float | None = None
    baseline_first_ms: float | None = None
    peak_memory_bytes: int | None = None
    accelerator_actual: str | None = None
    operators: Mapping[str, int] | None = None
    clock_resolution_ns: int | None = None


@dataclass(frozen=True)
class CaseFinished:
    """A case came to its end in this process. output: the file with what an infer case kept."""

    event: Literal["case_finished"]
    stamp: Stamp
    case_id: str
    outcome: Literal["passed", "failed"]
    error: CaseError | None
    measured: Measured
    output: FileRef | None


@dataclass(frozen=True)
class Heartbeat:
    """The runner lives. case_id: the case under way."""

    event: Literal["heartbeat"]
    stamp: Stamp
    case_id: str | None
    memory_bytes: int | None


@dataclass(frozen=True)
class JobFinished:
    """No case is left."""

    event: Literal["job_finished"]
    stamp: Stamp


@dataclass(frozen=True)
class AttemptEnded:
    """The supervisor saw the runner's end. code: exit code or signal number; log_tail: its last output."""

    event: Literal["attempt_ended"]
    stamp: Stamp
    cause: EndCause
    code: int | None
    confidence: Confidence
    facts: Mapping[str, FactValue] = field(default_factory=dict)
    log_tail: tuple[str, ...] = ()


RunnerEvent = (
    JobStarted
    | CaseStarted
    | SampleStarted
    | SampleFailed
    | RoundFinished
    | CaseFinished
    | Heartbeat
    | JobFinished
)
Event = RunnerEvent | AttemptEnded


def event_line(event: Event) -> str:
    """One line of JSON with its line feed. Lone surrogates, which have no UTF-8 form, become U+FFFD."""
    line = json.dumps(to_dict(event), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return without_lone_surrogates(line) + "\n"


def parse_events(data: bytes, where: str) -> tuple[Event, ...]:
    """The events in a stretch of whole lines of one file. A last line without line feed is torn and left out.

    ProtocolError for any other line that is no event, or for another protocol version.
    """
    events: list[Event] = []
    for place, content in parsed_lines(data, where):
        if isinstance(content, dict) and content.get("event") == "job_started":
            check_version(content, place)
        event: Event = from_dict(Event, content, place)  # type: ignore[arg-type]
        if event.stamp.attempt < 1 or event.stamp.seq < 0:
            raise ProtocolError("Attempts count from 1 and seq from 0.", where=place)
        events.append(event)
    return tuple(events)


def parse_event_file(data: bytes, where: str, attempt: int | None) -> tuple[Event, ...]:
    """The events of one file from its beginning: of that attempt's runner, or with None the supervisor's.

    ProtocolError as `parse_events`, and for a file that did not have its one writer: seq counts from 0 line
    by line, a runner's file begins with its only job_started and stays in its attempt, the supervisor's
    holds nothing but attempt_ended.
    """
    events = parse_events(data, where)
    for index, event in enumerate(events):
        place = f"{where}:{index + 1}"
        if event.stamp.seq != index:
            raise ProtocolError(f"Expected seq {index}, found {event.stamp.seq}.", where=place)
        if isinstance(event, AttemptEnded) != (attempt is None):
            raise ProtocolError(f"{event.event} does not belong into this file.", where=place)
        if attempt is not None and event.stamp.attempt != attempt:
            raise ProtocolError(f"Expected attempt {attempt}, found {event.stamp.attempt}.", where=place)
        if attempt is not None and isinstance(event, JobStarted) != (index == 0):
            raise ProtocolError("A runner's file begins with job_started, and has it once.", where=place)
    return events


def in_order(events: Iterable[Event]) -> tuple[Event, ...]:
    """Events by attempt, the supervisor's word on an attempt after the runner's own, then by seq."""
    return tuple(
        sorted(events, key=lambda e: (e.stamp.attempt, isinstance(e, AttemptEnded), e.stamp.seq)),
    )
