"""The process is killed at random moments, or told to stop; the same command finishes the run."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.runs.evidence import check_folder, check_journal, comparable
from tests.runs.project import Project, journal_of
from tests.runs.shared import Finished

STAGES: Final = frozenset({"start", "samples", "ranges", "build", "reference", "job", "between", "end"})
"""Where two hundred kills surely fall; the inspection takes too little time for that."""

MOST_KILLS_OF_A_RUN: Final = 5


@dataclass(frozen=True)
class Chain:
    """One run, killed several times: the delays in seconds, and what was under way at each kill."""

    delays: tuple[float, ...]
    hit: tuple[frozenset[str], ...]


def delays(seed: int, seconds: float) -> Iterator[tuple[float, ...]]:
    """For each run the moments of its kills. The first lies anywhere in the run, and each further one
    anywhere in what a second process may still have to do."""
    draw = random.Random(seed)
    while True:
        count = draw.randint(1, MOST_KILLS_OF_A_RUN)
        first = draw.uniform(0, seconds)
        yield (first, *(draw.uniform(0, seconds) * 0.7 for _ in range(count - 1)))


def under_way(run: Path) -> frozenset[str]:
    """What a killed process was doing, out of its journal: kinds of the steps without an end."""
    if not (run / "journal.jsonl").exists():
        return frozenset({"start"})
    open_steps: list[str] = []
    for line in journal_of(run):
        if line.entry == "step_started" and line.step is not None:
            open_steps.append(line.step)
        elif line.entry in ("step_finished", "step_failed") and line.step is not None:
            open_steps.remove(line.step)
        elif line.entry == "resumed":
            open_steps.clear()
    ended = {line.step for line in journal_of(run) if line.entry == "step_finished"}
    if open_steps:
        kinds = {"reference" if "reference/" in step else step.partition("/")[0] for step in open_steps}
        return frozenset(kinds)
    return frozenset({"end" if "job/host/onnxruntime" in ended else "between" if ended else "start"})


def descendants_are_gone(store: Path) -> bool:
    """Whether no process is left that was started with this store, in at most 10 s."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if not any(_uses(process, store) for process in psutil.process_iter()):
            return True
        time.sleep(0.1)
    return False


def _uses(process: psutil.Process, store: Path) -> bool:
    try:
        alive = process.status() != psutil.STATUS_ZOMBIE
        return alive and process.environ().get("PHONEPROOF_STORE") == str(store)
    except (psutil.Error, OSError):
        return False


def killed_and_finished(
    finished: Finished, blank: Project, folder: Path, moments: tuple[float, ...]
) -> Chain:
    """Kill one run at these moments, finish it, and hold it against the undisturbed one."""
    project = blank.copy(folder / "project", folder / "store")
    run = project.folder / "run"
    hit = []
    for seconds in moments:
        process = project.start("run", "--out", "run")
        try:
            process.communicate(timeout=seconds)
            break  # it came to its end before
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        assert descendants_are_gone(project.store)
        hit.append(under_way(run))
    answer = project.call("run", "--out", "run")
    assert answer.code == 0, (moments, hit, answer.err)
    assert comparable(run) == comparable(finished.run), (moments, hit)
    check_journal(run, len(hit))
    check_folder(run, project.store)
    return Chain(moments, tuple(hit))


def kill_often(finished: Finished, blank: Project, folder: Path, kills: int, seed: int) -> Counter[str]:
    """Kill runs, two at a time, until there were that many kills; what was under way at them."""
    hit: Counter[str] = Counter()
    chains = delays(seed, finished.seconds)
    number = killed = 0
    with ThreadPoolExecutor(2) as pool:
        while killed < kills:
            pair = [next(chains), next(chains)]
            folders = [folder / str(number + place) for place in (0, 1)]
            number += 2
            for chain in pool.map(
                lambda of: killed_and_finished(finished, blank, *of), zip(folders, pair, strict=True)
            ):
                killed += len(chain.hit)
                hit.update(kind for kinds in chain.hit for kind in kinds)
    return hit


def test_a_killed_run_is_finished_by_the_same_command(
    finished: Finished, blank: Project, tmp_path: Path
) -> None:
    hit = kill_often(finished, blank, tmp_path, kills=5, seed=3)
    assert len(hit) > 1, hit


@pytest.mark.slow
def test_two_hundred_kills_at_random_moments(
    finished: Finished, blank: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hit = kill_often(finished, blank, tmp_path, kills=200, seed=20)
    with capsys.disabled():
        sys.stdout.write(f"\nkills by what was under way: {dict(hit.most_common())}\n")
    assert set(hit) >= STAGES, hit


def until_it_does(project: Project, run: Path, kind: str, process: "subprocess.Popen[bytes]") -> None:
    while kind not in under_way(run):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("number", "command", "kind"),
    [(signal.SIGINT, "build", "ranges"), (signal.SIGTERM, "run", "job")],
    ids=["ctrl-c", "terminated"],
)
def test_a_stopped_run_says_so_and_is_finished_by_the_same_command(
    finished: Finished, blank: Project, tmp_path: Path, number: signal.Signals, command: str, kind: str
) -> None:
    project = blank.copy(tmp_path / "project", tmp_path / "store")
    run = project.folder / "run"
    process = project.start(command, "--out", "run", start_new_session=True)
    until_it_does(project, run, kind, process)
    os.killpg(process.pid, number)  # as a terminal does: the whole group gets it
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == b""
    assert "error: The run was stopped.\n" in err.decode()
    assert "The same command goes on" in err.decode()
    assert "failed" not in err.decode()
    assert descendants_are_gone(project.store)
    answer = project.call(command, "--out", "run")
    assert answer.code == 0, answer.err
    check_folder(run, project.store)
    if command == "run":
        assert comparable(run) == comparable(finished.run)
        check_journal(run, 1)
