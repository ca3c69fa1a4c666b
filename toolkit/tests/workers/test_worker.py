"""A worker process may crash, hang, eat memory or answer nonsense: the caller gets one clear error."""

import os
from pathlib import Path
from threading import Event, Timer
from typing import Any

import psutil
import pytest

from phoneproof.errors import (
    Interrupted,
    PhoneproofError,
    RecipeError,
    StorageError,
    ToolchainError,
    WorkerError,
)
from phoneproof.workers.watched import log_tail
from phoneproof.workers.worker import WorkerCall, WorkerLimits, call_worker, worker_environment

LIMITS = WorkerLimits(timeout_s=60.0, memory_bytes=300 * 2**20)


def call(folder: Path, fault: str, limits: WorkerLimits = LIMITS, **request: Any) -> dict[str, Any]:
    return call_worker(
        WorkerCall(
            "tests.simulated.faulty_worker", {"fault": fault, **request}, folder / "work", limits=limits
        )
    )


def failed(folder: Path, fault: str, limits: WorkerLimits = LIMITS) -> PhoneproofError:
    with pytest.raises(PhoneproofError) as raised:
        call(folder, fault, limits)
    assert raised.value.facts["log"] == str(folder / "work" / "log.txt")
    assert raised.value.facts["worker"] == "tests.simulated.faulty_worker"
    return raised.value


def test_a_result_and_its_progress(tmp_path: Path) -> None:
    seen: list[tuple[str, int | None, int | None]] = []
    one = WorkerCall("tests.simulated.faulty_worker", {"fault": "none", "numbers": [1, 2]}, tmp_path / "work")
    result = call_worker(one, lambda *step: seen.append(step))
    assert result == {"sum": 3, "text": "Ünïcode 溢出"}
    assert set(seen) <= {("count", 1, 3), ("count", 2, 3), ("count", 3, 3)}


def test_a_stale_result_is_never_taken(tmp_path: Path) -> None:
    call(tmp_path, "none", numbers=[1])
    assert failed(tmp_path, "exit").facts["code"] == 3


@pytest.mark.parametrize(
    ("fault", "ended", "code", "text"),
    [
        ("segfault", "signal", 11, "signal 11"),
        ("abort", "signal", 6, "signal 6"),
        ("kill-itself", "signal", 9, "signal 9"),
        ("exit", "exited", 3, "code 3"),
        ("half-a-result", "exited", 0, "no answer"),
        ("list-as-result", "exited", 0, "no answer"),
        ("result-then-crash", "signal", 11, "signal 11"),
        ("eat-memory", "low_memory", 9, "memory"),
        ("hang-with-gil", "timed_out", 6, "in its time"),
        ("print-garbage-and-die", "signal", 6, "signal 6"),
    ],
)
def test_how_a_worker_may_end(fault: str, ended: str, code: int, text: str, tmp_path: Path) -> None:
    limits = WorkerLimits(timeout_s=4.0) if fault == "hang-with-gil" else LIMITS
    error = failed(tmp_path, fault, limits)
    assert type(error) is WorkerError
    assert (error.facts["ended"], error.facts["code"]) == (ended, code)
    assert text in error.what
    assert error.next_step
    tail = error.facts["log_tail"]
    assert isinstance(tail, tuple)
    if fault == "print-garbage-and-die":
        assert any("溢出" in line for line in tail)
    "\n".join(tail).encode()


def test_the_workers_own_error_keeps_class_place_and_facts(tmp_path: Path) -> None:
    error = failed(tmp_path, "refuse")
    assert type(error) is RecipeError
    assert (error.what, error.where, error.next_step) == ("No such option.", "recipe", "Remove it.")
    assert (error.facts["option"], error.facts["seen"]) == ("x", ("a", "b"))


@pytest.mark.parametrize(
    ("fault", "kind", "what"),
    [
        ("raise", WorkerError, "VendorError: the graph has no kernel for Ünïcode"),
        ("nan-as-result", WorkerError, "ValueError"),
        ("unknown-class", WorkerError, "3"),
        ("clashing-facts", ToolchainError, "w"),
    ],
)
def test_errors_of_no_class_or_wrong_shape(
    fault: str, kind: type[PhoneproofError], what: str, tmp_path: Path
) -> None:
    error = failed(tmp_path, fault)
    assert type(error) is kind
    assert error.what.startswith(what)


def test_garbage_in_the_progress_is_left_out(tmp_path: Path) -> None:
    seen: list[tuple[str, int | None, int | None]] = []
    one = WorkerCall("tests.simulated.faulty_worker", {"fault": "garbage-progress"}, tmp_path / "work")
    assert call_worker(one, lambda *step: seen.append(step)) == {}
    assert seen == [("s", None, 2)]


def test_stopping(tmp_path: Path) -> None:
    stop = Event()
    timer = Timer(0.5, stop.set)
    timer.start()
    one = WorkerCall("tests.simulated.faulty_worker", {"fault": "hang"}, tmp_path / "work", limits=LIMITS)
    with pytest.raises(Interrupted):
        call_worker(one, stop=stop)
    timer.join()
    mark = "tests.simulated.faulty_worker"
    assert [p.pid for p in psutil.Process().children(recursive=True) if mark in " ".join(p.cmdline())] == []


def test_nothing_that_a_worker_started_outlives_it(tmp_path: Path) -> None:
    call(tmp_path, "leave-a-child")
    child = int((tmp_path / "work" / "left-child.txt").read_text(encoding="ascii"))
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_an_absent_interpreter_and_an_unwritable_folder(tmp_path: Path) -> None:
    with pytest.raises(WorkerError):
        call_worker(WorkerCall("m", {}, tmp_path / "work", interpreter=tmp_path / "no-python"))
    (tmp_path / "file").touch()
    with pytest.raises(StorageError):
        call_worker(WorkerCall("m", {}, tmp_path / "file" / "work"))


def test_a_worker_that_prints_without_end_does_not_fill_the_disk(tmp_path: Path) -> None:
    call(tmp_path, "print-much")
    log = tmp_path / "work" / "log.txt"
    assert log.stat().st_size < 64 * 2**20
    assert log_tail(log)[-1].endswith("last word")


def test_what_the_user_has_in_pythonpath_stays_behind_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/users/own")
    places = worker_environment((Path("/plan"),))["PYTHONPATH"].split(os.pathsep)
    assert (places[0], places[-1], len(places)) == ("/plan", "/users/own", 3)
