"""A runtime that misbehaves as its configuration's options say.

It doubles its input: a sample is its own number, the output `2 * index` as float32. Options: a key is `load`,
`close`, or the number of a sample; the value the name of a fault in FAULTS. `state` names a folder for faults
that happen once only.
"""

import ctypes
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phoneproof.runtimes.runtime import Invocation, LoadRequest, Runtime, Session


class VendorError(Exception):
    """What this vendor's runtime raises."""


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def runtime() -> Runtime:
    return Runtime("faulty", "1.0", FaultySession)


def dies_at_import() -> Runtime:
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError


class FaultySession:
    accelerator_actual: str | None = "cpu"
    operators: Mapping[str, int] | None = None

    def __init__(self, request: LoadRequest) -> None:
        self._options = request.options
        self._fault("load")

    def prepare(self, inputs: Mapping[str, NDArray[Any]]) -> Invocation:
        return lambda: self._invoke(inputs["index"])

    def _invoke(self, index: NDArray[Any]) -> Sequence[NDArray[Any]]:
        outputs = (2 * index.astype(np.float32),)
        answer = self._fault(str(int(index[0])))
        return outputs if answer is None else answer  # type: ignore[return-value]

    def close(self) -> None:
        self._fault("close")

    def _fault(self, place: str) -> object:
        if place not in self._options:
            return None
        name = self._options[place]
        if name.startswith("once-"):
            mark = Path(self._options["state"]) / f"{place}.done"
            if mark.exists():
                return None
            mark.touch()
        return FAULTS[name.removeprefix("once-")]()


def segfault() -> None:
    ctypes.string_at(0)


def sleep_forever() -> None:
    while True:
        time.sleep(3600)


def hang_with_gil() -> None:
    # PyDLL keeps the GIL: neither the heartbeat nor a signal's Python handler runs.
    ctypes.PyDLL(None).pause()


def eat_memory() -> None:
    kept = []
    while True:
        block = mmap.mmap(-1, 16 * 2**20)
        block.write(b"x" * len(block))
        kept.append(block)
        time.sleep(0.01)


def print_garbage() -> None:
    os.write(1, b'\xff\xfe\x00{"event":\r\n\x1b[31m' + bytes(range(256)) * 4 + b"\n")
    os.write(2, "Überlauf 溢出 \ud83d\n".encode("utf-8", "surrogatepass"))


def print_much() -> None:
    """80 MiB, a pause in which a supervisor looks at the log, and a last word."""
    for _ in range(80):
        os.write(1, b"x" * 2**20)
    time.sleep(0.5)
    os.write(1, b"last word\n")
    time.sleep(0.2)


def print_garbage_and_die() -> None:
    print_garbage()
    os.abort()


def _write_into_events(data: bytes) -> None:
    newest = max(Path("events").glob("*.jsonl"))
    with newest.open("ab") as file:
        file.write(data)


def half_a_line_then_die() -> None:
    _write_into_events(b'{"event":"case_finished","stamp":{"att')
    os._exit(9)


def garbage_line() -> None:
    _write_into_events(b"\x00\xff not an event\n")


def foreign_event() -> None:
    """A well-formed event of a case that the job does not have."""
    lines = max(Path("events").glob("*.jsonl")).read_bytes().splitlines()
    seq = len(lines)
    _write_into_events(
        b'{"event":"case_started","stamp":{"attempt":1,"seq":%d,"monotonic_ns":1,"wall_ms":1},'
        b'"case_id":"no-such-case","next_sample":null}\n' % seq
    )


def raise_vendor_error() -> None:
    raise VendorError("the graph has no kernel for Ünïcode")


def raise_unreadable() -> None:
    raise UnreadableError


def leave_a_child() -> None:
    """A daemon in a session of its own that would run for an hour."""
    code = "import time; time.sleep(3600)"
    child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    Path("left-child.txt").write_text(str(child.pid), encoding="ascii")


def leave_a_thread() -> None:
    threading.Thread(target=sleep_forever).start()


def fork_and_return() -> None:
    """A fork whose copy comes back into the harness: both go on from here."""
    os.fork()


def fill_disk() -> None:
    """Fill the disk of the job's folder to its last byte."""
    with Path("filler").open("wb", buffering=0) as file:
        for size in (2**16, 2**12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


FAULTS: Mapping[str, Callable[[], object]] = {
    "segfault": segfault,
    "abort": os.abort,
    "exit": lambda: os._exit(3),
    "sys-exit": lambda: sys.exit(4),
    "kill-itself": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "hang": sleep_forever,
    "hang-with-gil": hang_with_gil,
    "eat-memory": eat_memory,
    "print-garbage": print_garbage,
    "print-much": print_much,
    "print-garbage-and-die": print_garbage_and_die,
    "half-a-line": half_a_line_then_die,
    "garbage-line": garbage_line,
    "foreign-event": foreign_event,
    "raise": raise_vendor_error,
    "raise-unreadable": raise_unreadable,
    "wrong-shape": lambda: (np.zeros((3, 5), np.float32),),
    "nan": lambda: (np.full(1, np.nan, np.float32),),
    "nothing": lambda: 7,
    "strings": lambda: (np.array(["a"], object),),
    "leave-a-child": leave_a_child,
    "leave-a-thread": leave_a_thread,
    "fork": fork_and_return,
    "fill-disk": fill_disk,
    "slow": lambda: time.sleep(0.2),
}

_: type[Session] = FaultySession
