"""How many workers run side by side: as many as there are processors and memory for, one always."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Lock, Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phoneproof.errors import Interrupted
from phoneproof.workers.tokens import WorkerTokens

LONG_S = 60.0


class Gauge:
    """What runs at one moment, and the most there ever was."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: list[int] = []
        self.seen: list[tuple[int, int]] = []

    def enter(self, need: int) -> None:
        with self._lock:
            self._running.append(need)
            self.seen.append((len(self._running), sum(self._running)))

    def leave(self, need: int) -> None:
        with self._lock:
            self._running.remove(need)


def run_all(tokens: WorkerTokens, needs: Sequence[int]) -> Gauge:
    gauge, stop = Gauge(), Event()

    def work(need: int) -> None:
        with tokens.take(need, stop):
            gauge.enter(need)
            gauge.leave(need)

    with ThreadPoolExecutor(len(needs)) as pool:
        for future in [pool.submit(work, need) for need in needs]:
            future.result(LONG_S)
    return gauge


@settings(max_examples=25)
@given(st.lists(st.integers(1, 150), min_size=1, max_size=8), st.integers(1, 4))
def test_never_more_workers_than_slots_nor_more_memory_than_there_is(needs: list[int], slots: int) -> None:
    gauge = run_all(WorkerTokens(100, slots), needs)
    assert len(gauge.seen) == len(needs)
    assert all(count <= slots for count, _ in gauge.seen)
    assert all(total <= 100 or count == 1 for count, total in gauge.seen)


def test_workers_that_fit_run_side_by_side() -> None:
    tokens, met, stop = WorkerTokens(100, 3), Barrier(3), Event()

    def work() -> None:
        with tokens.take(30, stop):
            met.wait(LONG_S)  # broken, and an error, unless all three are inside at once

    with ThreadPoolExecutor(3) as pool:
        for future in [pool.submit(work) for _ in range(3)]:
            future.result(LONG_S)


def test_a_worker_that_needs_more_than_there_is_runs_alone() -> None:
    tokens = WorkerTokens(100, 4)
    with tokens.take(10_000, Event()):
        assert _is_kept_waiting(tokens, 1)
    with tokens.take(1, Event()):
        assert _is_kept_waiting(tokens, 10_000)


def test_what_a_failed_worker_took_is_given_back() -> None:
    tokens = WorkerTokens(100, 1)
    with pytest.raises(ValueError, match="mine"), tokens.take(100, Event()):
        raise ValueError("mine")
    with tokens.take(100, Event()):
        pass


def test_a_stop_ends_the_waiting_and_not_the_work() -> None:
    tokens, stop = WorkerTokens(100, 1), Event()
    with tokens.take(50, stop):
        stop.set()
        with pytest.raises(Interrupted), tokens.take(50, stop):
            pass
    with tokens.take(50, Event()):
        pass


def test_the_machine_decides_where_nothing_is_said() -> None:
    tokens = WorkerTokens()
    with tokens.take(1, Event()):
        assert _is_kept_waiting(tokens, 2**60)


def _is_kept_waiting(tokens: WorkerTokens, need: int) -> bool:
    """Whether a worker waits until it is told to stop."""
    stop, ended = Event(), []

    def work() -> None:
        try:
            with tokens.take(need, stop):
                ended.append("ran")
        except Interrupted:
            ended.append("waited")

    thread = Thread(target=work)
    thread.start()
    stop.set()
    thread.join(LONG_S)
    return ended == ["waited"]
