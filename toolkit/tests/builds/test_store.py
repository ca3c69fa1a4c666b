"""The store under several writers, crashes, full and read-only disks, and when it is pruned."""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Event, Thread

import pytest

from phoneproof.builds import store as module
from phoneproof.builds.store import (
    ABANDONED_S,
    STORE_VARIABLE,
    Store,
    cache_key,
    default_store,
    link_folder,
    storage_errors,
)
from phoneproof.errors import BusyError, Interrupted, StorageError


def put(store: Store, key: str, content: bytes = b"model", age_s: float = 0.0) -> Path:
    """An entry with one file, last used so long ago."""
    with store.staging("builds", key) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "model.bin").write_bytes(content)
    entry = store.root / "builds" / key
    used = time.time() - age_s
    os.utime(entry, (used, used))
    return entry


def left_over(store: Store) -> list[Path]:
    return list((store.root / "staging").glob("*"))


def test_an_entry_is_not_there_until_it_is_whole(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.staging("builds", "k") as folder:
        (folder / "a").write_bytes(b"1")
        assert store.find("builds", "k") is None
    found = store.find("builds", "k")
    assert found is not None
    assert (found / "a").read_bytes() == b"1"
    assert left_over(store) == []


class MakerFailedError(Exception):
    pass


def test_an_error_while_it_is_made_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def make() -> None:
        with store.staging("builds", "k") as folder:
            (folder / "a").write_bytes(b"1")
            raise MakerFailedError

    with pytest.raises(MakerFailedError):
        make()
    assert store.find("builds", "k") is None
    assert left_over(store) == []


def test_a_killed_maker_leaves_no_entry_and_its_rest_is_swept_in_a_day(tmp_path: Path) -> None:
    code = f"""
import os
from pathlib import Path
from phoneproof.builds.store import Store
with Store(Path({str(tmp_path)!r})).staging("builds", "k") as folder:
    (folder / "a").write_bytes(b"half")
    os.kill(os.getpid(), 9)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(module.__file__).parents[2])}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == -9
    store = Store(tmp_path)
    assert store.find("builds", "k") is None
    assert store.entries() == ()
    (left,) = left_over(store)
    store.prune(10**9)
    assert left.exists()
    old = time.time() - ABANDONED_S - 60
    os.utime(left, (old, old))
    store.prune(10**9)
    assert left_over(store) == []


def test_of_two_makers_the_first_wins_and_both_find_a_whole_entry(tmp_path: Path) -> None:
    store, ready = Store(tmp_path), Barrier(4)

    def make(content: bytes) -> None:
        with store.staging("builds", "k") as folder:
            for number in range(20):
                (folder / str(number)).write_bytes(content)
            ready.wait(20)

    threads = [Thread(target=make, args=(bytes([n]) * 100,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = store.find("builds", "k")
    assert found is not None
    contents = {(found / str(number)).read_bytes() for number in range(20)}
    assert len(contents) == 1
    assert left_over(store) == []


def test_processes_that_hold_the_lock_make_an_entry_once(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from phoneproof.builds.store import Store
store = Store(Path({str(tmp_path)!r}))
for number in range(10):
    key = f"k{{number}}"
    with store.locked("builds", key):
        if store.find("builds", key) is None:
            with (Path({str(tmp_path)!r}) / "made.txt").open("a") as file:
                file.write(key + "\\n")
            with store.staging("builds", key) as folder:
                (folder / "a").write_text(key)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(module.__file__).parents[2])}
    makers = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(3)]
    assert [maker.wait(60) for maker in makers] == [0, 0, 0]
    made = (tmp_path / "made.txt").read_text().split()
    assert sorted(made) == sorted(f"k{number}" for number in range(10))


def test_threads_exclude_each_other_and_waiting_has_an_end(tmp_path: Path) -> None:
    store, held, done = Store(tmp_path), Event(), Event()

    def hold() -> None:
        with store.locked("builds", "k"):
            held.set()
            done.wait(30)

    thread = Thread(target=hold)
    thread.start()
    try:
        assert held.wait(30)
        with pytest.raises(BusyError), store.locked("builds", "k", timeout_s=0.01):
            pass
        stop = Event()
        stop.set()
        with pytest.raises(Interrupted), store.locked("builds", "k", stop=stop):
            pass
        with store.locked("builds", "other", timeout_s=0.01):
            pass
    finally:
        done.set()
        thread.join()
    with store.locked("builds", "k", timeout_s=10):
        pass


def test_a_damaged_entry_is_not_found_and_can_be_made_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    entry = put(store, "k")
    (entry / "inner" / "model.bin").write_bytes(b"modle")
    assert store.find("builds", "k") is None
    store.discard("builds", "k")
    store.discard("builds", "k")
    put(store, "k")
    assert store.find("builds", "k") == entry
    assert left_over(store) == []


def test_pruning_takes_the_least_recently_used_first(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for key, age in (("new", 10), ("old", 1_000), ("middle", 500)):
        put(store, key, b"x" * 10_000, age)
    sizes = {entry.key: entry.size_bytes for entry in store.entries()}
    assert [entry.key for entry in store.entries()] == ["old", "middle", "new"]
    removed = store.prune(sizes["new"] + sizes["middle"])
    assert [entry.key for entry in removed] == ["old"]
    assert store.prune(sizes["new"] + sizes["middle"]) == ()
    assert [entry.key for entry in store.prune(0)] == ["middle", "new"]
    assert store.entries() == ()
    assert left_over(store) == []


def test_finding_an_entry_counts_as_use(tmp_path: Path) -> None:
    store = Store(tmp_path)
    put(store, "a", age_s=1_000)
    put(store, "b", age_s=500)
    assert store.find("builds", "a") is not None
    assert [entry.key for entry in store.entries()] == ["b", "a"]


def test_what_was_used_of_late_stays(tmp_path: Path) -> None:
    store = Store(tmp_path)
    put(store, "recent", age_s=10)
    put(store, "old", age_s=1_000)
    assert [entry.key for entry in store.prune(0, unused_for_s=100)] == ["old"]
    assert [entry.key for entry in store.entries()] == ["recent"]


def test_a_set_that_is_being_written_is_no_entry_and_is_not_pruned(tmp_path: Path) -> None:
    writing = tmp_path / "samples" / ".abc.tmp-12"
    writing.mkdir(parents=True)
    (writing / "shard").write_bytes(b"x" * 1_000)
    store = Store(tmp_path)
    assert store.entries() == ()
    assert store.prune(0) == ()
    assert writing.exists()


def test_managed_environments_are_listed_apart_and_never_pruned(tmp_path: Path) -> None:
    store = Store(tmp_path)
    put(store, "k")
    installed = tmp_path / "toolchains" / "onnxruntime-0123456789ab" / "bin" / "python"
    installed.parent.mkdir(parents=True)
    installed.write_bytes(b"x" * 1_000)
    (tmp_path / "toolchains" / "onnxruntime-0123456789ab.lock").touch()
    (found,) = store.environments()
    assert (found.kind, found.key, found.size_bytes) == ("toolchain", "onnxruntime-0123456789ab", 1_000)
    assert [entry.kind for entry in store.entries()] == ["builds"]
    assert [entry.key for entry in store.prune(0)] == ["k"]
    assert installed.exists()


def test_a_run_keeps_its_files_when_the_store_is_pruned(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    entry = put(store, "k", b"content")
    target = tmp_path / "run" / "builds" / "m"
    link_folder(entry, target)
    assert (target / "inner" / "model.bin").samefile(entry / "inner" / "model.bin")
    store.prune(0)
    assert (target / "inner" / "model.bin").read_bytes() == b"content"


def test_linking_twice_and_by_two_at_once_is_no_error(tmp_path: Path) -> None:
    entry = put(Store(tmp_path / "store"), "k")
    target = tmp_path / "run" / "m"
    threads = [Thread(target=link_folder, args=(entry, target)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    link_folder(entry, target)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["m"]
    assert (target / "inner" / "model.bin").read_bytes() == b"model"


@pytest.fixture
def other_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        # In CI this may not be left out unnoticed.
        assert os.environ.get("CI") != "true", done.stderr
        pytest.skip(f"no tmpfs can be mounted: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_folder_is_copied_to_another_disk(tmp_path: Path, other_disk: Path) -> None:
    entry = put(Store(tmp_path / "store"), "k")
    link_folder(entry, other_disk / "m")
    copied = other_disk / "m" / "inner" / "model.bin"
    assert copied.read_bytes() == b"model"
    assert copied.stat().st_dev != (entry / "inner" / "model.bin").stat().st_dev


def test_a_disk_without_room_for_a_copy_is_a_storage_error(tmp_path: Path, other_disk: Path) -> None:
    entry = put(Store(tmp_path / "store"), "k", b"x" * 2 * 2**20)
    with pytest.raises(StorageError) as raised:
        link_folder(entry, other_disk / "m")
    assert raised.value.next_step is not None
    assert "space" in raised.value.next_step
    assert list(other_disk.iterdir()) == []


def test_a_full_disk_leaves_no_entry(other_disk: Path) -> None:
    store = Store(other_disk)
    with pytest.raises(StorageError) as raised:
        put(store, "k", b"x" * 2 * 2**20)
    assert "No space left" in raised.value.what
    assert store.entries() == ()
    assert left_over(store) == []


def test_a_store_that_cannot_be_written_is_said_by_all_that_write(other_disk: Path) -> None:
    store = Store(other_disk)
    entry = put(store, "k")
    subprocess.run(["mount", "-o", "remount,ro", str(other_disk)], check=True)
    assert store.find("builds", "k") == entry
    for write in (
        lambda: put(store, "other"),
        lambda: store.locked("builds", "other").__enter__(),
        lambda: store.discard("builds", "k"),
        lambda: store.prune(0),
        store.open_for_writing,
    ):
        with pytest.raises(StorageError) as raised:
            write()
        assert str(other_disk) in str(raised.value.where)
        assert raised.value.next_step is not None
    assert entry.is_dir()


@pytest.mark.parametrize(
    "number",
    [
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EROFS,
        errno.EACCES,
        errno.EPERM,
        errno.ENOTDIR,
        errno.EEXIST,
    ],
)
def test_what_a_disk_refuses_names_the_place_and_the_way_out(tmp_path: Path, number: int) -> None:
    with pytest.raises(StorageError) as raised, storage_errors(tmp_path):
        raise OSError(number, os.strerror(number), "some/file")
    assert raised.value.where == "some/file"
    assert raised.value.next_step


def test_a_fault_that_is_none_of_the_disk_goes_through(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), storage_errors(tmp_path):
        raise FileNotFoundError(errno.ENOENT, "gone")


def test_keys_depend_on_all_parts_and_not_on_their_order() -> None:
    assert cache_key({"a": 1, "b": [1, 2]}) == cache_key({"b": [1, 2], "a": 1})
    assert cache_key({"a": 1}) != cache_key({"a": 2}) != cache_key({"a": "1"})
    with pytest.raises(ValueError, match="JSON"):
        cache_key({"a": float("nan")})


def test_where_the_store_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(STORE_VARIABLE, str(tmp_path / "own"))
    assert default_store() == tmp_path / "own"
    monkeypatch.delenv(STORE_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert default_store() == tmp_path / "cache" / "phoneproof"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_store() == tmp_path / ".cache" / "phoneproof"


def test_a_relative_store_is_told_to_workers_as_an_absolute_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for variable, inner in ((STORE_VARIABLE, "own"), ("XDG_CACHE_HOME", "own/phoneproof")):
        monkeypatch.delenv(STORE_VARIABLE, raising=False)
        monkeypatch.setenv(variable, "own")
        assert default_store() == tmp_path / inner
    assert Store(Path("own")).root == tmp_path / "own"


@pytest.mark.parametrize("place", ["/proc/nope", "file", "file/inner"])
def test_a_store_that_cannot_be_made_names_the_variable(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError) as raised:
        Store(tmp_path / place).open_for_writing()
    assert raised.value.where == str(tmp_path / place)
    assert STORE_VARIABLE in str(raised.value.next_step)
