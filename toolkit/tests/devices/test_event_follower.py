"""Reading an attempt's events as they grow, and how long each step may take."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phoneproof.devices.event_follower import EventFollower, Patience, events_file
from phoneproof.protocol.events import (
    CaseFinished,
    CaseStarted,
    Event,
    Heartbeat,
    JobFinished,
    JobStarted,
    Measured,
    RoundFinished,
    SampleStarted,
    Stamp,
    event_line,
)
from phoneproof.protocol.job import Job, Limits, ProtocolVersion
from tests.models.jobs import JobFiles, benchmark, configuration, indices, infer, job_of, load

LIMITS = Limits(load_timeout_ms=70_000, sample_timeout_ms=5_000, round_timeout_ms=900)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    files = JobFiles(tmp_path_factory.mktemp("files"))
    model, samples = files.model("m", b"any"), indices(files, 3)
    names = ("a", "b", "c", "d")
    return job_of(
        [configuration(name, model) for name in names],
        [samples],
        [
            *map(load, names),
            infer("a", samples),
            benchmark("b", samples, warmup_ms=30),
            benchmark("c", samples, "a", warmup_ms=30),
            benchmark("d", samples, "a", "by_process", warmup_ms=30),
        ],
        LIMITS,
    )


def stamp(seq: int) -> Stamp:
    return Stamp(1, seq, seq, seq)


def some_events(job: Job) -> list[Event]:
    return [
        JobStarted("job_started", stamp(0), ProtocolVersion(), job.job_id, {}, {}),
        CaseStarted("case_started", stamp(1), "infer-a", 0),
        SampleStarted("sample_started", stamp(2), "infer-a", 0),
        Heartbeat("heartbeat", stamp(3), "infer-a", 5),
        SampleStarted("sample_started", stamp(4), "infer-a", 1),
    ]


@settings(max_examples=40)
@given(data=st.data())
def test_events_in_pieces_are_the_events(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("job")
    files = JobFiles(folder / "store")
    samples = indices(files, 3)
    job = job_of([configuration("a", files.model("m", b"x"))], [samples], [load("a"), infer("a", samples)])
    events = some_events(job)
    content = "".join(map(event_line, events)).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=8)))
    path = events_file(folder, 1)
    path.parent.mkdir()
    follower = EventFollower(folder, 1, job)
    found: list[Event] = []
    for begin, end in zip([0, *cuts], [*cuts, len(content)], strict=True):
        with path.open("ab") as file:
            file.write(content[begin:end])
        found += follower.read()
    assert found == events
    assert follower.garbage is None
    # What is torn is cut, what is whole stays.
    with path.open("ab") as file:
        file.write(b'{"event":"heart')
    follower.cut()
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "line",
    [
        b"\x00\xff\n",
        b"{}\n",
        b"\n",
        event_line(Heartbeat("heartbeat", stamp(9), None, None)).encode(),
        event_line(Heartbeat("heartbeat", Stamp(2, 5, 0, 0), None, None)).encode(),
        event_line(SampleStarted("sample_started", stamp(5), "infer-a", 3)).encode(),
        event_line(CaseStarted("case_started", stamp(5), "../a", None)).encode(),
    ],
)
def test_garbage_is_cut_and_what_stands_before_it_stays(line: bytes, job: Job, tmp_path: Path) -> None:
    events = some_events(job)
    content = "".join(map(event_line, events)).encode()
    path = events_file(tmp_path, 1)
    path.parent.mkdir()
    path.write_bytes(content + line + content)
    follower = EventFollower(tmp_path, 1, job)
    assert follower.read() == events
    assert follower.garbage
    assert follower.read() == []
    follower.cut()
    assert path.read_bytes() == content


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def finished(case_id: str) -> CaseFinished:
    return CaseFinished("case_finished", stamp(0), case_id, "passed", None, Measured(), None)


def a_round(case_id: str) -> RoundFinished:
    return RoundFinished("round_finished", stamp(0), case_id, 0, "B", None, 1, ((1,),), None)


@pytest.mark.parametrize(
    ("event", "seconds"),
    [
        (None, 70.0),
        (CaseStarted("case_started", stamp(0), "load-a", None), 70.0),
        (CaseStarted("case_started", stamp(0), "infer-a", 0), 75.0),
        (SampleStarted("sample_started", stamp(0), "infer-a", 1), 5.0),
        (CaseStarted("case_started", stamp(0), "benchmark-b", None), 70.93),
        (a_round("benchmark-b"), 0.9),
        (CaseStarted("case_started", stamp(0), "benchmark-c", None), 140.96),
        (a_round("benchmark-c"), 0.9),
        (CaseStarted("case_started", stamp(0), "benchmark-d", None), 281.02),
        (a_round("benchmark-d"), 281.02),
        (finished("infer-a"), 70.0),
        (JobFinished("job_finished", stamp(0)), 10.0),
    ],
)
def test_each_step_has_its_time(event: Event | None, seconds: float, job: Job) -> None:
    clock = Clock()
    patience = Patience(job, clock)
    if event is not None:
        clock.now = 3.0
        assert not patience.is_over()
        patience.take(event)
    begin = clock.now
    while clock.now < begin + seconds - 0.01:
        clock.now = min(clock.now + 1.0, begin + seconds - 0.01)
        patience.take(Heartbeat("heartbeat", stamp(0), None, None))
        assert not patience.is_over()
    clock.now += 0.02
    assert patience.is_over()


def test_time_in_which_the_supervisor_was_stopped_does_not_count(job: Job) -> None:
    clock = Clock()
    patience = Patience(job, clock)
    patience.take(SampleStarted("sample_started", stamp(0), "infer-a", 1))
    clock.now = 2.0
    assert not patience.is_over()
    clock.now += 3_600.0
    assert not patience.is_over()
    clock.now += 2.9
    assert not patience.is_over()
    clock.now += 0.2
    assert patience.is_over()
