"""What the kernel tells of threads that wait for a processor."""

import hashlib
import os
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phoneproof.harness.waiting import thread_waits, waited_ns

WAITS = st.dictionaries(st.integers(1, 9), st.integers(0, 10**12))


def tasks(folder: Path, lines: dict[str, str]) -> Path:
    for thread, line in lines.items():
        (folder / thread).mkdir()
        (folder / thread / "schedstat").write_text(line)
    return folder


def test_the_second_field_of_every_thread_is_its_waiting(tmp_path: Path) -> None:
    folder = tasks(tmp_path, {"10": "5000 700 3\n", "11": "1 20 1\n"})
    assert thread_waits(folder) == {10: 700, 11: 20}


@pytest.mark.parametrize(
    "line",
    [
        "0 0 0\n",  # a kernel without the accounting
        "",
        "1 2\n",
        "a b c\n",
    ],
)
def test_a_system_that_does_not_tell(line: str, tmp_path: Path) -> None:
    assert thread_waits(tasks(tmp_path, {"10": line})) is None


def test_a_system_without_such_files(tmp_path: Path) -> None:
    assert thread_waits(tmp_path / "none") is None
    (tmp_path / "10").mkdir()
    assert thread_waits(tmp_path) is None


@given(WAITS, WAITS)
def test_only_growth_counts_and_a_new_thread_counts_whole(
    before: dict[int, int], after: dict[int, int]
) -> None:
    found = waited_ns(before, after)
    new = sum(waited for thread, waited in after.items() if thread not in before)
    grown = sum(max(0, after[thread] - before[thread]) for thread in after.keys() & before.keys())
    assert found == new + grown


def test_what_is_unknown_at_one_end_is_unknown() -> None:
    assert waited_ns(None, {1: 5}) is None
    assert waited_ns({1: 5}, None) is None


@pytest.mark.skipif(sys.platform != "linux", reason="schedstat is Linux's")
def test_threads_that_share_one_processor_wait_for_each_other() -> None:
    before = thread_waits()
    if before is None:
        pytest.skip("this kernel does not account waiting")
    allowed = os.sched_getaffinity(0)
    computed, read = threading.Barrier(5), threading.Event()

    def compute() -> None:
        hashlib.sha256(bytes(50_000_000))  # some ten ms, outside of the interpreter's lock
        computed.wait()
        read.wait()

    threads = [threading.Thread(target=compute) for _ in range(4)]
    os.sched_setaffinity(0, {min(allowed)})  # of this thread, and inherited by those that it starts
    try:
        for thread in threads:
            thread.start()
        computed.wait()
        after = thread_waits()
    finally:
        read.set()
        os.sched_setaffinity(0, allowed)
    waited = waited_ns(before, after)
    assert waited is not None
    # In whatever order they run, the four together wait at least as long as six computations take.
    assert waited > 10_000_000
